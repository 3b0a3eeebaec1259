"""Attempt in a worker process: calls the function, interrupts it if it has to end, and reports what it says."""

import asyncio
import ctypes
import inspect
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from functools import partial
from math import inf
from pathlib import Path
from threading import Lock, get_ident
from time import thread_time_ns
from typing import TYPE_CHECKING, Any, assert_never

from msgspec.structs import replace

from tokimori.apps.arguments import UnfitPayload
from tokimori.apps.failures import ANY
from tokimori.apps.families import own_spawns
from tokimori.apps.hooks import DJANGO, Act, called_async, hooks
from tokimori.apps.json_text import clean_and_cut, error_traceback, error_words, kept, text_of
from tokimori.apps.own_process import BLUR, Meter, ThreadTime, leave
from tokimori.apps.routes import AppFunctions
from tokimori.apps.signals import SignalThread
from tokimori.apps.task import FINISHED, End, Finished, Task, TaskNotes, spawned_by, take_in_hand
from tokimori.client.facade import done
from tokimori.errors import InvalidInput
from tokimori.executors.functions import wire
from tokimori.executors.keeper.kernel import boottime, is_short
from tokimori.executors.keeper.output import Output
from tokimori.model.outcome import Failed, Hold, Released, RetryAt, RetryIn
from tokimori.traces.spans import span_of

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

UNSAID = "it did not say how it ended, as its job demands (auto_complete_success)"
LATE = "the lease of its node was over before it began"


class Interrupted(BaseException):
    """Raised in the thread of a function that is to end: as KeyboardInterrupt, nothing that catches errors stops it."""


