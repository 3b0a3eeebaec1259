"""Watchdog of the loop: it logs the code that holds it for too long, as beats, claims and doors wait for it."""

import _thread
import asyncio
import logging
import selectors
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

log = logging.getLogger(__name__)

TOO_LONG = 0.25
"""Seconds."""
_TOLD_BY = {signal.ITIMER_REAL: signal.SIGALRM, signal.ITIMER_VIRTUAL: signal.SIGVTALRM}


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
    tell: Callable[[str], None], timer: int = signal.ITIMER_REAL
) -> Iterator[tuple[asyncio.Runner, Callable[[float], None]]]:
    """Yield a runner of a loop, and a setter of the time after which a step's stack is reported. For a main thread."""
    number, selector = _TOLD_BY[timer], Watched(timer)

    def bark(_: int, frame: FrameType | None) -> None:
        tell("".join(traceback.format_stack(frame)))

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
