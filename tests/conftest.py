"""Settings of all tests."""

import pytest
from hypothesis import settings

from tests.servers.postgres import remove_server

settings.register_profile("tokimori", deadline=None, print_blob=True)
settings.load_profile("tokimori")


@pytest.hookimpl
def pytest_sessionfinish() -> None:
    """Leave no server behind."""
    remove_server()
