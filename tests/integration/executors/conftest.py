"""Workshops to test in."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.executors.workshop import Workshop


@pytest.fixture
async def workshop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Workshop]:
    """An open workshop, closed in the end. Its parameter, if any, is the way of noticing exits."""
    workshop = Workshop(tmp_path, pidfd=getattr(request, "param", "pidfd") == "pidfd")
    await workshop.open()
    yield workshop
    await workshop.executor.close()
