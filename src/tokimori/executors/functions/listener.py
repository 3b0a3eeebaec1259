"""Socket of the engine for worker processes of the same user, and for attached ones."""

import asyncio
import logging
import os
import socket
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from time import thread_time
from typing import Any, cast

from tokimori.errors import Refused
from tokimori.executors.functions.pool import Drains
from tokimori.executors.functions.process import AppSettings, Assignment, Phase, WorkerProcess
from tokimori.executors.functions.pulse import Pulse
from tokimori.executors.functions.wire import (
    MOST_ENDED,
    Frames,
    FromWorker,
    Hello,
    NotUnderstood,
    Unloadable,
    by_descriptor,
    language,
    stranger_in,
)
from tokimori.model.lease import LEASE
from tokimori.model.suspicion import COMMON
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
        receive: Callable[[int, Sequence[FromWorker]], None],
        lost: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._reading = reading
        self._unread = bytearray()
        self._waits = False
        self._greet = greet
        self._receive = receive
        self._lost = lost
        self._frames: Frames[Any] = Frames(FromWorker)
        self._number: int | None = None
        self.transport: asyncio.WriteTransport | None = None
        self.room: Callable[[bool], None] = lambda _: None
        """Note if the process takes more, when that changes."""

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
            messages = self._messages_in(piece)
            if messages and self._number is None:
                self._introduce(messages.pop(0))
            if messages and self._number is not None:
                self._receive(self._number, messages)
        except ValueError as fault:
            log.warning("a worker process sent an unknown message, and is disconnected: %s", fault)
            self._line.abort()

    def _messages_in(self, piece: bytes) -> list[Any]:
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
            self._number, self._frames.most = first.number, MOST_ENDED
        elif isinstance(first, Unloadable) and self.transport is not None:
            self._receive(first.number, [first])
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
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            self.address.unlink(missing_ok=True)


def _remove_dead(folder: Path) -> None:
    """Remove the sockets of killed nodes, which have no listener."""
    for file in folder.glob("[!.]*"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking, by_descriptor(file) as path:
            asking.setblocking(False)  # a busy listener is not waited for
            try:
                asking.connect(path)
            except ConnectionRefusedError:
                file.unlink(missing_ok=True)
            except OSError:
                continue


WITHIN = 30.0
"""Seconds in which the program has to come."""


class Attached:
    """The user's program that runs the functions itself, with this node as its child. It is neither started nor killed
    here.

    `receive`, `ready` and `died` are as with `Processes`. `gone` is called when the program has gone.
    """

    def __init__(
        self,
        app: AppSettings,
        *,
        receive: Callable[[WorkerProcess, Sequence[FromWorker]], None],
        ready: Callable[[], None],
        died: Callable[[Sequence[WorkerProcess], str, bool], None],
    ) -> None:
        self._pass_on = receive
        self._ready = ready
        self._died = died
        self._listener = WorkerListener(
            app.state_dir / "sockets",
            app.secret,
            lambda reading: WorkerConnection(reading, self._greet, self._receive, self._lost),
        )
        self._process = WorkerProcess(1, COMMON, 1, app.concurrency)
        self._hello: asyncio.Future[Hello] | None = None
        self.gone: Callable[[], object] = _nobody
        self.pulse = Pulse(lambda: (self._process,), ready)
        self._beat: asyncio.Task[None] | None = None
        self.drains = Drains(lambda _: None, lambda: None)

    @property
    def able(self) -> bool:
        """Return whether it takes runs: when it has gone, so does its node."""
        return self._process.answers

    @property
    def unable(self) -> str:
        """Return why it takes none; empty if it does."""
        return "".join(self.pulse.words())

    async def open(self) -> Hello:
        """Wait for the program's hello. Raises `Refused`."""
        self._beat = asyncio.get_running_loop().create_task(self.pulse.beat())
        self._hello = asyncio.get_running_loop().create_future()
        await self._listener.open()
        try:
            return await asyncio.wait_for(self._hello, WITHIN)
        except TimeoutError:
            raise Refused(f"app: the program that this node works for did not come within {WITHIN:g} s") from None

    def reload(self, app: AppSettings | None = None) -> None:
        """Do nothing: its code is the program's own affair."""

    async def close(self) -> None:
        """Stop receiving messages."""
        self.gone = _nobody
        if self._beat is not None:
            self._beat.cancel()
        self._listener.close()

    def place(self, cell: int) -> WorkerProcess | None:
        """Return the program, if it has room: it is one for all cells."""
        return self._process if self._process.has_room else None

    def need(self, cell: int, pause: float, runs: int) -> None:
        """Do nothing: there is no other process."""

    def flush(self) -> None:
        """Send the messages that wait."""
        self._process.flush()

    def look_at(self, process: WorkerProcess) -> None:
        """Do nothing: the program is never replaced."""

    def bind(self, process: WorkerProcess) -> None:
        """Do nothing: the program does not end with the lease; its lost attempts are reported."""

    def drain(self, process: WorkerProcess, attempt: Assignment) -> bool:
        """Return True: the process is not ours to end."""
        return False

    def renew(self, sent: float) -> None:
        """Send the time until which its attempts may begin. Nothing else of ours outlives a lease."""
        self._process.renew(sent + LEASE)

    def _greet(self, connection: WorkerConnection, hello: Hello) -> bool:
        if self._process.phase is not Phase.STARTING or connection.transport is None or self._hello is None:
            return False
        connection.room = self._process.room
        self._process.connect(connection.transport, hello.pid, hello.stacks)
        self._hello.set_result(hello)
        self._ready()
        return True

    def _receive(self, _number: int, messages: Sequence[FromWorker]) -> None:
        match messages:
            case [Unloadable(message=message)]:
                if self._hello is not None and not self._hello.done():
                    self._hello.set_exception(Refused(message))
            case _:
                self._pass_on(self._process, messages)

    def _lost(self, _number: int) -> None:
        self._process.phase = Phase.GONE
        self._died([self._process], "the program that ran it has gone", True)
        self.gone()


def _nobody() -> None:
    """Ignore the call: there is no receiver yet."""
