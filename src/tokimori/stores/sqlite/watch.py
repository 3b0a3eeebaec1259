"""Noticing that another process has written: a look at the write-ahead log's file, cheap enough for ten a second."""

import asyncio
import os
import sqlite3
from collections.abc import Callable

from tokimori.errors import StoreError
from tokimori.stores.sqlite.connection_thread import ConnectionThread

INTERVAL = 0.1
"""Seconds between looks."""


class Poller:
    """Calls `wake` after commits of others. The file's size and time say that somebody wrote, SQLite says whether
    it was another connection than our writing one.
    """

    def __init__(self, path: str, writer: ConnectionThread, wake: Callable[[], None]) -> None:
        self._log = f"{path}-wal"
        self._writer = writer
        self._wake = wake
        self._task = asyncio.get_running_loop().create_task(self._poll(), name="tokimori-store-watch")

    async def _poll(self) -> None:
        seen: object = None
        version = -1
        while True:
            await asyncio.sleep(INTERVAL)
            now = _stamp(self._log)
            if now == seen:
                continue
            try:
                others = await self._writer.run(_data_version)
            except StoreError:
                continue
            if others != version:
                self._wake()
            seen, version = now, others

    async def stop(self) -> None:
        """Look no more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def _stamp(path: str) -> object:
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _data_version(db: sqlite3.Connection) -> int:
    (version,) = db.execute("PRAGMA data_version").fetchone()
    return int(version)
