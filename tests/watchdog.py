"""Who holds an event loop for too long: beats, claims and doors of a node all wait for it, so a test fails by it.

What counts is the processor time of the loop's own thread in one step, for a machine may be busy. That time grows, too,
where others share the processor: where a step took long, it is asked how slow the machine is just now. A timer of the
processor looks now and then whose code runs: time that modules take to load, tests and the garbage collector is no
product's. A test that calls the product a thousand times in a row holds the loop by itself: what counts is one call.
"""

import asyncio
import faulthandler
import gc
import os
import re
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TypeVar

MOST = 0.050
"""Seconds of the processor that the product may take in one step. In production a node warns of 0.25 s on the wall."""
_SAMPLE, _USUAL = 20_000, 0.0025
"""So many numbers become a text in so many seconds of the processor, on machines as MOST is meant for."""
EVERY = 0.005
"""Seconds of the processor between two looks."""
SHORT = 2 * EVERY
"""Seconds of the processor that a step of another thread may take before anybody looks: a look there costs more."""
_NOT_IN_A_NODE = ("/jinja2/compiler.py", "/jinja2/environment.py", "/copying.py")
"""Templates are compiled before a node listens; what copies a store is a program of its own."""
_LINE = re.compile(r'  File "(.*)", line \d+ in (.*)')
"""A call as `faulthandler` tells it."""
_PRODUCT, _TESTS = (f"{Path(__file__).parents[1] / part}/" for part in ("src/tokimori", "tests"))

Call = TypeVar("Call")


def slowness() -> float:
    """How many times the usual time this machine needs for anything just now; at least 1."""
    since = time.thread_time()
    ",".join(map(str, range(_SAMPLE)))
    return max(1.0, (time.thread_time() - since) / _USUAL)


class _Step:
    """What is known of a step at which somebody has looked."""

    def __init__(self, since: float) -> None:
        self.since = since
        """Seconds of the processor that its thread had when it was known."""
        self.looks, self.of_call, self.most, self.stack = 0, 0, 0, ""
        self.call: object = None
        self.collected = 0.0
        self.clock = time.pthread_getcpuclockid(threading.get_ident())
        """The processor time of its thread, which others may ask for: where the thread has gone, that is an error."""

    def look(self, call: object, stack: Callable[[], str]) -> None:
        """Note whose code runs: the product's call, if it is the product's, and how it came to that."""
        self.looks += 1
        if call is None:
            return
        self.of_call = self.of_call + 1 if call == self.call else 1
        self.call = call  # a frame is held, so that no later one has its place
        if self.of_call > self.most:
            self.most = self.of_call
            self.stack = stack()


class Watchdog:
    """Watches the loops of this process; one in another thread only while the main thread runs.

    Nearly all steps end before anybody looks, and there are millions of them: no clock is asked for them. A step of the
    main thread is known from the first look on, so that one look's time of it may not count.
    """

    def __init__(self) -> None:
        self._steps: dict[int, _Step] = {}
        """By thread, of other threads."""
        self._is_in_step = False
        self._step: _Step | None = None
        """Of the main thread, as soon as somebody has looked."""
        self._found: list[str] = []
        self._collecting = 0.0
        self._text = os.memfd_create("stacks")

    def begin(self) -> None:
        """Watch from now on. For the main thread."""
        main = threading.get_ident()
        signal.signal(signal.SIGVTALRM, self._look)
        signal.setitimer(signal.ITIMER_VIRTUAL, EVERY, EVERY)
        gc.callbacks.append(self._collect)
        run, thread_of = asyncio.Handle._run, threading.get_ident
        unseen: _Step | None = None

        def watched(handle: asyncio.Handle) -> None:
            if thread_of() != main:
                self._run_elsewhere(run, handle)
                return
            is_inner, step = self._is_in_step, self._step
            self._is_in_step, self._step = True, unseen
            run(handle)
            ended, self._is_in_step, self._step = self._step, is_inner, step
            if ended is not None:
                self._judge(ended)

        asyncio.Handle._run = watched  # type: ignore[assignment, method-assign]

    def _run_elsewhere(self, run: Callable[[asyncio.Handle], None], handle: asyncio.Handle) -> None:
        thread = threading.get_ident()
        before, step = self._steps.get(thread), _Step(time.thread_time())
        self._steps[thread] = step
        run(handle)
        if before is None:
            del self._steps[thread]
        else:
            self._steps[thread] = before
        self._judge(step)

    def end(self) -> None:
        """Take the timer away, which would outlive what handles it."""
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        os.close(self._text)

    def found(self) -> list[str]:
        """What held a loop since this was asked, with its stack."""
        found, self._found = self._found, []
        return found

    def _judge(self, step: _Step) -> None:
        taken = time.thread_time() - step.since - step.collected
        own = taken * step.most / max(step.looks, 1)
        if own > MOST and own > MOST * slowness():
            self._found.append(f"one step held the loop for {own * 1_000:.0f} ms, as here:\n{step.stack}")
        step.call = None  # its frame holds those that called it, and so the step: only the garbage collector ends that

    def _look(self, _: int, frame: FrameType | None) -> None:
        if self._is_in_step:
            self._step = self._step or _Step(time.thread_time())
            call = _product_call((each.f_code.co_filename, each) for each in _callers(frame))
            self._step.look(call, lambda: "".join(traceback.format_stack(frame)[-12:]))
        for thread, step in self._steps.copy().items():  # at once: other threads begin steps meanwhile
            with suppress(OSError):  # the thread has gone meanwhile
                if time.clock_gettime(step.clock) - step.since > SHORT:
                    step.look(*self._elsewhere(thread))

    def _elsewhere(self, thread: int) -> tuple[object, Callable[[], str]]:
        """The product's call in another thread, and its stack, as text: frames of Python 3.11 may vanish meanwhile."""
        os.ftruncate(self._text, 0)
        os.lseek(self._text, 0, os.SEEK_SET)
        faulthandler.dump_traceback(self._text)
        text = os.pread(self._text, 1 << 20, 0).decode(errors="replace")
        stack = text.partition(f"Thread 0x{thread:016x} ")[2].partition("\n\n")[0]
        return _product_call((file, (file, name)) for file, name in _LINE.findall(stack)), lambda: stack

    def _collect(self, phase: str, _: Mapping[str, int]) -> None:
        if phase == "start":
            self._collecting = time.thread_time()
            return
        thread = threading.get_ident()
        step = self._step if thread == threading.main_thread().ident else self._steps.get(thread)
        if step is not None:
            step.collected += time.thread_time() - self._collecting


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _product_call(calls: Iterable[tuple[str, Call]]) -> Call | None:
    """The call into the product in which its code runs, or what it calls; none while a module is loaded.

    `calls` are those of a thread with their files, the innermost first.
    """
    found, of_tests = None, False
    for file, call in calls:
        if file.startswith("<frozen importlib") or file.endswith(_NOT_IN_A_NODE):
            return None
        of_tests = of_tests or file.startswith(_TESTS)
        if not of_tests and file.startswith(_PRODUCT):
            found = call
    return found
