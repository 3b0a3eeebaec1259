"""The task in hand: what a function knows of its run, and how it says what became of it."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, Final, cast

from msgspec import Struct

from tokimori.apps.json_text import clean, kept, text_of, value_of
from tokimori.apps.parents import OfParents, Reads
from tokimori.apps.signals import Hand, Signals, carry_out
from tokimori.clock import Moment, format_moment, from_datetime, parse_moment, to_datetime
from tokimori.errors import ClaimLost, InvalidInput, Refused
from tokimori.executors.functions.wire import Facts
from tokimori.executors.reported import ReportedEnd, ReportFailed, ReportHold, ReportRetry, ReportSucceeded, leave
from tokimori.model.cause import VARIABLE
from tokimori.model.ids import JobId
from tokimori.model.outcome import Failed, Hold, Released, RetryAt, RetryIn, Spawns
from tokimori.model.words import check_text, check_word
from tokimori.service.validation import Span, seconds_of
from tokimori.traces.ambient import in_hand


class Finished(Struct, frozen=True):
    """Success. The returned value becomes JSON, or a failure if that can't be (`Succeeded`)."""

    result: object = None


FINISHED = Finished()
"""Success without a result, as most are."""


def spawned_by(end: object) -> tuple[tuple[JobId, str | None], ...]:
    """Return the runs that a function spawns by its end: job and payload of each."""
    return end.result.children if type(end) is Finished and isinstance(end.result, Spawns) else ()


End = Finished | Failed | RetryIn | RetryAt | Hold | Released


