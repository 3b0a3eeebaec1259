"""Linux's word that a file was written: inotify(7), which the standard library does not have."""

import asyncio
import ctypes
import os
import sys
from typing import Self

_MODIFY, _ATTRIB, _DELETE_SELF, _MOVE_SELF, _ONESHOT = 0x2, 0x4, 0x400, 0x800, 0x80000000
_ONCE = _MODIFY | _ATTRIB | _DELETE_SELF | _MOVE_SELF | _ONESHOT


class Inotify:
    """Tells that a file was written, moved or removed: once for each time that it is asked to."""

    def __init__(self, libc: ctypes.CDLL, file: int) -> None:
        self._libc = libc
        self._file = file
        self._told = asyncio.Event()
        asyncio.get_running_loop().add_reader(file, self._read)

    @classmethod
    def open(cls) -> Self | None:
        """None where the system has no such thing, or no more of them for this user."""
        if sys.platform != "linux":
            return None
        libc = ctypes.CDLL(None)
        file = int(libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        return None if file < 0 else cls(libc, file)

    def arm(self, path: str) -> bool:
        """Ask to be told of the next change; False: of this file nothing will be told."""
        self._told.clear()
        return bool(self._libc.inotify_add_watch(self._file, os.fsencode(path), ctypes.c_uint32(_ONCE)) >= 0)

    async def told(self, seconds: float) -> bool:
        """Wait for a change since the last `arm`, but no longer than this; whether there was one."""
        try:
            async with asyncio.timeout(seconds):
                return await self._told.wait()
        except TimeoutError:
            return False

    def close(self) -> None:
        """Ask no more."""
        asyncio.get_running_loop().remove_reader(self._file)
        os.close(self._file)

    def _read(self) -> None:
        try:
            os.read(self._file, 65536)  # which file, and what of it, doesn't matter
        except BlockingIOError:
            return
        self._told.set()
