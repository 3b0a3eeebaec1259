"""The lock of writers and checkpoints."""

from pathlib import Path

import pytest

from tokimori.errors import StoreUnavailable
from tokimori.stores.sqlite import file_lock
from tokimori.stores.sqlite.file_lock import FileLock


def test_one_holds_the_lock_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that share a file hold the lock in turn; who waits too long hears what to do."""
    monkeypatch.setattr(file_lock, "PATIENCE", 0)
    path = str(tmp_path / "a.db-lock")
    first, second = FileLock(path), FileLock(path)
    with first.held(), pytest.raises(StoreUnavailable, match="let it go on or end it"), second.held():
        pass
    with second.held():
        pass
    first.close()
    second.close()


def test_the_lock_is_freed_when_its_holder_fails(tmp_path: Path) -> None:
    """An error inside the lock frees it."""
    lock = FileLock(str(tmp_path / "a.db-lock"))
    with pytest.raises(ZeroDivisionError), lock.held():
        raise ZeroDivisionError
    with lock.held():
        pass
    lock.close()
