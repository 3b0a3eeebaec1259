"""The one JSON shape of everything that a door prints. Moments are RFC 3339 texts in UTC, states are words. Pure."""

from collections.abc import Sequence

from msgspec import UNSET, Struct, UnsetType, field
from msgspec.structs import asdict, replace

from tokimori.clock import Moment, format_moment, to_datetime
from tokimori.errors import TokimoriError
from tokimori.model.backfill import Backfill
from tokimori.model.calendar import Calendar
from tokimori.model.dependents import Edge
from tokimori.model.ids import JobId
from tokimori.model.job import Job, Terms
from tokimori.model.pause import Pause
from tokimori.model.policies import Retry
from tokimori.model.retention import DailyCount
from tokimori.model.run import Output, Run, Skip
from tokimori.model.target import Unreadable
from tokimori.ports.nodes import NodeRecord
from tokimori.schedules.explain import Explanation
from tokimori.schedules.zones import zone_info
from tokimori.service.definitions import JobFields, target_fields
from tokimori.service.lines import waits_for
from tokimori.service.queues import Queue
from tokimori.service.requests import Became
from tokimori.service.runs import AttemptDetails, RunDetails


class RetryView(Retry, frozen=True, kw_only=True, omit_defaults=False):
    """The retry policy, defaults included."""


class JobView(JobFields, frozen=True, kw_only=True, omit_defaults=False):
    """A job: its fields as typed, and how it stands.

    `next_times`, `edges` (from and to it), `pauses` (of its queue and of everything) and `too_heavy` (which weights no
    limit lets in) only where somebody asked for them; `unreadable` says why the fields are not known.
    """

    id: str
    version: int
    state: str
    reason: str | None
    by: str | None
    created: str
    updated: str
    next_due: str | None
    anchor: str
    tzdata: str
    unreadable: str | None
    next_times: tuple[str, ...] | UnsetType = UNSET
    edges: "tuple[EdgeView, ...] | UnsetType" = UNSET
    pauses: "tuple[PauseView, ...] | UnsetType" = UNSET
    too_heavy: tuple[str, ...] | UnsetType = UNSET


class EdgeView(Struct, frozen=True, kw_only=True):
    """That `child` runs after `parent`; `joins`: it waits for so many parents, 0 where each is a run of its own."""

    parent: str
    child: str
    on: str
    joins: int
    declared_by: str


class PauseView(Struct, frozen=True, kw_only=True):
    """That nothing of a queue, or (`*`) of any, starts."""

    queue: str
    since: str
    reason: str | None
    by: str | None


class QueueView(Struct, frozen=True, kw_only=True):
    """A queue, how many jobs are in it, and which pauses bind it: its own, and that of everything."""

    name: str
    jobs: int
    pauses: tuple[PauseView, ...]


class AttemptView(Struct, frozen=True, kw_only=True):
    """One try at a run; `outcome` is `running` until it ends."""

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


class RunView(Struct, frozen=True, kw_only=True):
    """A run; `attempts`, the `pauses` for which it waits, and whether its job is gone only where a single run is shown.

    `cancel` is an order to end, not carried out yet. `waits_for` says in words what a blocked run waits for. `became`:
    what became of the request that this answers (`tokimori.service.requests.Became`).
    """

    id: str
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
    parent_id: str | None
    result: str | None
    concurrency_key: str | None
    waits_for: str | None
    attempts: tuple[AttemptView, ...] | UnsetType = UNSET
    pauses: tuple[PauseView, ...] | UnsetType = UNSET
    job_deleted: bool | UnsetType = UNSET
    became: str | UnsetType = UNSET


class LeftOutView(Struct, frozen=True, kw_only=True):
    """An occurrence that a backfill makes no run of, and the run that it has."""

    nominal: str
    reason: str
    run_id: str | None
    state: str | None


class BackfillView(Struct, frozen=True, kw_only=True):
    """How far the backfill of a range is: `missing` are to be made, `runs` counts what was made by state."""

    job_id: str
    first: str = field(name="from")
    last: str = field(name="to")
    missing: tuple[str, ...]
    active: int
    runs: dict[str, int]
    left_out: tuple[LeftOutView, ...]


class SkipView(Struct, frozen=True, kw_only=True):
    """A range of occurrences that became no run."""

    first: str
    last: str
    count: int
    reason: str


