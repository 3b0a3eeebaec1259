"""The lock that every writer and every checkpoint of one database file holds, whichever process it is in."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tokimori.errors import StoreError, StoreUnavailable

PATIENCE = 3.0
"""Seconds to wait for another process's transaction: less than a lease, so that a node learns of it in time."""
TURN = 0.5
"""Seconds to wait for the turn. Who is frozen with it hinders the others no longer than that, and once."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.005


class FileLock:
    """An flock on `path`: held for one transaction or checkpoint at a time, freed by the kernel when its process dies.

    SQLite's own write lock lets a checkpoint run beside a commit, where versions below 3.51.3 can damage the file (the
    WAL-reset bug); under this lock they never meet. Waiting is by trying: a blocking flock can't time out. Only who has
    the turn, a lock of another file, waits for it: one that writes without a break would be first again and again.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            files = [os.open(name, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644) for name in (path, f"{path}-turn")]
        except OSError as fault:
            raise StoreError(
                f"store: {path} can't be opened ({fault.strerror}): make its directory, writable"
            ) from None
        self._descriptor, self._turn = files
        self._patience = TURN

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock. Raises `StoreUnavailable` if it can't be had within `PATIENCE`."""
        has_turn = self._takes(self._turn, self._patience, _LONGEST_PAUSE)
        self._patience = TURN if has_turn else 0
        try:
            is_held = self._takes(self._descriptor, PATIENCE, _FIRST_PAUSE if has_turn else _LONGEST_PAUSE)
        finally:
            if has_turn:
                fcntl.flock(self._turn, fcntl.LOCK_UN)
        if not is_held:
            raise StoreUnavailable(
                f"another process has been writing to the store for over {PATIENCE:g} s ({self._path} is locked); if "
                "it is stopped, let it go on or end it"
            )
        try:
            yield
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def _takes(self, descriptor: int, patience: float, longest: float) -> bool:
        deadline, pause = time.monotonic() + patience, _FIRST_PAUSE
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    return False
            except OSError as fault:  # of a file system over the network: no locks to be had, a stale handle
                raise StoreUnavailable(f"store: {self._path} can't be locked ({fault.strerror})") from None
            time.sleep(pause)
            pause = min(2 * pause, longest)

    def close(self) -> None:
        """Free the descriptors."""
        os.close(self._descriptor)
        os.close(self._turn)