class RunningAttempt:
    """A running attempt. `grew` is called after new output, `noted` after new notes, in any thread.

    `ends` is called before its end is reported, to collect the last output. `new_notes` are new notes (`take_notes`).
    """

    __slots__ = (
        *("__weakref__", "begin", "coroutine", "new_notes", "task"),
        *("_act", "_acting", "_acts", "_app", "_began", "_begun", "_ends", "_forked", "_goes_on", "_grew"),
        *("_is_over", "_lock", "_meter", "_on_notes", "_output", "_runs_dir", "_thread", "_time", "_tracer"),
    )

    def __init__(
        self,
        begin: wire.Begin,
        act: Act,
        runs_dir: Path,
        grew: "Callable[[RunningAttempt], None]",
        *,
        noted: "Callable[[RunningAttempt], None]" = lambda _: None,
        ends: "Callable[[RunningAttempt], None]" = lambda _: None,
        tracer: "Tracer | None" = None,
        app: AppFunctions | None = None,
    ) -> None:
        self.begin = begin
        self._tracer = tracer
        self._app = app
        self._act = act
        self._began = 0.0
        self._grew = grew
        self._output: Output | None = None
        self._runs_dir = runs_dir
        self._lock = Lock()
        self._forked = self._begun = self._goes_on = self._is_over = False
        self._thread: int | None = None
        self._meter: Meter | None = None
        self.coroutine: asyncio.Task[None] | None = None
        self.new_notes: TaskNotes | None = None
        self._acts: SignalThread | None = None
        self._acting: set[asyncio.Future[object]] | None = None
        self._on_notes = noted
        self._ends = ends
        self.task = Task(begin, self.write, self._note, hand=self._deliver, reads=None if app is None else app._reads)

    # The work

    def run(self, lease: float = inf, time: ThreadTime | None = None) -> wire.FunctionEnded | None:
        """Call a blocking function in the calling thread; return None if its result is for `run_async`.

        It does not begin if the `lease` is over (seconds of CLOCK_BOOTTIME): another node may have the run. `time` is
        that of the calling thread, if attempts share it.
        """
        self._began = boottime()
        if self._began >= lease:
            return self._late()
        self._time = time = time or ThreadTime()
        if self._began - time.asked >= BLUR:
            time.asked, time.spent = self._began, thread_time_ns()
        if self.begin.alone:
            self._meter = Meter()
        return copy_context().run(self._run)  # of which the next attempt in this thread knows nothing

    def _run(self) -> wire.FunctionEnded | None:
        try:
            try:
                self._thread = get_ident()
                self._begin()
                if DJANGO in sys.modules:
                    self._call_hooks()
                if self._tracer is None:
                    returned = self._act(self.task)
                else:
                    with self._span(self._tracer):
                        returned = self._act(self.task)
                if returned is not None and hasattr(returned, "__await__"):
                    self._act, self._begun, self._goes_on = lambda _: returned, False, True
                    return None
                end = self._end_of(returned)
                if end is not FINISHED and spawned_by(end):
                    end = done(own_spawns(end, blocks=True))
            finally:
                with self._lock:
                    self._thread = None
                try:
                    for _ in range(3):  # where an interruption that was on its way arrives, if it does
                        pass
                finally:
                    if DJANGO in sys.modules:
                        self._call_hooks()
        except BaseException as fault:
            self._leave_if_forked(fault)
            end = self._fallen(fault)
        return self.ended(end, self._time.since(self._began))

    async def run_async(self, lease: float = inf) -> wire.FunctionEnded:
        """Call a coroutine function on the loop, or await the result of `run`. `lease` is as for `run`."""
        if not self._goes_on:
            self._began = boottime()
            if self._began >= lease:
                return self._late()
            if self.begin.alone:
                self._meter = Meter()
        try:
            self._begin()
            await self._await_hooks()
            try:
                with nullcontext() if self._tracer is None else self._span(self._tracer):
                    end = self._end_of(await self._act(self.task))
                end = end if end is FINISHED else await own_spawns(end, blocks=False)
            finally:
                await self._await_hooks()
        except BaseException as fault:  # asyncio would keep it in its task, and nobody would receive the end
            self._leave_if_forked(fault)
            end = self._fallen(fault)
        return self.ended(end)

    def _late(self) -> wire.FunctionEnded:
        return replace(self.ended(Released(LATE)), end=wire.LATE)

    def _call_hooks(self) -> None:
        for hook in hooks():
            if self._forked:  # the connections of a child are its parent's
                return
            try:
                hook()
            except Exception as fault:
                self.write(error_traceback(fault))

    async def _await_hooks(self) -> None:
        for hook in hooks():
            if self._forked:
                return
            try:
                await called_async(hook)
            except Exception as fault:
                self.write(error_traceback(fault))

    def _begin(self) -> None:
        """Begin. Raises `Interrupted` if the end was ordered before, as no interrupt follows then."""
        self._begun = True
        take_in_hand(self.task)
        if self.task.cancelled:
            raise Interrupted

    def forked(self) -> None:
        """Give up the output in a child that was forked while the attempt ran: nothing of it is ours."""
        self._forked, self._lock = True, Lock()  # a thread that is not here may have held that of before

    def _leave_if_forked(self, fault: BaseException | None = None) -> None:
        if self._forked:
            leave(fault)

    def _span(self, tracer: "Tracer") -> AbstractContextManager[None]:
        about = {"tokimori.job.id": self.begin.job_id, "tokimori.run.id": self.begin.run_id}
        return span_of(tracer, self.begin.handler, self.begin.traceparent, about)

    def end_because(self, why: str, *, lost: bool) -> None:
        """Ask the attempt to end, and interrupt it."""
        self.task.end_because(why, lost=lost)
        if self.coroutine is not None:
            if self._begun:  # a task that is cancelled before its first step never takes it, and reports no end
                self.coroutine.cancel()
            return
        with self._lock:
            if self._thread is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), ctypes.py_object(Interrupted))

    def _end_of(self, returned: object) -> End:
        end = self.task.end()
        if end is not None:
            return end
        if not self.begin.returning_succeeds:
            return Failed(UNSAID)
        return FINISHED if returned is None else Finished(returned)

    def _fallen(self, fault: BaseException) -> End:
        """Return the end that an exception means: an error, with its traceback in the output. Earlier words stay."""
        interrupted = isinstance(fault, Interrupted | asyncio.CancelledError) and self.task.cancelled
        cause = (fault.__cause__ if isinstance(fault, UnfitPayload) else None) or fault
        end = self.task.end()
        if interrupted:
            return Failed("it was interrupted") if end is None else end
        self.write(trace := error_traceback(cause))  # before a backoff, as the process may end within it
        if end is None:
            rule = ANY if self._app is None else self._app.rules.get(self.begin.handler, ANY)
            words, attempt = error_words(cause), self.begin.attempt
            end = rule.judge(words, attempt, fault, lambda it: self.write(error_traceback(it) + trace))
        return end

    # Reports

    def _note(self, notes: TaskNotes) -> None:
        self.new_notes = notes
        self._on_notes(self)

    def take_notes(self) -> wire.Noted | None:
        """Return the notes of the attempt, if they are new."""
        notes, self.new_notes = self.new_notes, None
        if notes is None:
            return None
        return wire.Noted(
            number=self.begin.number, progress=notes.progress, text=notes.text, checkpoint=notes.checkpoint
        )

    # Signals

    def signal(self, name: str, data: str | None) -> None:
        """Receive a signal. Called on the loop."""
        self.task.signal(name, data)

    def _deliver(self, act: Callable[[Any], object], data: Any) -> None:
        """Call `act` in the context of the function: a thread of its own, or its loop."""
        if self.coroutine is None:
            with self._lock:
                if self._is_over:
                    return
                if self._acts is None:  # made when it is needed: few functions are sent signals
                    self._acts = SignalThread(lambda fault: self.write(error_traceback(fault)))
                acts = self._acts
            acts.give(partial(copy_context().run, self._carry_out, act, data))
        else:
            acting = asyncio.ensure_future(self._wait_for(act, data))
            if self._acting is None:
                self._acting = set()
            self._acting.add(acting)
            acting.add_done_callback(self._acting.discard)

    def _carry_out(self, act: Callable[[Any], object], data: Any) -> object:
        take_in_hand(self.task)
        try:
            done = act(data)
        except BaseException as fault:
            self._leave_if_forked(fault)
            raise
        self._leave_if_forked()
        return done

    async def _wait_for(self, act: Callable[[Any], object], data: Any) -> object:
        take_in_hand(self.task)
        try:
            done = act(data)
            return await done if inspect.isawaitable(done) else done
        except asyncio.CancelledError:
            raise
        except BaseException as fault:  # it is the user's code, and may end the loop with all that runs on it
            self.write(error_traceback(fault))
            return None

    # Its output

    def write(self, text: str) -> None:
        """Add to its output. What comes after its end, from a thread that it has left behind, is dropped."""
        data = text.encode("utf-8", "backslashreplace")
        if self._forked:
            os.write(2, data)
            return
        with self._lock:
            if self._is_over:
                return
            if self._output is None:
                log = f"{self.begin.run_id}/{self.begin.attempt}.log"
                self._output = Output(self._runs_dir, log, wire.MOST_OUTPUT)
            self._output.write(data)
        self._grew(self)

    @property
    def is_over(self) -> bool:
        """Return whether further output is dropped."""
        return self._is_over

    def growth(self) -> wire.FunctionGrew:
        """Return the newest output."""
        with self._lock:
            if (output := self._output) is None:
                return wire.FunctionGrew(number=self.begin.number, size=0, tail=b"")
            tail, times = output.recent(), output.times.encoded()
            return wire.FunctionGrew(number=self.begin.number, size=output.size, tail=tail, times=times)

    def exits(self, status: int) -> wire.FunctionEnded:
        """Return the end of an attempt that ends its process."""
        end = self.task.end() or Failed(f"it ended its worker process: os._exit({status})")
        cpu = self._time.since(self._began) if self._thread == get_ident() else None
        return replace(self.ended(end, cpu), exits=True)

    def ended(self, end: End, cpu: int | None = None) -> wire.FunctionEnded:
        """Return the message about its end. `cpu`: microseconds of its thread, if known; of its process if alone."""
        if self._forked:
            leave(None)
        self._ends(self)
        memory = None
        if self._meter is not None:
            cpu, memory = self._meter.cost()
        spawned = () if end is FINISHED else spawned_by(end)
        try:
            kind, text, when = (wire.SPAWNED, None, 0.0) if spawned else _said_as(end)
        except InvalidInput as fault:
            kind, text, when = wire.FINAL, f"{fault.message}; allowed: {fault.allowed}", 0.0
        except BaseException as fault:  # a model writes itself, by code of the program
            self.write(error_traceback(fault))
            kind, text, when = wire.FAILED, clean_and_cut(f"result: {error_words(fault)}"), 0.0
        if self._acting:
            for acting in tuple(self._acting):
                acting.cancel()
        with self._lock:
            self._is_over, acts, output = True, self._acts, self._output
            head, tail = (b"", b"") if output is None else output.finish()
        if acts is not None:
            acts.end()
        self.task.close()
        ended = wire.FunctionEnded(
            number=self.begin.number,
            began=self._began or boottime(),
            at=boottime(),
            end=kind,
            text=text,
            when=when,
            cpu=cpu,
            memory=memory,
            spawned=spawned,
        )
        if output is None:
            return ended
        return replace(ended, size=output.size, head=head, tail=tail, times=output.times.encoded())


