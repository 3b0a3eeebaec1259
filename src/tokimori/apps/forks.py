"""Forks of a process that runs functions: a child owns nothing of what its parent has to say to the node."""

import asyncio
import os
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NoReturn
from weakref import WeakMethod

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
    """End this child as soon as it comes back to its parent's loop, before a step of any other function is taken.

    `thread` is that of the loop. Of what waits there asyncio gives no list that may be emptied.
    """
    if threading.get_ident() == thread:
        ready = getattr(loop, "_ready", None)
        if isinstance(ready, deque):
            ready.clear()
        loop.call_soon(_come_back)


def _come_back() -> NoReturn:
    with suppress(OSError):
        os.write(2, _LINE_ENDS.encode())
    leave(SystemExit(1))


def leave(fault: BaseException | None) -> NoReturn:
    """End this child, which has come back from the function that forked it, as a program ends."""
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
