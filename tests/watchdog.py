"""Who holds an event loop for too long: beats, claims and doors of a node all wait for it, so a test fails by it.

What counts is the processor time of the loop's own thread in one step, for a machine may be busy. A timer of the
processor looks now and then whose code runs: time that modules take to load, tests and the garbage collector is no
product's. A test that calls the product a thousand times in a row holds the loop by itself: what counts is one call.
"""

import asyncio
import gc
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType

MOST = 0.050
"""Seconds of the processor that the product may take in one step. In production a node warns of 0.25 s on the wall."""
_EVERY = 0.005
"""Seconds of the processor between two looks."""
_IN_NO_STEP = -1.0
_NOT_IN_A_NODE = ("/jinja2/compiler.py", "/jinja2/environment.py", "/copying.py")
"""Templates are compiled before a node listens; what copies a store is a program of its own."""
_PRODUCT, _TESTS = (f"{Path(__file__).parents[1] / part}/" for part in ("src/tokimori", "tests"))


class _Step:
    """What is known of a step at which somebody has looked."""

    def __init__(self, began: float) -> None:
        self.began = began
        """In seconds of the processor that its thread had then."""
        self.looks, self.of_call, self.most, self.stack = 0, 0, 0, ""
        self.call: FrameType | None = None
        self.collected = 0.0

    def look(self, frame: FrameType | None) -> None:
        """Note whose code runs."""
        self.looks += 1
        if (call := _product_call(frame)) is None:
            return
        self.of_call = self.of_call + 1 if call is self.call else 1
        self.call = call  # held, so that no later frame has its place
        if self.of_call > self.most:
            self.most = self.of_call
            self.stack = "".join(traceback.format_stack(frame)[-12:])


class Watchdog:
    """Watches the loops of this process; one in another thread only while the main thread runs.

    Nearly all steps end before anybody looks, and there are millions of them: they cost no more than a look at the wall
    clock. A step of the main thread is known from the first look on. It began after the look before that one, and not
    longer ago than the wall clock says.
    """

    def __init__(self) -> None:
        self._steps: dict[int, _Step] = {}
        """By thread, of other threads."""
        self._step: _Step | None = None
        self._began = _IN_NO_STEP
        """When the step of the main thread began, on the wall clock."""
        self._looked = 0.0
        """Seconds of the processor that the main thread had at the last look."""
        self._found: list[str] = []
        self._collecting = 0.0

    def begin(self) -> None:
        """Watch from now on. For the main thread."""
        main = threading.get_ident()
        signal.signal(signal.SIGVTALRM, self._look)
        signal.setitimer(signal.ITIMER_VIRTUAL, _EVERY, _EVERY)
        gc.callbacks.append(self._collect)
        run, thread_of, wall = asyncio.Handle._run, threading.get_ident, time.perf_counter
        unseen: _Step | None = None

        def watched(handle: asyncio.Handle) -> None:
            if thread_of() != main:
                self._run_elsewhere(run, handle)
                return
            began, step = self._began, self._step
            self._began, self._step = wall(), unseen
            run(handle)
            ended, self._began, self._step = self._step, began, step
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

    def found(self) -> list[str]:
        """What held a loop since this was asked, with its stack."""
        found, self._found = self._found, []
        return found

    def _judge(self, step: _Step) -> None:
        taken = time.thread_time() - step.began - step.collected
        own = taken * step.most / max(step.looks, 1)
        if own > MOST:
            self._found.append(f"one step held the loop for {own * 1_000:.0f} ms, as here:\n{step.stack}")

    def _look(self, _: int, frame: FrameType | None) -> None:
        now, before = time.thread_time(), self._looked
        self._looked = now
        if self._began != _IN_NO_STEP:
            if self._step is None:
                self._step = _Step(max(before, now - (time.perf_counter() - self._began)))
            self._step.look(frame)
        for thread, step in self._steps.copy().items():  # at once: other threads begin steps meanwhile
            step.look(sys._current_frames().get(thread))

    def _collect(self, phase: str, _: Mapping[str, int]) -> None:
        if phase == "start":
            self._collecting = time.thread_time()
            return
        taken, thread = time.thread_time() - self._collecting, threading.get_ident()
        step = self._step if thread == threading.main_thread().ident else self._steps.get(thread)
        if step is not None:
            step.collected += taken
        elif thread == threading.main_thread().ident and self._began != _IN_NO_STEP:  # as if it began so much later
            self._began += taken
            self._looked += taken


def _product_call(frame: FrameType | None) -> FrameType | None:
    """The call into the product in which its code runs, or what it calls; none while a module is loaded."""
    call, of_tests = None, False
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith("<frozen importlib") or file.endswith(_NOT_IN_A_NODE):
            return None
        of_tests = of_tests or file.startswith(_TESTS)
        if not of_tests and file.startswith(_PRODUCT):
            call = frame
        frame = frame.f_back
    return call
