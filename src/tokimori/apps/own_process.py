"""Forks, exit and title of a process that runs functions."""

import asyncio
import os
import resource
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from math import inf
from threading import get_ident
from time import thread_time_ns
from typing import NoReturn, Protocol
from weakref import WeakMethod

from tokimori.executors.functions.wire import Begin
from tokimori.executors.keeper.kernel import Title, boottime

_LINE_ENDS = "a process that a function has forked awaits on the loop of its worker process, which is not its own\n"


def report_forks(forked: Callable[[], None]) -> None:
    """Call this method in each child that this process forks, for as long as its object lives."""
    os.register_at_fork(after_in_child=partial(_call, WeakMethod(forked)))


def _call(method: "WeakMethod[Callable[[], None]]") -> None:
    if (found := method()) is not None:
        found()


def leave_line(line: asyncio.BaseTransport | None) -> None:
    """Let go of the parent's line to the node: its number stays taken, so that nothing else of the child gets it."""
    connected = None if line is None else line.get_extra_info("socket")
    if connected is not None and (number := connected.fileno()) >= 0:
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        os.dup2(null, number, inheritable=False)
        os.close(null)


def leave_loop(loop: asyncio.AbstractEventLoop, thread: int) -> None:
    """End this child as soon as it returns to its parent's loop, before a step of any other function.

    `thread` is that of the loop. Asyncio has no list of waiting callbacks that could be emptied.
    """
    if get_ident() == thread:
        ready = getattr(loop, "_ready", None)
        if isinstance(ready, deque):
            ready.clear()
        loop.call_soon(_come_back)


def _come_back() -> NoReturn:
    with suppress(OSError):
        os.write(2, _LINE_ENDS.encode())
    leave(SystemExit(1))


BLUR = 0.0001
"""Seconds to which the CPU of attempts that share a process is known. To ask the kernel takes as long as a no-op."""


class ThreadTime:
    """CPU that a thread had used (`spent`, nanoseconds) when the kernel was `asked` (seconds of CLOCK_BOOTTIME)."""

    __slots__ = ("asked", "spent")

    def __init__(self) -> None:
        self.asked, self.spent = -inf, 0

    def since(self, began: float) -> int:
        """Return the microseconds of an attempt that began then, and ends now in this thread: one that was shorter than
        `BLUR` has used no more than the time that it took.
        """
        at = boottime()
        if at - began < BLUR:
            return int((at - began) * 1_000_000)
        before, self.asked, self.spent = self.spent, at, thread_time_ns()
        return (self.spent - before) // 1000


class Meter:
    """Cost of an attempt that is alone in its process: of that, and of the children that it has waited for."""

    def __init__(self) -> None:
        self._before = _spent_with_children()

    def cost(self) -> tuple[int, int]:
        """Return microseconds of processors, and bytes at its peak."""
        peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return max(0, _spent_with_children() - self._before) // 1000, peak * 1024


def _spent_with_children() -> int:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time_ns() + int((ended.ru_utime + ended.ru_stime) * 1_000_000_000)


def leave(fault: BaseException | None) -> NoReturn:
    """End this child, which has returned from the function that forked it, as a program ends."""
    code = 0
    if isinstance(fault, SystemExit) and (fault.code is None or isinstance(fault.code, int)):
        code = fault.code or 0
    elif fault is not None:
        code = 1
    try:
        if isinstance(fault, SystemExit) and code == 1 and fault.code != 1:
            sys.stderr.write(f"{fault.code}\n")
        elif fault is not None and not isinstance(fault, SystemExit):
            traceback.print_exception(fault)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


class Exits:
    """Replacement of `os._exit` in this process. `report` is called before the exit, in the exiting thread."""

    def __init__(self) -> None:
        self.report: Callable[[int], object] | None = None
        self._pid, self._exit = os.getpid(), os._exit

    def __call__(self, status: int) -> NoReturn:
        """End the process; a child that was forked by a function ends as ever."""
        if self.report is not None and os.getpid() == self._pid:
            with suppress(BaseException):
                self.report(status)
        self._exit(status)


EVERY = 0.5
"""Seconds between two looks, while it does something."""
_SHOWN = 3


class _Works(Protocol):
    begin: Begin


class WorkerTitle:
    """Process title with the runs of `attempts`. `name` is that of the worker process and its app."""

    def __init__(self, name: str, attempts: Mapping[int, _Works], loop: asyncio.AbstractEventLoop) -> None:
        self._name, self._attempts, self._loop = name, attempts, loop
        self._title, self._waits = Title(), False
        self._show()

    def touch(self) -> None:
        """Look soon: something may have begun."""
        if not self._waits:
            self._waits = True
            self._loop.call_later(EVERY, self._show)

    def _show(self) -> None:
        runs = [f"{each.begin.job_id} {each.begin.run_id}" for each in islice(self._attempts.values(), _SHOWN)]
        more = len(self._attempts) - len(runs)
        names = ", ".join([*runs, *([f"{more} more"] if more else [])])
        self._title.show(f"tokimori: worker {self._name}: {names or 'idle'}")
        self._waits = False
        if self._attempts:
            self.touch()