def _said_as(end: End) -> tuple[str, str | None, float]:
    """Return kind, text and time of an end. Raises `InvalidInput` for a result that can't be stored."""
    if end is FINISHED:
        return wire.SUCCEEDED, None, 0.0
    match end:
        case Finished(result):
            return wire.SUCCEEDED, None if result is None else kept(text_of(result, "result"), "result"), 0.0
        case Failed(error, final=True):
            return wire.FINAL, clean_and_cut(error), 0.0
        case Failed(error, wait=wait):
            return wire.FAILED if wait is None else wire.FAILED_IN, clean_and_cut(error), wait or 0.0
        case RetryIn(seconds):
            return (wire.RETRY, None, 0.0) if seconds is None else (wire.RETRY_IN, None, seconds)
        case RetryAt(moment):
            return wire.RETRY_AT, None, moment
        case Hold(reason) | Released(reason):
            return wire.HELD if isinstance(end, Hold) else wire.RELEASED, clean_and_cut(reason), 0.0
        case _:
            assert_never(end)


def not_begun(begin: wire.Begin, fault: BaseException) -> wire.FunctionEnded:
    """Return the end of an attempt that could not begin."""
    at, end = boottime(), wire.SHORT if is_short(fault) else wire.FAILED
    return wire.FunctionEnded(number=begin.number, began=at, at=at, end=end, text=clean_and_cut(error_words(fault)))
