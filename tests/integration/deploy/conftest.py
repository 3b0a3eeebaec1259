"""The program, in a folder of its own."""

from pathlib import Path

import pytest

from tests.integration.cli.conftest import Program


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """One on a store of its own."""
    return Program(tmp_path)
