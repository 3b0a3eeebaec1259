"""Notices of changes to the database file by other processes, from inotify if there is one."""

import asyncio
import ctypes
import os
import sys
from collections.abc import Callable
from typing import Self

from tokimori.errors import StoreError
from tokimori.stores.sqlite.connection import stamp_of
from tokimori.stores.sqlite.connection_thread import ConnectionThread

_MODIFY, _ATTRIB, _DELETE_SELF, _MOVE_SELF, _ONESHOT = 0x2, 0x4, 0x400, 0x800, 0x80000000
_ONCE = _MODIFY | _ATTRIB | _DELETE_SELF | _MOVE_SELF | _ONESHOT


class Inotify:
    """Watch of a file for a write, a move or a removal, one report for each `arm`."""

    def __init__(self, libc: ctypes.CDLL, file: int) -> None:
        self._libc = libc
        self._file = file
        self._changed = asyncio.Event()
        asyncio.get_running_loop().add_reader(file, self._read)

    @classmethod
    def open(cls) -> Self | None:
        """Return a watch; None if the system has none, or no more of them for this user."""
        if sys.platform != "linux":
            return None
        libc = ctypes.CDLL(None)
        file = int(libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        return None if file < 0 else cls(libc, file)

    def arm(self, path: str) -> bool:
        """Request a report of the next change; return False if this file can't be watched."""
        self._changed.clear()
        return bool(self._libc.inotify_add_watch(self._file, os.fsencode(path), ctypes.c_uint32(_ONCE)) >= 0)

    async def changed_within(self, seconds: float) -> bool:
        """Wait for a change since the last `arm`, at most these seconds; return if there was one."""
        try:
            async with asyncio.timeout(seconds):
                return await self._changed.wait()
        except TimeoutError:
            return False

    def close(self) -> None:
        """Close the watch."""
        asyncio.get_running_loop().remove_reader(self._file)
        os.close(self._file)

    def _read(self) -> None:
        try:
            os.read(self._file, 65536)  # which file, and what of it, doesn't matter
        except BlockingIOError:
            return
        self._changed.set()


INTERVAL, REPORTED = 0.1, 0.025
"""Seconds between looks, at least: where the log is looked at, and where the system reports its writes."""
LONGEST = 5.0
"""Seconds between looks, at most."""


class FileWatch:
    """Watch that calls `wake` after commits of others. The system reports writes to the write-ahead log; SQLite says if
    they came from another connection than our writing one. Without reports the log's size and time are compared.
    """

    def __init__(self, path: str, writer: ConnectionThread, wake: Callable[[], None]) -> None:
        self._log = f"{path}-wal"
        self._writer = writer
        self._wake = wake
        self._version = -1
        self._inotify = Inotify.open()
        self._task = asyncio.get_running_loop().create_task(self._watch(), name="tokimori-store-watch")

    async def _watch(self) -> None:
        """Watch the file for writes. After each write look at once, and once more after a pause."""
        while True:
            armed = self._inotify is not None and self._inotify.arm(self._log)
            stamp = stamp_of(self._log)
            if await self._check_version():
                await self._written(stamp, armed=armed)
                await self._check_version()
            await asyncio.sleep(REPORTED if armed else INTERVAL)

    async def _written(self, stamp: object, *, armed: bool) -> None:
        """Wait until the log has changed, at most `LONGEST` seconds."""
        if self._inotify is not None and armed:
            await self._inotify.changed_within(LONGEST)
            return
        end = asyncio.get_running_loop().time() + LONGEST
        while stamp_of(self._log) == stamp and asyncio.get_running_loop().time() < end:  # noqa: ASYNC110  a file sends no notices
            await asyncio.sleep(INTERVAL)

    async def _check_version(self) -> bool:
        """Wake listeners if another connection has written. Return False if SQLite did not answer."""
        try:
            version = await self._writer.run(lambda db: int(db.execute("PRAGMA data_version").fetchone()[0]))
        except StoreError:
            return False
        if version != self._version:
            self._version = version
            self._wake()
        return True

    async def stop(self) -> None:
        """Stop the watch."""
        self._task.cancel()
        try:
            await asyncio.gather(self._task, return_exceptions=True)
        finally:
            if self._inotify is not None:
                self._inotify.close()