class CountView(Struct, frozen=True, kw_only=True):
    """How many runs of a job ended so on a day (UTC), or were skipped for that reason; `pruned` of them have no row."""

    day: str
    outcome: str
    count: int
    pruned: int


class MomentView(Struct, frozen=True, kw_only=True):
    """A moment, and the same on the clocks of the schedule's zone, with offset; `zone` is what these clocks go by."""

    time: str
    local: str
    zone: str


class ExplanationView(Struct, frozen=True, kw_only=True):
    """What a schedule text means: a sentence in English, the next moments, and what may surprise."""

    schedule: str
    time_zone: str
    sentence: str
    moments: tuple[MomentView, ...]
    warnings: tuple[str, ...]


class CalendarView(Calendar, frozen=True, kw_only=True, omit_defaults=False):
    """Named days off; `jobs`, the ids of those that keep them, only where a single calendar is shown."""

    jobs: tuple[str, ...] | UnsetType = UNSET


class OutputView(Struct, frozen=True, kw_only=True):
    """What an attempt wrote: `size` bytes in all, of which the first and the last are kept, as UTF-8 text."""

    run_id: str
    attempt: int
    size: int
    head: str
    tail: str


class NodeView(Struct, frozen=True, kw_only=True):
    """A node; its `kind` is `program` for one that runs no jobs, but holds or waits for permits."""

    id: str
    kind: str
    host: str
    boot_id: str
    pid: int
    labels: dict[str, str]
    concurrency: int
    version: str
    state: str
    beat: int
    started: str
    left: str | None


class Fault(Struct, frozen=True, kw_only=True):
    """What went wrong: which field, what stood there and what may stand there."""

    code: str
    message: str
    field: str | None
    value: object
    allowed: str | None


class ErrorView(Struct, frozen=True, kw_only=True):
    """An error as JSON."""

    error: Fault


def job_view(
    job: Job,
    next_times: Sequence[Moment] | None = None,
    edges: Sequence[Edge] | None = None,
    pauses: Sequence[Pause] | None = None,
    too_heavy: Sequence[str] | None = None,
) -> JobView:
    """The job as JSON shows it."""
    definition = job.definition
    fields = {name: getattr(definition, name) for name in Terms.__struct_fields__}
    fields["retry"] = RetryView(**asdict(definition.retry))
    return JobView(
        id=job.id,
        version=job.version,
        state=job.state.value,
        reason=job.reason,
        by=job.by,
        created=format_moment(job.created),
        updated=format_moment(job.updated),
        next_due=_moment(job.next_due),
        anchor=format_moment(job.anchor),
        tzdata=job.tzdata,
        unreadable=definition.target.why if isinstance(definition.target, Unreadable) else None,
        runs_remaining=job.runs_remaining,
        next_times=UNSET if next_times is None else tuple(map(format_moment, next_times)),
        edges=UNSET if edges is None else tuple(map(edge_view, edges)),
        pauses=UNSET if pauses is None else tuple(map(pause_view, pauses)),
        too_heavy=UNSET if too_heavy is None else tuple(too_heavy),
        **(fields | target_fields(definition.target)),
    )


def edge_view(edge: Edge) -> EdgeView:
    """The edge as JSON shows it."""
    return EdgeView(
        parent=edge.parent, child=edge.child, on=edge.on.value, joins=edge.joins, declared_by=edge.declared_by
    )


def pause_view(pause: Pause) -> PauseView:
    """The pause as JSON shows it."""
    return PauseView(queue=pause.queue, since=format_moment(pause.since), reason=pause.reason, by=pause.by)


def queue_view(queue: Queue) -> QueueView:
    """The queue as JSON shows it."""
    return QueueView(name=queue.name, jobs=queue.jobs, pauses=tuple(map(pause_view, queue.pauses)))


