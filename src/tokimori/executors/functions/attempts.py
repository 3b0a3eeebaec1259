"""Attempts of functions: how one begins, its early signals, its reports, and the outcome of one that ended."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import assert_never

from tokimori.clock import FIRST, LAST, SECOND, Clock, Moment
from tokimori.errors import Bug, InvalidInput
from tokimori.executors.functions import wire
from tokimori.executors.functions.process import Assignment
from tokimori.executors.keeper.output import EDGE
from tokimori.executors.reported import short_of, some, stopped
from tokimori.model.attempt_notes import Notes
from tokimori.model.ids import RunId, Token
from tokimori.model.job_fields import LONGEST
from tokimori.model.order import newest_signals
from tokimori.model.outcome import (
    Failed,
    Hold,
    Lost,
    Outcome,
    Released,
    RetryAt,
    RetryIn,
    Succeeded,
    TimedOut,
    spawns_of,
)
from tokimori.model.run import Output, times_since
from tokimori.model.target import Function, Handler
from tokimori.model.words import check_text
from tokimori.ports.executor import AttemptTask, Grew, Noted, Report, Signal, StopReason

WHY = {
    StopReason.CANCEL: "it was cancelled",
    StopReason.RELEASE: "its node stops",
    StopReason.RESTART: "it was restarted",
    StopReason.DISOWN: "it is no longer its node's",
}


def report_of(attempt: Assignment, said: wire.FunctionGrew | wire.Noted, boot: Moment) -> Report:
    """Return the report of an attempt that goes on, and note what it says of the output; `boot`: of this machine."""
    task = attempt.task
    match said:
        case wire.FunctionGrew():
            attempt.reported = said.size, said.times
            output = output_of(task, said, boot)
            return Grew(run_id=task.run_id, token=task.token, output=output)
        case wire.Noted(progress=progress, text=text, checkpoint=checkpoint):
            notes = Notes(attempt=task.attempt, progress=progress, text=text, checkpoint=checkpoint)
            return Noted(run_id=task.run_id, token=task.token, notes=notes)
        case _:
            assert_never(said)


def output_of(task: AttemptTask, said: wire.FunctionGrew | wire.FunctionEnded, boot: Moment) -> Output:
    """Return what the attempt has written; `boot`: of this machine."""
    return Output(
        run_id=task.run_id,
        attempt=task.attempt,
        size=said.size,
        head=b"" if isinstance(said, wire.FunctionGrew) else said.head,
        tail=said.tail,
        times=times_since(boot, said.times),
    )


def output_at_end(attempt: Assignment, said: wire.FunctionEnded | None, runs_dir: Path, boot: Moment) -> Output | None:
    """Return the output of an attempt that has ended; None if it has written nothing more than was reported before.

    If its process died before it could report the end (`said`), the newest stands only in the file of the attempt.
    """
    task, (reported, times) = attempt.task, attempt.reported
    if said is not None:
        return output_of(task, said, boot) if said.size else None
    if attempt.process is None:
        return None
    try:
        file = os.open(runs_dir / task.run_id / f"{task.attempt}.log", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # it has written nothing
        return None
    try:
        size = os.fstat(file).st_size
        if not reported < size < wire.MOST_OUTPUT:  # the file of a larger one is not whole
            return None
        head = os.pread(file, EDGE, 0)
        tail = os.pread(file, EDGE, max(EDGE, size - EDGE))
    except OSError:  # a function has put something else in its place
        return None
    finally:
        os.close(file)
    marks = times_since(boot, times)
    return Output(run_id=task.run_id, attempt=task.attempt, size=size, head=head, tail=tail, times=marks)


def begin_of(task: AttemptTask, number: int, clock: Clock) -> wire.Begin:
    """Return the message by which an attempt begins in a worker process. Raises `Bug`."""
    return wire.Begin(
        number=number,
        handler=handler_in(task),
        run_id=task.run_id,
        job_id=task.job_id,
        attempt=task.attempt,
        token=task.token,
        scheduled_at=task.nominal,
        due_at=task.due,
        payload=task.payload,
        is_inherited=task.is_inherited,
        checkpoint=task.checkpoint,
        deadline=None if task.timeout is None else Moment(clock.now() + int(task.timeout * SECOND)),
        parent_run_id=task.parent_id,
        returning_succeeds=task.auto_complete_success,
        traceparent=task.traceparent,
    )


def handler_in(task: AttemptTask) -> str:
    """Return the handler that a task names. Raises `Bug`."""
    if not isinstance(task.target, Function):
        raise Bug(f"a {type(task.target).__name__} was given to the executor of functions")
    return task.target.name


def handlers_of(app: wire.Hello) -> Sequence[Handler]:
    """Return the handlers that an app has."""
    return (*app.handlers, *map(re.compile, app.patterns))


MOST = 1_000
"""Number of attempts that have not begun whose signals are stored."""
MOST_DATA = 2**24
"""Number of characters of the data of these signals together."""


class Early:
    """Signals for attempts that have not begun, within a bound: they may be large, and nobody come.

    By attempt (`kept`): the one that received its signal first is in front, and forgotten first.
    """

    def __init__(self) -> None:
        self.kept: dict[tuple[RunId, Token], list[Signal]] = {}
        self._size = 0

    def add(self, key: tuple[RunId, Token], signal: Signal) -> None:
        """Keep a signal for the attempt, and the newest of those before it."""
        signals = newest_signals([*self.kept.get(key, ()), signal])
        self._size += _size_of(signals) - _size_of(self.kept.get(key, ()))
        self.kept[key] = signals
        while len(self.kept) > MOST or self._size > MOST_DATA:
            self.pop(next(iter(self.kept)))

    def pop(self, key: tuple[RunId, Token]) -> Sequence[Signal]:
        """Remove and return the signals of the attempt, in their order."""
        if key not in self.kept:
            return ()
        signals = self.kept.pop(key)
        self._size -= _size_of(signals)
        return signals


def _size_of(signals: Sequence[Signal]) -> int:
    return sum(len(signal.data or "") for signal in signals)


_TIMES = {wire.FAILED_IN: (0, LONGEST), wire.RETRY_IN: (0, LONGEST), wire.RETRY_AT: (FIRST, LAST)}
"""The first and the last that an end may name."""
_SUCCEEDED = Succeeded()
"""Most ends bring no result; of those there may be thousands a second."""


def outcome_of(ended: wire.FunctionEnded, reason: StopReason | None, timeout: float | None) -> Outcome:
    """Return the outcome of an attempt that a worker process reports. `timeout`: its time was over.

    Only an end that nobody asked for can be a success: a function that returns after an order to end may have left
    its work undone.
    """
    if timeout is not None:
        return TimedOut(f"it took longer than {timeout:g} s")
    if reason is not None:
        return stopped(reason)
    if ended.end == wire.SUCCEEDED and ended.text is None:
        return _SUCCEEDED
    text = ended.text or ""
    if fault := _nonsense(ended):
        return Failed(f"its worker process said what can't be kept: {fault}")
    match ended.end:
        case wire.SUCCEEDED:
            return Succeeded(None, ended.text)
        case wire.RETRY | wire.RETRY_IN:
            return RetryIn(None if ended.end == wire.RETRY else ended.when)
        case wire.RETRY_AT:
            return RetryAt(Moment(int(ended.when)))
        case wire.HELD:
            return Hold(text)
        case wire.RELEASED | wire.LATE:
            return Released(text, asked=ended.end == wire.RELEASED)
        case wire.SHORT:
            return short_of(text)
        case wire.SPAWNED:
            return _spawning(ended)
        case kind:
            return Failed(text, final=kind == wire.FINAL, wait=ended.when if kind == wire.FAILED_IN else None)


def _spawning(ended: wire.FunctionEnded) -> Outcome:
    try:
        return spawns_of(ended.spawned)
    except InvalidInput as fault:
        return Failed(f"its worker process said what can't be kept: {fault.message}")


def _nonsense(ended: wire.FunctionEnded) -> str | None:
    """Return the fault of a report that no worker process of ours sends: a function can say anything in its name."""
    try:
        check_text("text", ended.text or "")
    except InvalidInput:
        return "a text with characters that no store keeps"
    most = _TIMES.get(ended.end)
    if most is not None and not most[0] <= ended.when <= most[1]:
        return f"{ended.end} {ended.when:g}"
    return None


def killed_with_process(number: int, blamed: str, *, timed_out: bool) -> Lost:
    """Return the outcome of an attempt whose process was killed because of another one."""
    ignored = "its time-out" if timed_out else "the order to end"
    return Lost(f"Worker process {number} was stopped because run {blamed} ignored {ignored}.")


def lost_with_process(
    how: str, task: AttemptTask, lost: Sequence[AttemptTask], counts: int, culprit: Assignment | None
) -> Lost:
    """Return the outcome of an attempt that was `lost` with its process, which the `culprit` ended, or any of these."""
    if culprit is not None:
        return Lost(f"its worker process was ended by run {culprit.task.run_id} ({how})", counts)
    others = some([f"run {each.run_id}" for each in lost if each is not task])
    beside = f"; beside it ran {others}" if others else ""
    return Lost(f"its worker process died ({how}){beside}", counts)


def cut_off(attempt: Assignment) -> Outcome | None:
    """Return the outcome of an attempt that was to end, and whose process is gone."""
    if attempt.excess:
        return Failed(attempt.excess)
    if attempt.timed_out:
        return TimedOut(f"it took longer than {attempt.task.timeout or 0:g} s")
    return None if attempt.reason is None else stopped(attempt.reason)


def moment_at(at: float, boot: Moment) -> Moment:
    """Return the moment so many seconds after the boot."""
    return Moment(boot + int(at * SECOND))


def second_at(at: float, boot: Moment) -> Moment:
    """Return the second before which it is, so that it stays the same however often it is asked."""
    moment = moment_at(at, boot)
    return Moment(moment - moment % SECOND)
