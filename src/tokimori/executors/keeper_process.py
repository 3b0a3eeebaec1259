"""A keeper process, as the engine starts it, speaks with it and ends it."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import cast

from msgspec import Struct

from tokimori.errors import Refused
from tokimori.executors.keeper.notes import end_session
from tokimori.executors.keeper.wire import NOTICES, Frames, Notice, Order, Ready, Shutdown, encode

_BEGIN = "import sys; sys.path.append(sys.argv[1]); from keeper.main import main; main()"
_FOLDER = str(Path(__file__).parent)
START_WITHIN = 15.0
"""Seconds, of which ending what dead keepers have left may take some."""
LEAVE_WITHIN = 10.0


class KeeperSettings(Struct, frozen=True, kw_only=True):
    """Settings of a keeper: where it notes its groups, where output goes, how many bytes, and how exits are noticed.

    `stdin`: the descriptor of ours from which what it runs in the foreground reads; None: nothing.
    """

    state_dir: Path
    runs_dir: Path
    output_limit: int
    pidfd: bool
    stdin: int | None = None

    def arguments(self) -> list[str]:
        """Return the arguments of a keeper."""
        way = "pidfd" if self.pidfd else "thread"
        places = [str(self.state_dir.absolute()), str(self.runs_dir.absolute())]
        bare = [sys.executable, "-I", "-S", "-X", "utf8", "-c", _BEGIN, _FOLDER]
        return [*bare, *places, str(self.output_limit), way, "-" if self.stdin is None else str(self.stdin)]

    def inherited(self) -> tuple[int, ...]:
        """Return the descriptors that a keeper gets besides its own."""
        return () if self.stdin is None else (self.stdin,)


class KeeperChannel(asyncio.Protocol):
    """The engine's end of the channel to a keeper: sends orders, hands on notices; tells once when it is gone."""

    def __init__(self, heard: Callable[[Notice], None], lost: Callable[[], None]) -> None:
        self._heard = heard
        self._lost = lost
        self._frames: Frames[Notice] = Frames(NOTICES)
        self._transport: asyncio.WriteTransport | None = None
        self.ready = asyncio.Event()
        self.gone = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Handle an event of asyncio."""
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Handle an event of asyncio."""
        for notice in self._frames.feed(data):
            if isinstance(notice, Ready):
                self.ready.set()
            else:
                self._heard(notice)

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle an event of asyncio."""
        self.ready.set()
        self.gone.set()
        self._lost()

    def send(self, orders: Iterable[Order]) -> None:
        """Never waits: what the keeper does not take yet is kept."""
        if self._transport is not None and not self.gone.is_set():
            self._transport.write(encode(orders))


class KeeperProcess:
    """A keeper that this process has started, and the channel to it."""

    def __init__(self, process: "subprocess.Popen[bytes]", channel: KeeperChannel) -> None:
        self._process = process
        self._channel = channel
        self.pid = process.pid
        self.send = channel.send

    @classmethod
    async def start(
        cls, settings: KeeperSettings, heard: Callable[[Notice], None], lost: Callable[[], None]
    ) -> "KeeperProcess":
        """Start one and wait until it takes orders. Raises `Refused`."""
        ours, theirs = socket.socketpair()
        try:
            process = subprocess.Popen(  # noqa: ASYNC220
                settings.arguments(), stdin=theirs.fileno(), pass_fds=settings.inherited(), start_new_session=True
            )
        except OSError as fault:
            ours.close()
            raise Refused(f"the keeper could not be started: {fault}") from None
        finally:
            theirs.close()
        loop = asyncio.get_running_loop()
        try:
            _, channel = await loop.create_unix_connection(lambda: KeeperChannel(heard, lost), sock=ours)
        except BaseException:  # given up already
            ours.close()
            process.kill()
            process.wait()
            raise
        keeper = cls(process, channel)
        try:
            await asyncio.wait_for(channel.ready.wait(), START_WITHIN)
        except (TimeoutError, asyncio.CancelledError) as fault:
            await keeper.bury()
            if isinstance(fault, asyncio.CancelledError):
                raise
        if channel.gone.is_set():
            await keeper.bury()
            raise Refused("the keeper did not start; standard error says why")
        return keeper

    async def leave(self) -> None:
        """Have it end everything and exit."""
        self.send([Shutdown()])
        try:
            await asyncio.wait_for(self._channel.gone.wait(), LEAVE_WITHIN)
        except TimeoutError:
            pass
        await self.bury()

    async def bury(self) -> int:
        """End the keeper, unless it is dead already, and whatever it has left; its exit code, or minus its signal."""
        status = await asyncio.to_thread(self._bury)
        await self._channel.gone.wait()
        return status

    def _bury(self) -> int:
        if self._process.returncode is None:
            os.kill(self._process.pid, signal.SIGKILL)
            os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
            end_session(self._process.pid)
        return self._process.wait()  # only now may somebody else get its number
