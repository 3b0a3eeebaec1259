"""What tests of the service start from."""

import pytest

from tests.unit.service.world import World


@pytest.fixture
def world() -> World:
    """A new one, at the new year of 2030."""
    return World()
