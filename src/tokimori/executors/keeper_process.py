"""A keeper process, as the engine starts it, speaks with it and ends it; and a command that it runs for a person."""

import asyncio
import fcntl
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import cast

from msgspec import Struct

from tokimori.errors import Refused
from tokimori.executors.keeper import wire
from tokimori.executors.keeper.kernel import boottime
from tokimori.executors.keeper.notes import end_session
from tokimori.executors.keeper.wire import NOTICES, Frames, Lease, Notice, Order, Ready, Shutdown, encode
from tokimori.model.lease import LEASE, LEASE_KILL, TICK_IDLE

_BEGIN = "import sys; sys.path.append(sys.argv[1]); from keeper.main import main; main()"
_FOLDER = str(Path(__file__).parent)
START_WITHIN = 15.0
"""Seconds, of which ending what dead keepers have left may take some."""
LEAVE_WITHIN = 10.0


class KeeperSettings(Struct, frozen=True, kw_only=True):
    """Settings of a keeper: the folders of its notes and of output, the limit of output in bytes, and the way in which
    exits are noticed.

    `stdin`: our descriptor for a foreground command's input; None: no input.
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
    """The engine's end of the channel to a keeper: it sends orders, passes on notices, and reports the end once."""

    def __init__(self, receive: Callable[[Notice], None], lost: Callable[[], None]) -> None:
        self._pass_on = receive
        self._lost = lost
        self._frames: Frames[Notice] = Frames(NOTICES)
        self._transport: asyncio.WriteTransport | None = None
        self.ready = asyncio.Event()
        self.gone = asyncio.Event()
        self.unanswered = 0
        """Leases in a row that the keeper has not answered."""
        self.asked_at = 0.0
        """When (seconds since boot) the first of them was sent."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Handle an event of asyncio."""
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Handle an event of asyncio."""
        for notice in self._frames.feed(data):
            if isinstance(notice, Ready):
                self.ready.set()
                self.unanswered = 0
            else:
                self._pass_on(notice)

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle an event of asyncio."""
        self.ready.set()
        self.gone.set()
        self._lost()

    def send(self, orders: Iterable[Order]) -> None:
        """Send orders without waiting; those that the keeper does not take yet are buffered."""
        if self._transport is not None and not self.gone.is_set():
            self._transport.write(encode(orders := list(orders)))
            if any(isinstance(order, Lease) for order in orders):
                self.asked_at = self.asked_at if self.unanswered else boottime()
                self.unanswered += 1


class KeeperProcess:
    """A keeper that this process has started, and the channel to it."""

    def __init__(self, process: "subprocess.Popen[bytes]", channel: KeeperChannel) -> None:
        self._process = process
        self._channel = channel
        self.pid = process.pid
        self.send = channel.send

    @classmethod
    async def start(
        cls, settings: KeeperSettings, receive: Callable[[Notice], None], lost: Callable[[], None]
    ) -> "KeeperProcess":
        """Start a keeper, and wait until it takes orders. Raises `Refused`."""
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
            _, channel = await loop.create_unix_connection(lambda: KeeperChannel(receive, lost), sock=ours)
        except BaseException:  # given up already
            ours.close()
            process.kill()
            process.wait()
            raise
        keeper = cls(process, channel)
        try:
            await asyncio.wait_for(channel.ready.wait(), START_WITHIN)
        except TimeoutError:
            await keeper.bury()
            raise Refused(f"the keeper did not start within {START_WITHIN:.0f} s: the machine is too busy") from None
        except asyncio.CancelledError:
            await keeper.bury()
            raise
        if channel.gone.is_set():
            await keeper.bury()
            raise Refused("the keeper did not start; standard error says why")
        return keeper

    def silent_for(self) -> float:
        """Return for how many seconds the keeper has not answered; 0 until it owes three answers.

        Each of them counts for at most the time between two beats: a machine that was suspended sent no orders.
        """
        owed = self._channel.unanswered
        return min(boottime() - self._channel.asked_at, owed * TICK_IDLE) if owed > 2 else 0.0

    def kill(self) -> None:
        """Kill the keeper, as if it had died: its channel ends, and it can be buried.

        `Popen.kill` would collect one that is dead already, whose number says which session is to be ended.
        """
        if self._process.returncode is None:  # else somebody else may have its number
            os.kill(self.pid, signal.SIGKILL)

    async def leave(self) -> None:
        """Order the keeper to end everything and exit."""
        self.send([Shutdown()])
        try:
            await asyncio.wait_for(self._channel.gone.wait(), LEAVE_WITHIN)
        except TimeoutError:
            pass
        await self.bury()

    async def bury(self) -> int:
        """End the keeper and all processes that it has left; return its exit code, or minus its signal."""
        status = await asyncio.to_thread(self._bury)
        await self._channel.gone.wait()
        return status

    def _bury(self) -> int:
        if self._process.returncode is None:
            os.kill(self._process.pid, signal.SIGKILL)
            os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
            end_session(self._process.pid)
        return self._process.wait()  # only now may somebody else get its number


