"""The system's word that a file was written."""

import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tokimori.stores.sqlite.watch import Inotify

SOON = 5.0
"""Seconds: far more than it takes."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify(7) is Linux's")


@pytest.fixture
async def inotify() -> AsyncIterator[Inotify]:
    """Open."""
    opened = Inotify.open()
    assert opened is not None
    yield opened
    opened.close()


async def test_a_write_is_told(inotify: Inotify, tmp_path: Path) -> None:
    """Whoever asked before a write hears of it, as often as they ask."""
    file = tmp_path / "file"
    file.touch()
    for _ in range(3):
        assert inotify.arm(str(file))
        file.write_text("news")
        assert await inotify.changed_within(SOON)


async def test_what_was_told_is_not_told_again(inotify: Inotify, tmp_path: Path) -> None:
    """A write is told to whom asked before it, and not to whom asks after it."""
    file = tmp_path / "file"
    file.touch()
    assert inotify.arm(str(file))
    file.write_text("news")
    assert await inotify.changed_within(SOON)
    file.write_text("nobody has asked")
    assert inotify.arm(str(file))
    assert not await inotify.changed_within(0.01)


@pytest.mark.parametrize("gone", [lambda file: file.unlink(), lambda file: file.rename(file.with_name("else"))])
async def test_a_file_that_goes_is_told(inotify: Inotify, tmp_path: Path, gone: Callable[[Path], object]) -> None:
    """Whoever waits for a file that is removed, or moved away, is told, too."""
    file = tmp_path / "file"
    file.touch()
    assert inotify.arm(str(file))
    gone(file)
    assert await inotify.changed_within(SOON)
    assert not inotify.arm(str(file))
