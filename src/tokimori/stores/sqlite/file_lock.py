"""The lock that every writer and every checkpoint of one database file holds, whichever process it is in."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tokimori.errors import StoreUnavailable
from tokimori.ownership import open_private, still_private

PATIENCE = 3.0
"""Seconds to wait for another process's transaction: less than a lease, so that a node learns of it in time."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.005


class FileLock:
    """An flock beside the database, for one transaction or checkpoint at a time; freed when its process dies.

    SQLite's own write lock lets a checkpoint run beside a commit, where versions below 3.51.3 can damage the file (the
    WAL-reset bug); under this lock they never meet. Waiting is by trying: a blocking flock can't time out.
    """

    def __init__(self, database: str) -> None:
        self._database, self._path = database, f"{database}-lock"
        self._descriptor = open_private(self._path, like=database)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock. Raises `StoreUnavailable` if it can't be had within `PATIENCE`."""
        self._take()
        try:
            yield
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def _take(self) -> None:
        deadline = time.monotonic() + PATIENCE
        pause = _FIRST_PAUSE
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                held, self._descriptor = self._descriptor, still_private(self._descriptor, self._path, self._database)
                if held == self._descriptor:
                    return
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise StoreUnavailable(
                        f"another process has been writing to the store for over {PATIENCE:g} s ({self._path} is "
                        "locked); if it is stopped, let it go on or end it"
                    ) from None
            except OSError as fault:  # of a file system over the network: no locks to be had, a stale handle
                raise StoreUnavailable(f"store: {self._path} can't be locked ({fault.strerror})") from None
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def close(self) -> None:
        """Free the descriptor."""
        os.close(self._descriptor)
