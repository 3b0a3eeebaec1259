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
from threading import get_ident
from time import thread_time_ns
from typing import NoReturn, Protocol
from weakref import WeakMethod

from tokimori.executors.functions.wire import Begin
from tokimori.executors.keeper.kernel import Title

_LINE_ENDS = "a process that a function has forked awaits on the loop of its worker process, which is not its own\n"


def tell_of_forks(forked: Callable[[], None]) -> None:
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


class Meter:
    """Cost of an attempt: microseconds of processors, and bytes at its peak; None if others may have a part in it.

    If it is `alone` in its process that is the cost of the process and of the children that it has waited for.
    """

    __slots__ = ("_alone", "_before", "_thread")

    def __init__(self, *, alone: bool) -> None:
        self._alone = alone
        self._thread: int | None = None
        self._before = 0

    def begin(self, *, is_sole: bool) -> None:
        """Begin in this thread, in which no other attempt is (`is_sole`), or go on in a loop."""
        if is_sole or (self._alone and self._thread is None):
            self._thread, self._before = get_ident(), _spent_with_children() if self._alone else thread_time_ns()
        elif not self._alone:
            self._thread = None

    def cost(self) -> tuple[int | None, int | None]:
        """Return what it has cost."""
        if not self._alone:  # most are not, thousands a second
            is_same = self._thread == get_ident()
            return (max(0, thread_time_ns() - self._before) // 1000, None) if is_same else (None, None)
        if self._thread is None:
            return None, None
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
    """Replacement of `os._exit` in this process. `tell` is called before the exit, in the exiting thread."""

    def __init__(self) -> None:
        self.tell: Callable[[int], object] | None = None
        self._pid, self._exit = os.getpid(), os._exit

    def __call__(self, status: int) -> NoReturn:
        """End the process; a child that was forked by a function ends as ever."""
        if self.tell is not None and os.getpid() == self._pid:
            with suppress(BaseException):
                self.tell(status)
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
        told = ", ".join([*runs, *([f"{more} more"] if more else [])])
        self._title.show(f"tokimori: worker {self._name}: {told or 'idle'}")
        self._waits = False
        if self._attempts:
            self.touch()