_NUMBER = 1


class ForegroundCommand:
    """A command in the foreground, with this process's own standard streams, below a keeper.

    If this process dies, the keeper ends the command. It also does so when the lease has run out, even while this
    process is frozen. `state_dir` is the folder of the keeper's notes.
    """

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._keeper: KeeperProcess | None = None
        self._ended: asyncio.Future[wire.ProcessEnded] | None = None
        self._lease: wire.Lease | None = None
        self._runs = False
        self._signals: list[int] = []

    async def start(self, argv: Sequence[str], env: Mapping[str, str], cwd: str) -> None:
        """Begin the command, bound to the newest lease. Raises `Refused` if no keeper starts."""
        stdin = _own_input()
        settings = KeeperSettings(
            state_dir=self._state_dir / "keepers",
            runs_dir=self._state_dir / "runs",
            output_limit=0,
            pidfd=True,
            stdin=stdin,
        )
        self._ended = asyncio.get_running_loop().create_future()
        try:
            self._keeper = await KeeperProcess.start(settings, self._receive, self._lost)
        finally:
            if stdin is not None:
                os.close(stdin)
        order = wire.Start(
            number=_NUMBER,
            argv=list(argv),
            env=dict(env),
            cwd=cwd,
            log="",
            account=None,
            stdin=None,
            timeout=None,
            grace=0.0,
            lease_bound=True,
            foreground=True,
        )
        self._send([order] if self._lease is None else [self._lease, order])

    def renew(self, sent: float) -> None:
        """Renew the lease by a beat sent at this `CLOCK_BOOTTIME` (seconds): its deadlines count from there."""
        self._lease = wire.Lease(sent + LEASE, sent + LEASE_KILL)
        self._send([self._lease])

    def send_signal(self, number: int) -> None:
        """Pass on what came for it; as soon as it runs, if it does not yet."""
        if self._runs:
            self._send([wire.Pass(_NUMBER, number)])
        else:
            self._signals.append(number)

    def end(self) -> None:
        """End the command as if its lease had run out: TERM, then KILL."""
        self._send([wire.Stop(_NUMBER, LEASE_KILL - LEASE)])

    async def ended(self) -> wire.ProcessEnded:
        """Return how the command ended, once nothing of it is left. Raises `Refused` if its keeper was killed."""
        if self._ended is None:
            raise Refused("the command was not started")
        return await self._ended

    async def close(self) -> None:
        """End the command, if it runs, and the keeper."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            await keeper.leave()

    def _send(self, orders: Sequence[wire.Order]) -> None:
        if self._keeper is not None:
            self._keeper.send(orders)

    def _receive(self, notice: wire.Notice) -> None:
        match notice:
            case wire.ProcessStarted():
                self._runs = True
                self._send([wire.Pass(_NUMBER, number) for number in self._signals])
            case wire.ProcessEnded() if self._ended is not None and not self._ended.done():
                self._ended.set_result(notice)
            case _:
                pass

    def _lost(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_exception(Refused("the keeper of the command was killed, and the command with it"))


def _own_input() -> int | None:
    """Return a copy of our standard input, under a number that the keeper's own does not take; None if closed."""
    try:
        return fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
    except OSError:
        return None
