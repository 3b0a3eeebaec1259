"""Lock of one database file, which each writer and checkpoint of any process holds."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tokimori.errors import StoreUnavailable
from tokimori.ownership import open_private, still_private

PATIENCE = 3.0
"""Seconds to wait for another process's transaction: less than a lease, so that a node learns of it in time."""
TURN = 0.5
"""Seconds to wait for the turn: a process frozen with it delays others no longer than that, and once."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.005


class FileLock:
    """An flock beside the database, for one transaction or checkpoint at a time; freed when its process dies.

    SQLite's own write lock lets a checkpoint run beside a commit, by which versions below 3.51.3 can damage the file
    (the WAL-reset bug); under this lock they never meet. It is taken by trying, because a blocking flock can't time
    out. Only the holder of the turn, a lock of another file, tries: else one that writes without a break would be first
    again and again.
    """

    def __init__(self, database: str) -> None:
        self._lock, self._turn = _PrivateLock(f"{database}-lock", database), _PrivateLock(f"{database}-turn", database)
        self._patience = TURN

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock. Raises `StoreUnavailable` after `PATIENCE`."""
        has_turn = self._turn.takes(self._patience, _LONGEST_PAUSE)
        self._patience = TURN if has_turn else 0
        try:
            is_held = self._lock.takes(PATIENCE, _FIRST_PAUSE if has_turn else _LONGEST_PAUSE)
        finally:
            if has_turn:
                self._turn.free()
        if not is_held:
            raise StoreUnavailable(
                f"another process has been writing to the store for over {PATIENCE:g} s ({self._lock.path} is locked);"
                " if it is stopped, let it go on or end it"
            )
        try:
            yield
        finally:
            self._lock.free()

    def close(self) -> None:
        """Free the descriptors."""
        self._lock.close()
        self._turn.close()


class _PrivateLock:
    """An flock of a file that only the owner of the database can open."""

    def __init__(self, path: str, database: str) -> None:
        self.path, self._database = path, database
        self._descriptor = open_private(path, like=database)

    def takes(self, patience: float, longest: float) -> bool:
        """Take the lock within so many seconds, trying every `longest` seconds; return whether it was free."""
        deadline, pause = time.monotonic() + patience, _FIRST_PAUSE
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                held, self._descriptor = self._descriptor, still_private(self._descriptor, self.path, self._database)
                if held == self._descriptor:
                    return True
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    return False
            except OSError as fault:  # of a file system over the network: no locks to be had, a stale handle
                raise StoreUnavailable(f"store: {self.path} can't be locked ({fault.strerror})") from None
            time.sleep(pause)
            pause = min(2 * pause, longest)

    def free(self) -> None:
        """Free the lock."""
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Free the descriptor."""
        os.close(self._descriptor)
