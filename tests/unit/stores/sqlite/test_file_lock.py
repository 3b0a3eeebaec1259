"""The lock of writers and checkpoints."""

import fcntl
from pathlib import Path
from threading import Event, Thread

import pytest

from tokimori import ownership
from tokimori.errors import StoreUnavailable
from tokimori.stores.sqlite import connection_thread
from tokimori.stores.sqlite.connection_thread import FileLock


def database(folder: Path) -> str:
    """The path of a file that one may lock."""
    (folder / "a.db").touch()
    return str(folder / "a.db")


def test_one_holds_the_lock_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that share a file hold the lock in turn; who waits too long hears what to do."""
    monkeypatch.setattr(connection_thread, "PATIENCE", 0)
    path = database(tmp_path)
    first, second = FileLock(path), FileLock(path)
    with first.held(), pytest.raises(StoreUnavailable, match="let it go on or end it"), second.held():
        pass
    with second.held():
        pass
    first.close()
    second.close()


def test_the_lock_is_freed_when_its_holder_fails(tmp_path: Path) -> None:
    """An error inside the lock frees it."""
    lock = FileLock(database(tmp_path))
    with pytest.raises(ZeroDivisionError), lock.held():
        raise ZeroDivisionError
    with lock.held():
        pass
    lock.close()


def test_a_lock_that_others_may_have_open_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever opened it while all could, and holds it for ever, keeps nobody waiting."""
    monkeypatch.setattr(ownership, "_PATIENCE", 0)
    path = tmp_path / "a.db-lock"
    path.touch(mode=0o644)
    with path.open() as foreign:
        fcntl.flock(foreign, fcntl.LOCK_EX)
        lock = FileLock(database(tmp_path))
        with lock.held():
            assert path.stat().st_mode & 0o777 == 0o600
        lock.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.db", "a.db-lock", "a.db-turn"]


def test_a_lock_that_was_replaced_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has the old one open and who comes later hold the lock in turn, as before; it may be removed as well."""
    monkeypatch.setattr(connection_thread, "PATIENCE", 0)
    first, path = FileLock(database(tmp_path)), tmp_path / "a.db-lock"
    for is_removed in (False, True):
        if is_removed:
            path.unlink()
        else:
            path.chmod(0o644)
        second = FileLock(database(tmp_path))
        with second.held(), pytest.raises(StoreUnavailable), first.held():
            pass
        with first.held():
            pass
        second.close()
    first.close()


def test_who_waits_is_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever frees the lock can't have it again before another one that waits for it: beats of others would starve."""
    path = database(tmp_path)
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
        hasty.setattr(connection_thread, "PATIENCE", 0)
        with pytest.raises(StoreUnavailable), first.held():
            pass
    done.set()
    waiting.join()
    first.close()
    second.close()


def test_who_is_frozen_with_the_turn_stops_nobody(tmp_path: Path) -> None:
    """A process that stands still while it waits holds others up once and shortly, not for as long as it stands."""
    lock = FileLock(database(tmp_path))
    with (tmp_path / "a.db-turn").open() as frozen:
        fcntl.flock(frozen, fcntl.LOCK_EX)
        lock._patience = 0.01
        with lock.held():
            assert lock._patience == 0
    with lock.held():
        assert lock._patience == connection_thread.TURN
    lock.close()


def _is_free(path: str) -> bool:
    with Path(path).open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
