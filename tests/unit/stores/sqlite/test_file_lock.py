"""The lock of writers and checkpoints."""

import fcntl
from pathlib import Path
from threading import Event, Thread

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


def test_who_waits_is_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever frees the lock can't have it again before another one that waits for it: beats of others would starve."""
    path = str(tmp_path / "a.db-lock")
    first, second = FileLock(path), FileLock(path)
    done = Event()

    def wait_and_hold() -> None:
        with second.held():
            done.wait(30)

    waiting = Thread(target=wait_and_hold)
    with first.held():
        waiting.start()
        while _is_free(f"{path}-turn"):
            pass
    with monkeypatch.context() as hasty:
        hasty.setattr(file_lock, "PATIENCE", 0)
        with pytest.raises(StoreUnavailable), first.held():
            pass
    done.set()
    waiting.join()
    first.close()
    second.close()


def test_who_is_frozen_with_the_turn_stops_nobody(tmp_path: Path) -> None:
    """A process that stands still while it waits holds others up once and shortly, not for as long as it stands."""
    lock = FileLock(str(tmp_path / "a.db-lock"))
    with (tmp_path / "a.db-lock-turn").open() as frozen:
        fcntl.flock(frozen, fcntl.LOCK_EX)
        lock._patience = 0.01
        with lock.held():
            assert lock._patience == 0
    with lock.held():
        assert lock._patience == file_lock.TURN
    lock.close()


def _is_free(path: str) -> bool:
    with Path(path).open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
