"""Workshops to test in."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.executors.workshop import Workshop


@pytest.fixture
async def workshop(tmp_path: Path) -> AsyncIterator[Workshop]:
    """An open workshop, closed in the end."""
    workshop = Workshop(tmp_path)
    await workshop.open()
    yield workshop
    await workshop.executor.close()