MOST_PROGRESS = 1000
"""Characters of the text of a progress; what is longer is cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskNotes:
    """Notes of a function so far."""

    progress: float | None = None
    text: str | None = None
    checkpoint: str | None = None


_NOTHING = TaskNotes()


class Task(OfParents):
    """The run that a function works on, until the function ends.

    The first call of `finish`, `fail`, `retry`, `release` or `hold` decides the outcome; later calls and the returned
    value change nothing. Each of them raises `ClaimLost` once the run is no longer this function's: another node may
    have it.
    """

    _notes = _NOTHING
    _lost = False

    def __init__(
        self,
        facts: Facts,
        write: Callable[[str], None],
        report: Callable[[TaskNotes], None] | None = None,
        *,
        hand: Hand = carry_out,
        reads: Callable[[], Reads | None] | None = None,
    ) -> None:
        self._facts = facts
        self._write = write
        self._report = report or _dropped
        self._reads = reads
        self._hand = hand
        self._signals: Signals | None = None
        self._lock = Lock()
        self._end: End | None = None
        self._ends_because: str | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.job_id}, run {self.run_id}, attempt {self.attempt}>"

    @property
    def job_id(self) -> str:
        """Return the job."""
        return self._facts.job_id

    @property
    def run_id(self) -> str:
        """Return the run."""
        return self._facts.run_id

    @property
    def payload(self) -> str | None:
        """Return the payload of the run, as it is kept."""
        return self._facts.payload

    @property
    def data(self) -> Any:
        """Return the payload of the run: its value if it is JSON, else the text; None without one."""
        payload = self._facts.payload
        return None if payload is None else value_of(payload)

    @property
    def is_inherited(self) -> bool:
        """Return whether the payload is the result of the parent run, and not one of this job."""
        return self._facts.is_inherited

    @property
    def scheduled_at(self) -> datetime:
        """Return the moment that the schedule named, or for which the run was requested (UTC)."""
        return to_datetime(self._facts.scheduled_at)

    @property
    def due_at(self) -> datetime:
        """Return the moment at which it was due (UTC): `scheduled_at` with the job's delay and jitter."""
        return to_datetime(self._facts.due_at)

    @property
    def attempt(self) -> int:
        """Return the number of this try; the first one is 1."""
        return self._facts.attempt

    @property
    def token(self) -> int:
        """Return the fencing token, which grows with each claim of the run."""
        return self._facts.token

    @property
    def deadline(self) -> datetime | None:
        """Return the moment of its time-out (UTC)."""
        deadline = self._facts.deadline
        return None if deadline is None else to_datetime(deadline)

    @property
    def traceparent(self) -> str | None:
        """Return the run's place in a trace (W3C Trace Context), for calls from here; None: in none."""
        return self._facts.traceparent

    @property
    def parent_run_id(self) -> str | None:
        """Return the id of the run that this one follows, or that requested it."""
        return self._facts.parent_run_id

    @property
    def cancelled(self) -> bool:
        """Return whether it is to end: cancelled, out of time, its node stops or the claim is lost."""
        return self._ends_because is not None

    def finish(self, result: object = None) -> None:
        """End as succeeded. `result`, as JSON, becomes the payload of the run's children."""
        self._decide(Finished(result))

    def fail(self, error: str, *, retry: bool = True) -> None:
        """End as failed; the job's policy decides about a retry, unless `retry` is false."""
        check_text("error", error)
        self._decide(Failed(error, final=not retry))

    def retry(self, *, after: Span | None = None, at: datetime | None = None) -> None:
        """Ask for a retry `after` this time (default: the job's `retry.wait`), or `at` a moment.

        Raises `InvalidInput`.
        """
        if at is not None and after is not None:
            raise InvalidInput(
                "at: a retry is either at or after", field="at", value=str(at), allowed="one of at, after"
            )
        if at is not None:
            if at.tzinfo is None:
                raise InvalidInput("at: it has no time zone", field="at", value=str(at), allowed="an aware datetime")
            self._decide(RetryAt(from_datetime(at)))
            return
        seconds = None if after is None else seconds_of("after", after)
        self._decide(RetryIn(seconds))

    def release(self) -> None:
        """Release the run for another worker, after the job's `retry.wait`. The attempt does not count."""
        self._decide(Released("the function released it", asked=True))

    def hold(self, reason: str = "the function asks for a person") -> None:
        """Hold the run until a person resumes it (`tokimori run resume`)."""
        check_text("reason", reason)
        self._decide(Hold(reason))

    def heartbeat(self) -> None:
        """Check that the run still belongs to this function, or raise `ClaimLost`. Its node keeps the lease alive."""
        self._check()

    def log(self, text: object) -> None:
        """Write a line to the run's output."""
        self._write(f"{text}\n")

    def progress(self, fraction: float, text: str = "") -> None:
        """Report the progress, a fraction from 0 to 1. `run show` shows it, and it is a line of the run's output.

        Raises `InvalidInput` and `ClaimLost`.
        """
        if not 0 <= fraction <= 1:
            message = f"progress: {fraction!r} is out of range"
            raise InvalidInput(message, field="progress", value=fraction, allowed="0..1")
        self._check()
        self._write(f"{fraction:.0%} {text}".rstrip() + "\n")
        self._note(progress=float(fraction), text=clean(text)[:MOST_PROGRESS] or None)

    def checkpoint(self, data: object) -> None:
        """Store this as JSON for the next attempt of the run, on any node, if it is `checkpointed`.

        The newest one counts. It is stored at the end of the attempt, and about once a second before, in case its
        process or node dies. Raises `InvalidInput` if it can't be stored, and `ClaimLost`.
        """
        text = kept(text_of(data, "checkpoint"), "checkpoint")
        self._check()
        self._note(checkpoint=text)

    @property
    def checkpointed(self) -> Any:
        """Return the last checkpoint of this attempt or an earlier one; None if there is none."""
        text = self._notes.checkpoint or self._facts.checkpoint
        return None if text is None else value_of(text)

    def on_signal(self, name: str, act: Callable[[Any], object]) -> None:
        """Call `act` with the data of each signal of this name, which `tokimori run signal` sends to the run.

        Earlier signals are not lost. For an `async` function it is called on its loop, and may be a coroutine function;
        else in a thread of its own, one signal after the other. Its errors go to the run's output, and end nothing.
        """
        check_word("name", name)
        self._made_signals().on(name, act)

    # For the process that runs the function

    def signal(self, name: str, data: str | None) -> None:
        """Receive a signal, with data as JSON."""
        self._made_signals().receive(name, data)

    def end_because(self, why: str, *, lost: bool) -> None:
        """Ask the function to end."""
        self._ends_because = self._ends_because or why
        self._lost = self._lost or lost

    def end(self) -> End | None:
        """Return the end that the function has requested."""
        return self._end

    def write(self, text: str) -> None:
        """Write to the run's output."""
        self._write(text)

    def close(self) -> None:
        """End the task: its attempt is over.

        The circular reference to the attempt is cut: to find each such pair took the garbage collector a fifth of a
        no-op's cost.
        """
        with self._lock:
            self._write = self._report = self._hand = _dropped
            signals, self._signals = self._signals, None
        del signals  # not under the lock: its acts are the user's, and what goes with them may speak to this task

    def _made_signals(self) -> Signals:
        with self._lock:
            if self._signals is None:  # made when it is needed: few functions are sent signals
                self._signals = Signals(self._hand)
            return self._signals

    def _note(self, **notes: Any) -> None:
        with self._lock:
            self._notes = replace(self._notes, **notes)
        self._report(self._notes)

    def _decide(self, end: End) -> None:
        self._check()
        with self._lock:
            self._end = self._end or end

    def _check(self) -> None:
        if self._lost:
            raise ClaimLost(f"run {self.run_id} is no longer this function's: {self._ends_because}")


