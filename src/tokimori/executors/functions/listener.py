"""The socket on which worker processes reach the engine: for processes of the same user only."""

import asyncio
import logging
import os
import socket
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from time import thread_time
from typing import Any, cast

from tokimori.executors.functions.wire import (
    MOST_SAID,
    Frames,
    FromWorker,
    Hello,
    NotUnderstood,
    Unloadable,
    by_descriptor,
    language,
    stranger_in,
)
from tokimori.turns import TurnsOfReaders

log = logging.getLogger(__name__)

WAITING = 256
"""Processes that may wait to be let in."""
LONGEST_READING = 0.01
"""Seconds of one step of the loop in which is read what worker processes say."""
PIECE = 16 * 1024
"""Bytes that are looked at together."""
ANOTHER_VERSION = (
    "app: the node and what runs its functions have two versions of Tokimori, which do not understand each other: "
    "start the node, or the program that it works for, again"
)
_CREDENTIALS = struct.Struct("3i")
"""pid, uid and gid of a peer (SO_PEERCRED, unix(7))."""


class WorkerConnection(asyncio.Protocol):
    """Connection of one worker process. Its first message is its hello, or the reason that there is none.

    A function may send anything in its name, without end, so messages are read in turns.
    """

    def __init__(
        self,
        reading: TurnsOfReaders,
        greet: "Callable[[WorkerConnection, Hello], bool]",
        hear: Callable[[int, Sequence[FromWorker]], None],
        lost: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._reading = reading
        self._unread = bytearray()
        self._waits = False
        self._greet = greet
        self._hear = hear
        self._lost = lost
        self._frames: Frames[Any] = Frames(FromWorker)
        self._number: int | None = None
        self.transport: asyncio.WriteTransport | None = None
        self.room: Callable[[bool], None] = lambda _: None
        """Told if the process takes more, when that changes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept a connection of our user. Others are cut off, such as root of another name space."""
        self.transport = cast("asyncio.WriteTransport", transport)
        self.transport.set_write_buffer_limits(0)
        peer: socket.socket = transport.get_extra_info("socket")
        _, uid, _ = _CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        if uid != os.geteuid():
            log.warning("a process of the user %d tried to reach the socket of worker processes", uid)
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle an event of asyncio."""
        if self._number is not None:
            self._lost(self._number)

    def pause_writing(self) -> None:
        """Handle a process that does not take what is sent."""
        self.room(False)

    def resume_writing(self) -> None:
        """Handle a process that has taken all."""
        self.room(True)

    def data_received(self, data: bytes) -> None:
        """Receive bytes. Until it is its turn no more is taken."""
        self._unread += data
        if not self._waits:
            self._waits = self._reading.begin(self)
        if self._waits:
            self._line.pause_reading()

    def read_on(self) -> bool:
        """Read the next few bytes; return whether there are more."""
        piece = bytes(self._unread[:PIECE])
        del self._unread[:PIECE]
        if not self._line.is_closing():
            self._read(piece)
        if self._unread and not self._line.is_closing():
            return True
        self._unread.clear()
        self._waits = False
        self._line.resume_reading()
        return False

    @property
    def _line(self) -> asyncio.Transport:
        return cast("asyncio.Transport", self.transport)

    def _read(self, piece: bytes) -> None:
        try:
            messages = self._told(piece)
            if messages and self._number is None:
                self._introduce(messages.pop(0))
            if messages and self._number is not None:
                self._hear(self._number, messages)
        except ValueError as fault:
            log.warning("a worker process sent an unknown message, and is disconnected: %s", fault)
            self._line.abort()

    def _told(self, piece: bytes) -> list[Any]:
        try:
            return self._frames.feed(piece)
        except NotUnderstood as fault:
            number = stranger_in(fault.body) if self._number is None else None
            if number is None:
                raise
            return [Unloadable(number=number, message=ANOTHER_VERSION)]

    def _introduce(self, first: FromWorker) -> None:
        if isinstance(first, Hello) and first.language != language():
            first = Unloadable(number=first.number, message=ANOTHER_VERSION)
        if isinstance(first, Hello) and self._greet(self, first):
            self._number, self._frames.most = first.number, MOST_SAID
        elif isinstance(first, Unloadable) and self.transport is not None:
            self._hear(first.number, [first])
            self.transport.close()  # it waits for that before it ends
        else:
            raise ValueError("it is no worker process of this node")


class WorkerListener:
    """Socket of worker processes, in a folder that only this user can enter.

    An abstract socket would have no permissions: every user of the machine could keep the node busy by connecting.
    """

    def __init__(self, folder: Path, name: str, new: Callable[[TurnsOfReaders], WorkerConnection]) -> None:
        self.address = folder.absolute() / name
        self._new = new
        self._reading = TurnsOfReaders(LONGEST_READING, thread_time)
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Begin to listen. Raises `OSError`."""
        folder = self.address.parent
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        _remove_dead(folder)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        fresh = self.address.with_name(f".{self.address.name}")
        with by_descriptor(fresh) as path:
            listening.bind(path)
        listening.listen(WAITING)
        fresh.rename(self.address)  # a node that starts at the same time removes what nobody listens on
        self._server = await asyncio.get_running_loop().create_unix_server(
            lambda: self._new(self._reading), sock=listening, backlog=WAITING
        )

    def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()
            self.address.unlink(missing_ok=True)


def _remove_dead(folder: Path) -> None:
    """Remove the sockets of killed nodes, which have no listener."""
    for file in folder.glob("[!.]*"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking, by_descriptor(file) as path:
            asking.setblocking(False)  # who listens and is busy is not waited for
            try:
                asking.connect(path)
            except ConnectionRefusedError:
                file.unlink(missing_ok=True)
            except OSError:
                continue