def run_view(
    run: Run,
    attempts: Sequence[AttemptDetails] | None = None,
    pauses: Sequence[Pause] | None = None,
    *,
    became: Became | None = None,
) -> RunView:
    """The run as JSON shows it."""
    return RunView(
        id=run.id,
        job_id=run.job_id,
        origin=run.origin,
        state=run.state.value,
        nominal=format_moment(run.nominal),
        due=format_moment(run.due),
        priority=run.priority,
        created=format_moment(run.created),
        payload=run.payload,
        attempt=run.attempt,
        failures=run.failures,
        lost=run.lost,
        node_id=run.node_id,
        pid=run.pid,
        started=_moment(run.started),
        ended=_moment(run.ended),
        exit_code=run.exit_code,
        signal=run.signal,
        error=run.error,
        cancel=run.cancel,
        tzdata=run.tzdata,
        parent_id=run.parent_id,
        result=run.result,
        concurrency_key=run.concurrency_key,
        waits_for=waits_for(run),
        attempts=UNSET if attempts is None else tuple(map(attempt_view, attempts)),
        pauses=UNSET if pauses is None else tuple(map(pause_view, pauses)),
        became=UNSET if became is None else became.value,
    )


def run_details_view(details: RunDetails) -> RunView:
    """The run with its attempts as JSON shows them."""
    view = run_view(details.run, details.attempts, details.pauses)
    return replace(view, job_deleted=details.is_job_deleted, waits_for=details.waits_for)


def attempt_view(details: AttemptDetails) -> AttemptView:
    """The attempt as JSON shows it."""
    attempt = details.attempt
    return AttemptView(
        number=attempt.number,
        outcome=attempt.outcome,
        node_id=attempt.node_id,
        host=details.host,
        pid=attempt.pid,
        started=_moment(attempt.started),
        ended=_moment(attempt.ended),
        exit_code=attempt.exit_code,
        signal=attempt.signal,
        error=attempt.error,
    )


def backfill_view(backfill: Backfill) -> BackfillView:
    """The backfill as JSON shows it."""
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


def skip_view(skip: Skip) -> SkipView:
    """The skip as JSON shows it."""
    return SkipView(
        first=format_moment(skip.first), last=format_moment(skip.last), count=skip.count, reason=skip.reason.value
    )


def count_view(count: DailyCount) -> CountView:
    """The count as JSON shows it."""
    day = to_datetime(count.day).date().isoformat()
    return CountView(day=day, outcome=count.outcome, count=count.count, pruned=count.pruned)


def explanation_view(explanation: Explanation) -> ExplanationView:
    """The explanation as JSON shows it."""
    return ExplanationView(
        schedule=explanation.text,
        time_zone=explanation.time_zone,
        sentence=explanation.sentence,
        moments=tuple(moment_view(moment, explanation.time_zone) for moment in explanation.moments),
        warnings=explanation.warnings,
    )


def moment_view(moment: Moment, time_zone: str) -> MomentView:
    """The moment as JSON shows it, on the clocks of the zone."""
    local = to_datetime(moment).astimezone(zone_info(time_zone))
    return MomentView(time=format_moment(moment), local=local.isoformat(), zone=local.tzname() or time_zone)


def calendar_view(calendar: Calendar, jobs: Sequence[JobId] | None = None) -> CalendarView:
    """The calendar as JSON shows it."""
    return CalendarView(**asdict(calendar), jobs=UNSET if jobs is None else tuple(jobs))


def output_view(output: Output) -> OutputView:
    """The output as JSON shows it; bytes that are no UTF-8 are replaced."""
    return OutputView(
        run_id=output.run_id,
        attempt=output.attempt,
        size=output.size,
        head=output.head.decode(errors="replace"),
        tail=output.tail.decode(errors="replace"),
    )


def node_view(node: NodeRecord) -> NodeView:
    """The node as JSON shows it."""
    return NodeView(
        id=node.id,
        kind="program" if node.is_program else "node",
        host=node.host,
        boot_id=node.boot_id,
        pid=node.pid,
        labels=node.labels,
        concurrency=node.concurrency,
        version=node.version,
        state=node.state.value,
        beat=node.beat,
        started=format_moment(node.started),
        left=_moment(node.left),
    )


def error_view(error: TokimoriError) -> ErrorView:
    """The error as JSON shows it; a value that JSON has no form for is shown as text."""
    value = error.value if isinstance(error.value, str | int | float | bool | None) else str(error.value)
    return ErrorView(
        error=Fault(code=error.code, message=error.message, field=error.field, value=value, allowed=error.allowed)
    )


def _moment(moment: Moment | None) -> str | None:
    return None if moment is None else format_moment(moment)
