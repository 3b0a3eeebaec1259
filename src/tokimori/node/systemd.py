"""Readiness of a node, reported to its starter as systemd expects (sd_notify(3)), and its watchdog."""

import _thread
import asyncio
import logging
import os
import selectors
import signal
import socket
import traceback
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Final

VARIABLE: Final = "NOTIFY_SOCKET"
READY: Final = b"READY=1"
ALIVE: Final = b"WATCHDOG=1"


class Starter:
    """Starter of this process that wants to be notified."""

    def __init__(self, address: str | None, every: float | None = None) -> None:
        self._address = address
        self._every = every
        """Seconds between two signs of life, if it wants any: half of those after which it would end this process."""

    def report_ready(self) -> None:
        """Report readiness to the starter, if it still exists."""
        self._notify_starter(READY)

    def report_alive(self, call_later: Callable[[float, Callable[[], None]], object]) -> None:
        """Report regularly that the loop is alive, if the starter requests it; `call_later` is the loop's."""
        if self._every is not None:
            self._notify_starter(ALIVE)
            call_later(self._every, partial(self.report_alive, call_later))

    def _notify_starter(self, said: bytes) -> None:
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.setblocking(False)  # a starter that is stuck must not hold the loop
            sender.sendto(said, _path(self._address))


def starter_of(environ: MutableMapping[str, str]) -> Starter:
    """Remove and return the starter in the environment: children of this process have nothing to report to it."""
    address, micros = environ.pop(VARIABLE, None), environ.pop("WATCHDOG_USEC", "")
    is_ours = environ.pop("WATCHDOG_PID", None) in (None, str(os.getpid()))
    wants = is_ours and micros.isdecimal() and int(micros) > 0
    return Starter(address, int(micros) / 2_000_000 if wants else None)


class Listener:
    """Receiver of reports by a process that is being started."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.bind(f"\0tokimori-{os.urandom(16).hex()}")  # the name can't be guessed, and no file is left behind
        self.address = self._socket.getsockname().decode().replace("\0", "@")

    def receives_ready(self, within: float) -> bool:
        """Return whether it reports within so many seconds that it is ready."""
        self._socket.settimeout(within)
        try:
            return READY in self._socket.recv(4096).splitlines()
        except (TimeoutError, BlockingIOError):
            return False

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def _path(address: str) -> str:
    """Return the path. An address that begins with @ is no file, but a name of the kernel (unix(7))."""
    return f"\0{address[1:]}" if address.startswith("@") else address


log = logging.getLogger(__name__)

TOO_LONG = 0.25
"""Seconds."""
_SIGNAL_OF = {signal.ITIMER_REAL: signal.SIGALRM, signal.ITIMER_VIRTUAL: signal.SIGVTALRM}


class Watched(selectors.DefaultSelector):
    """Selector of a loop that is timed outside of its waits: the kernel's timer runs only then, so idling is free.

    `timer`: ITIMER_REAL counts seconds, ITIMER_VIRTUAL those of this process's own computing.
    """

    def __init__(self, timer: int) -> None:
        super().__init__()
        self._seconds = 0.0
        self._timer = timer

    def begin(self, seconds: float) -> None:
        """Time the loop from its next step on: a starting program loads modules for longer."""
        self._seconds = seconds

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait, untimed."""
        signal.setitimer(self._timer, 0)
        found = super().select(timeout)
        signal.setitimer(self._timer, self._seconds)
        return found


@contextmanager
def watched(
    report: Callable[[str], None], timer: int = signal.ITIMER_REAL
) -> Iterator[tuple[asyncio.Runner, Callable[[float], None]]]:
    """Yield a runner of a loop, and a setter of the time after which a step's stack is reported. For a main thread."""
    number, selector = _SIGNAL_OF[timer], Watched(timer)

    def bark(_: int, frame: FrameType | None) -> None:
        report("".join(traceback.format_stack(frame)))

    before = signal.signal(number, bark)
    try:
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
            yield runner, selector.begin
    finally:
        signal.setitimer(timer, 0)
        signal.signal(number, before)


def warn(stack: str) -> None:
    """Log the stack that holds the loop, in a thread: the interrupted code may hold a lock of the log."""
    _thread.start_new_thread(_write, (stack,))


def _write(stack: str) -> None:
    log.warning("the node's loop has been held for over %d ms by:\n%s", TOO_LONG * 1000, stack)
