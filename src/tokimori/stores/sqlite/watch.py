"""Noticing that another process has written to the file, at next to no cost while nobody does."""

import asyncio
from collections.abc import Callable

from tokimori.errors import StoreError
from tokimori.stores.sqlite.connection import stamp_of
from tokimori.stores.sqlite.connection_thread import ConnectionThread
from tokimori.stores.sqlite.inotify import Inotify

INTERVAL = 0.1
"""Seconds between looks, at least."""
LONGEST = 5.0
"""Seconds between looks, at most."""


class FileWatch:
    """Calls `wake` after commits of others. The system says that somebody wrote to the write-ahead log, SQLite whether
    it was another connection than our writing one. Where the system says nothing, the log's size and time tell.
    """

    def __init__(self, path: str, writer: ConnectionThread, wake: Callable[[], None]) -> None:
        self._log = f"{path}-wal"
        self._writer = writer
        self._wake = wake
        self._version = -1
        self._inotify = Inotify.open()
        self._task = asyncio.get_running_loop().create_task(self._watch(), name="tokimori-store-watch")

    async def _watch(self) -> None:
        """Watch the file. A look waits for whoever is writing; one more, after the pause, sees what came in it."""
        while True:
            armed = self._inotify is not None and self._inotify.arm(self._log)
            stamp = stamp_of(self._log)
            if await self._look():
                await self._written(stamp, armed=armed)
                await self._look()
            await asyncio.sleep(INTERVAL)

    async def _written(self, stamp: object, *, armed: bool) -> None:
        """Wait until somebody has written since the log had this stamp, or for the longest time between looks."""
        if self._inotify is not None and armed:
            await self._inotify.told(LONGEST)
            return
        end = asyncio.get_running_loop().time() + LONGEST
        while stamp_of(self._log) == stamp and asyncio.get_running_loop().time() < end:  # noqa: ASYNC110  a file tells nobody
            await asyncio.sleep(INTERVAL)

    async def _look(self) -> bool:
        """Look for changes; return whether SQLite could be asked."""
        try:
            version = await self._writer.run(lambda db: int(db.execute("PRAGMA data_version").fetchone()[0]))
        except StoreError:
            return False
        if version != self._version:
            self._version = version
            self._wake()
        return True

    async def stop(self) -> None:
        """Look no more."""
        self._task.cancel()
        try:
            await asyncio.gather(self._task, return_exceptions=True)
        finally:
            if self._inotify is not None:
                self._inotify.close()
