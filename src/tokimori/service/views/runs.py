"""Runs as JSON: their attempts, their output, and the backfills that made them."""

from collections.abc import Sequence

from msgspec import UNSET, Struct, UnsetType, field
from msgspec.structs import replace

from tokimori.clock import format_moment
from tokimori.model.attempt_notes import given_to
from tokimori.model.backfill import Backfill
from tokimori.model.cause import cause_id, cause_in
from tokimori.model.run import Output, Run, short_id
from tokimori.service.reasons import Reason, Why
from tokimori.service.requests import Became
from tokimori.service.runs import AttemptDetails, RunDetails
from tokimori.service.views.stamps import stamp
from tokimori.service.why.run import waits_for


class AttemptView(Struct, frozen=True, kw_only=True):
    """An attempt; its `outcome` is `running` until it ends."""

    number: int
    outcome: str
    node_id: str | None
    host: str | None
    pid: int | None
    started: str | None
    ended: str | None
    exit_code: int | None
    signal: int | None
    error: str | None


class ProgressView(Struct, frozen=True, kw_only=True):
    """Progress of an attempt, as it reported last: a fraction from 0 to 1, and a text."""

    fraction: float
    text: str | None


class RunView(Struct, frozen=True, kw_only=True):
    """A run. `short_id` is the end of its id, which paths take for it.

    `attempts`, `job_deleted` and `why` (what keeps it from starting) are there if a single run is shown. `attempts` are
    the newest; `attempts_left_out` says how many earlier ones there are (`?before=` the first shown).

    `cancel` is the reason of an order to end that is not carried out yet. `waits_for` says in words why a blocked run
    waits. `progress` is what the newest attempt told last, and `checkpoint` (JSON) what the next one gets; in lists
    only once the attempt has ended. `retry_of` is the run that this one repeats, `traceparent` where whoever asked for
    it stood in a trace and `requested_by` who that was. `cause` is that of a failure, and `cause_id` names it in
    filters. `became` says what happened to the request that the run answers (`tokimori.service.requests.Became`).
    """

    id: str
    short_id: str
    job_id: str
    origin: str
    state: str
    nominal: str
    due: str
    priority: int
    created: str
    payload: str | None
    attempt: int
    failures: int
    lost: int
    node_id: str | None
    pid: int | None
    started: str | None
    ended: str | None
    exit_code: int | None
    signal: int | None
    error: str | None
    cancel: str | None
    tzdata: str | None
    worker: str | None
    parent_id: str | None
    result: str | None
    concurrency_key: str | None
    waits_for: str | None
    progress: ProgressView | None
    checkpoint: str | None
    retry_of: str | None
    traceparent: str | None
    requested_by: str | None
    cause: str | None
    cause_id: str | None
    attempts: tuple[AttemptView, ...] | UnsetType = UNSET
    attempts_left_out: int | UnsetType = UNSET
    why: tuple[Reason, ...] | UnsetType = UNSET
    job_deleted: bool | UnsetType = UNSET
    became: str | UnsetType = UNSET


class LeftOutView(Struct, frozen=True, kw_only=True):
    """An occurrence for which a backfill makes no run, with the run that it has already."""

    nominal: str
    reason: str
    run_id: str | None
    state: str | None


class BackfillView(Struct, frozen=True, kw_only=True):
    """The state of a backfill: `missing` runs are still to be made, `runs` counts the runs that were made, by state."""

    job_id: str
    first: str = field(name="from")
    last: str = field(name="to")
    missing: tuple[str, ...]
    active: int
    runs: dict[str, int]
    left_out: tuple[LeftOutView, ...]


class OutputView(Struct, frozen=True, kw_only=True):
    """The output of an attempt as UTF-8 text: `size` bytes in all, of which the first and the last are kept."""

    run_id: str
    attempt: int
    size: int
    head: str
    tail: str


def run_view(
    run: Run,
    attempts: Sequence[AttemptDetails] | None = None,
    *,
    became: Became | None = None,
) -> RunView:
    """Return the run as JSON shows it."""
    return RunView(
        id=run.id,
        short_id=short_id(run.id),
        job_id=run.job_id,
        origin=run.origin,
        state=run.state.value,
        nominal=format_moment(run.nominal),
        due=format_moment(run.due),
        priority=run.priority,
        created=format_moment(run.created),
        payload=given_to(run),
        attempt=run.attempt,
        failures=run.failures,
        lost=run.lost,
        node_id=run.node_id,
        pid=run.pid,
        started=stamp(run.started),
        ended=stamp(run.ended),
        exit_code=run.exit_code,
        signal=run.signal,
        error=run.error,
        cancel=run.cancel,
        tzdata=run.details.tzdata,
        worker=run.details.worker,
        parent_id=run.parent_id,
        result=run.result,
        concurrency_key=run.concurrency_key,
        waits_for=waits_for(run),
        progress=_progress_view(run),
        checkpoint=run.details.checkpoint,
        retry_of=run.details.retry_of,
        traceparent=run.details.traceparent,
        requested_by=run.details.requested_by,
        cause=(cause := cause_in(run)),
        cause_id=None if cause is None else cause_id(cause),
        attempts=UNSET if attempts is None else tuple(map(attempt_view, attempts)),
        became=UNSET if became is None else became.value,
    )


def _progress_view(run: Run) -> ProgressView | None:
    fraction = run.details.progress
    return None if fraction is None else ProgressView(fraction=fraction, text=run.details.progress_text)


def run_details_view(details: RunDetails, why: Why | None = None) -> RunView:
    """Return the run with its attempts as JSON shows them, and what keeps it from starting."""
    view, reasons = run_view(details.run, details.attempts), () if why is None else why.reasons
    left_out = details.attempts_left_out or UNSET
    return replace(view, job_deleted=details.is_job_deleted, why=reasons, attempts_left_out=left_out)


def attempt_view(details: AttemptDetails) -> AttemptView:
    """Return the attempt as JSON shows it."""
    attempt = details.attempt
    return AttemptView(
        number=attempt.number,
        outcome=attempt.outcome,
        node_id=attempt.node_id,
        host=details.host,
        pid=attempt.pid,
        started=stamp(attempt.started),
        ended=stamp(attempt.ended),
        exit_code=attempt.exit_code,
        signal=attempt.signal,
        error=attempt.error,
    )


def backfill_view(backfill: Backfill) -> BackfillView:
    """Return the backfill as JSON shows it."""
    return BackfillView(
        job_id=backfill.job.id,
        first=format_moment(backfill.first),
        last=format_moment(backfill.last),
        missing=tuple(map(format_moment, backfill.missing)),
        active=backfill.active,
        runs={state.value: count for state, count in sorted(backfill.states.items())},
        left_out=tuple(
            LeftOutView(
                nominal=format_moment(each.nominal),
                reason=each.reason.value,
                run_id=None if each.run is None else each.run.id,
                state=None if each.run is None else each.run.state.value,
            )
            for each in backfill.left_out
        ),
    )


def output_view(output: Output) -> OutputView:
    """Return the output as JSON shows it; bytes that are not UTF-8 are replaced."""
    return OutputView(
        run_id=output.run_id,
        attempt=output.attempt,
        size=output.size,
        head=output.head.decode(errors="replace"),
        tail=output.tail.decode(errors="replace"),
    )
