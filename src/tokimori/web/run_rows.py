"""Runs and their attempts as the page shows them."""

from collections.abc import Sequence
from typing import NamedTuple

from tokimori.clock import Moment
from tokimori.model.run import Output, Run, asked_by, asked_in_words
from tokimori.model.transitions import BEFORE_START, ENDS, RunState
from tokimori.service.outputs import whole
from tokimori.service.reasons import Reason
from tokimori.service.runs import RunDetails
from tokimori.web.times import Time, lasted, time_of
from tokimori.web.words import clock_time


class RunRow(NamedTuple):
    """A run as the list shows it."""

    id: str
    job_id: str
    is_job_deleted: bool
    state: str
    origin: str
    began: Time
    is_started: bool
    duration: str
    exit: str


class AttemptRow(NamedTuple):
    """An attempt of the run in the panel."""

    number: int
    outcome: str
    host: str
    pid: str
    node_id: str
    started: Time | None
    ended: Time | None
    duration: str
    exit: str
    error: str | None


class RunPanel(NamedTuple):
    """The panel with one run."""

    row: RunRow
    parent: str | None
    nominal: Time
    due: Time
    error: str | None
    cancel: str | None
    why: Sequence[Reason]
    is_over: bool
    attempts: Sequence[AttemptRow]
    attempts_left_out: int
    output_of: int
    output: str | None
    output_size: int


def run_row(run: Run, zone: str, now: Moment, *, is_job_deleted: bool = False) -> RunRow:
    """Return the row of a run, with times in this zone."""
    awaits_start = run.state in BEFORE_START
    return RunRow(
        id=run.id,
        job_id=run.job_id,
        is_job_deleted=is_job_deleted,
        state=run.state.value,
        origin=_origin(run, zone, now),
        began=time_of(run.due if run.started is None or awaits_start else run.started, zone, now),
        is_started=run.started is not None and not awaits_start,
        duration=lasted(run.started, run.ended, now, is_running=run.state is RunState.RUNNING),
        exit=_exit(run.exit_code, run.signal),
    )


def panel_of(details: RunDetails, why: Sequence[Reason], number: int, output: Output | None, now: Moment) -> RunPanel:
    """Return the panel of a run with what holds it, its attempts, and the output of the attempt `number`."""
    run, zone = details.run, details.time_zone
    return RunPanel(
        row=run_row(run, zone, now, is_job_deleted=details.is_job_deleted),
        parent=run.parent_id,
        nominal=time_of(run.nominal, zone, now),
        due=time_of(run.due, zone, now),
        error=run.error,
        cancel=run.cancel,
        why=why,
        is_over=run.state in ENDS,
        attempts=_attempt_rows(details, now),
        attempts_left_out=details.attempts_left_out,
        output_of=number,
        output=None if output is None else whole(output).decode(errors="replace"),
        output_size=0 if output is None else output.size,
    )


def _attempt_rows(details: RunDetails, now: Moment) -> Sequence[AttemptRow]:
    return [
        AttemptRow(
            number=attempt.number,
            outcome=attempt.outcome,
            host=host or "–",
            pid=str(attempt.pid or "–"),
            node_id=attempt.node_id or "–",
            started=None if attempt.started is None else time_of(attempt.started, details.time_zone, now),
            ended=None if attempt.ended is None else time_of(attempt.ended, details.time_zone, now),
            duration=lasted(attempt.started, attempt.ended, now, is_running=attempt.outcome == RunState.RUNNING.value),
            exit=_exit(attempt.exit_code, attempt.signal),
            error=attempt.error,
        )
        for attempt, host in ((each.attempt, each.host) for each in details.attempts)
    ]


def _origin(run: Run, zone: str, now: Moment) -> str:
    """Return the origin of a run in words; of a backfill with its occurrence, because the run starts at another
    time.
    """
    name = asked_by(run.origin)
    return f"{name} of {clock_time(run.nominal, zone, now)}" if name == "backfill" else asked_in_words(run)


def _exit(code: int | None, signal: int | None) -> str:
    if signal is not None:
        return f"signal {signal}"
    return "" if code is None else str(code)