def _dropped(*_: object) -> None:
    """Ignore the report of an attempt that is over."""


def current_task() -> Task:
    """Return the task on which the calling function or command works. Raises `Refused` if there is none."""
    task = task_in_hand() or task_of_command()
    if task is None:
        raise Refused(
            "no task is running here: this code was not started by a run", allowed="a call within a function's run"
        )
    return task


def task_in_hand() -> Task | None:
    """Return the task of the calling function; None outside one."""
    return cast("Task | None", in_hand.get())


def take_in_hand(task: Task) -> None:
    """Make this the task in hand of the calling context: requests from here continue its trace."""
    in_hand.set(task)


_NO_FUNCTION: Final = "a command has no such thing: `@app.job` declares a function, which has"


class CommandTask(Task):
    """The run that a command works on. The first end that it says is reported at once, and counts when it exits."""

    def checkpoint(self, data: object) -> None:
        """Raise `Refused`: nothing is kept of a command."""
        raise Refused(f"checkpoint: {_NO_FUNCTION}", field="checkpoint", allowed="a file of its own")

    def parent_result(self, job: str | None = None) -> Any:
        """Return what stands in TOKIMORI_PARENT_RESULT, or in it of the parent `job` of a join; None without one."""
        text = _variable("TOKIMORI_PARENT_RESULT")
        value = None if text is None else value_of(text)
        return value if job is None or not isinstance(value, Mapping) else value.get(job)

    def release(self) -> None:
        """Raise `Refused`: a command can't give its run back."""
        raise Refused(f"release: {_NO_FUNCTION}", field="release", allowed="`retry`")

    def _decide(self, end: End) -> None:
        if self.end() is None:
            leave(_report(end), os.environ)
        super()._decide(end)


def _report(end: End) -> ReportedEnd:
    match end:
        case Finished(result) if not isinstance(result, Spawns):
            return ReportSucceeded(None if result is None else text_of(result, "result"))
        case RetryIn(seconds):
            return ReportRetry(seconds=seconds or 0)
        case RetryAt(moment):
            return ReportRetry(at=format_moment(moment))
        case Hold(reason):
            return ReportHold(reason)
        case Failed(error, final=final):
            return ReportFailed(error, retry=not final)
        case _:
            what = "spawn" if isinstance(end, Finished) else "release"
            raise Refused(f"{what}: {_NO_FUNCTION}", field=what)


@lru_cache(maxsize=1)
def task_of_command() -> CommandTask | None:
    """Return the task of the command that this process is; None: no run has started it."""
    environ = os.environ
    if "TOKIMORI_RUN_ID" not in environ or "TOKIMORI_OUTCOME_FILE" not in environ:
        return None
    facts = Facts(
        job_id=environ["TOKIMORI_JOB_ID"],
        run_id=environ["TOKIMORI_RUN_ID"],
        attempt=int(environ["TOKIMORI_ATTEMPT"]),
        token=int(environ["TOKIMORI_TOKEN"]),
        scheduled_at=_moment("TOKIMORI_NOMINAL_TIME"),
        due_at=_moment("TOKIMORI_DUE_TIME"),
        payload=_variable("TOKIMORI_PAYLOAD"),
        parent_run_id=environ.get("TOKIMORI_PARENT_RUN_ID"),
        traceparent=environ.get(VARIABLE),
    )
    return CommandTask(facts, _write)


def _write(text: str) -> None:
    sys.stdout.write(text)


def _moment(name: str) -> Moment:
    return parse_moment(os.environ[name], field=name)


def _variable(name: str) -> str | None:
    file = os.environ.get(f"{name}_FILE")
    return os.environ.get(name) if file is None else Path(file).read_text(encoding="utf-8")
