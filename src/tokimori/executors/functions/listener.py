"""The socket on which worker processes reach the engine: an abstract one, for processes of the same user only."""

import asyncio
import logging
import os
import socket
import struct
from collections.abc import Callable
from typing import Any, cast

import msgspec

from tokimori.executors.functions.wire import Frames, FromWorker, Hello

log = logging.getLogger(__name__)

_CREDENTIALS = struct.Struct("3i")
"""pid, uid and gid of a peer (SO_PEERCRED, unix(7))."""


class Connection(asyncio.Protocol):
    """One worker process on the line. The first thing that it says is its hello."""

    def __init__(
        self,
        greet: "Callable[[Connection, Hello], bool]",
        hear: Callable[[int, FromWorker], None],
        lost: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._greet = greet
        self._hear = hear
        self._lost = lost
        self._frames: Frames[Any] = Frames(FromWorker)
        self._number: int | None = None
        self.transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio. Whoever is not of our user is cut off: an abstract socket has no permissions."""
        self.transport = cast("asyncio.WriteTransport", transport)
        peer: socket.socket = transport.get_extra_info("socket")
        _, uid, _ = _CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        if uid != os.geteuid():
            log.warning("a process of the user %d tried to reach the socket of worker processes", uid)
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio."""
        if self._number is not None:
            self._lost(self._number)

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        if self.transport is None or self.transport.is_closing():
            return
        try:
            for message in self._frames.feed(data):
                self._take(message)
        except (ValueError, msgspec.DecodeError) as fault:
            log.warning("a worker process said what nobody understands, and is cut off: %s", fault)
            self.transport.abort()

    def _take(self, message: FromWorker) -> None:
        if self._number is not None:
            self._hear(self._number, message)
        elif isinstance(message, Hello) and self._greet(self, message):
            self._number = message.number
        else:
            raise ValueError("it is no worker process of this node")


class Listener:
    """Where worker processes connect."""

    def __init__(self, name: str, new: Callable[[], Connection]) -> None:
        self.address = f"tokimori-{name}"
        self._new = new
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Begin to listen."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(self._new, path=f"\0{self.address}", backlog=256)

    def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()
