"""Jobs as JSON: their fields, edges, skips and counts."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict

from tokimori.clock import Moment, format_moment, to_datetime
from tokimori.model.dependents import Edge
from tokimori.model.job import Definition, Job, Terms
from tokimori.model.lanes import Pause
from tokimori.model.policies import Retry
from tokimori.model.retention import DailyCount
from tokimori.model.run import Run, Skip
from tokimori.model.target import Unreadable
from tokimori.service.definitions import JobFields, target_fields
from tokimori.service.reasons import Reason, Why
from tokimori.service.views.queues import PauseView, pause_view
from tokimori.service.views.runs import RunView, run_view
from tokimori.service.views.stamps import stamp

_TERMS = Terms.__struct_fields__
_terms_of: Callable[[Definition], tuple[Any, ...]] = attrgetter(*_TERMS)


class RetryView(Retry, frozen=True, kw_only=True, omit_defaults=False):
    """The retry policy, defaults included."""


class EdgeView(Struct, frozen=True, kw_only=True):
    """An edge: `child` runs after `parent`. `joins`: for how many parents it waits, 0 if it runs once after each."""

    parent: str
    child: str
    on: str
    joins: int
    declared_by: str


class JobView(JobFields, frozen=True, kw_only=True, omit_defaults=False):
    """A job: its fields as typed, and its state.

    `set` is there only if one declares the job. `next_times`, `edges` (from and to it), `pauses` (of its queue and of
    everything) and `too_heavy` (which weights no limit lets in) are there only if somebody asked for them, as are
    `last_runs` and `why`; `unreadable` says why the fields are not known.
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
    set: str | UnsetType = UNSET
    next_times: tuple[str, ...] | UnsetType = UNSET
    edges: tuple[EdgeView, ...] | UnsetType = UNSET
    pauses: tuple[PauseView, ...] | UnsetType = UNSET
    too_heavy: tuple[str, ...] | UnsetType = UNSET
    last_runs: tuple[RunView, ...] | UnsetType = UNSET
    why: tuple[Reason, ...] | UnsetType = UNSET


class SkipView(Struct, frozen=True, kw_only=True):
    """A range of occurrences that became no run."""

    first: str
    last: str
    count: int
    reason: str


class CountView(Struct, frozen=True, kw_only=True):
    """Number of a job's runs with this outcome on a day (UTC), or of skips; `pruned`: how many rows are gone.

    `more`: the job has more rows than are counted, so that there may be more.
    """

    day: str
    outcome: str
    count: int
    pruned: int
    more: bool


def job_view(
    job: Job,
    next_times: Sequence[Moment] | None = None,
    edges: Sequence[Edge] | None = None,
    pauses: Sequence[Pause] | None = None,
    too_heavy: Sequence[str] | None = None,
    *,
    last_runs: Sequence[Run] | None = None,
    why: Why | None = None,
) -> JobView:
    """Return the job as JSON shows it."""
    definition = job.definition
    fields = dict(zip(_TERMS, _terms_of(definition), strict=True)) | {"retry": _retry_view(definition.retry)}
    return JobView(
        id=job.id,
        version=job.version,
        state=job.state.value,
        reason=job.reason,
        by=job.by,
        created=format_moment(job.created),
        updated=format_moment(job.updated),
        next_due=stamp(job.next_due),
        anchor=format_moment(job.anchor),
        tzdata=job.tzdata,
        unreadable=definition.target.why if isinstance(definition.target, Unreadable) else None,
        runs_remaining=job.runs_remaining,
        set=UNSET if definition.declared is None else definition.declared.set,
        next_times=UNSET if next_times is None else tuple(map(format_moment, next_times)),
        edges=UNSET if edges is None else tuple(map(edge_view, edges)),
        pauses=UNSET if pauses is None else tuple(map(pause_view, pauses)),
        too_heavy=UNSET if too_heavy is None else tuple(too_heavy),
        last_runs=UNSET if last_runs is None else tuple(map(run_view, last_runs)),
        why=UNSET if why is None else why.reasons,
        **(fields | target_fields(definition.target)),
    )


@lru_cache(maxsize=256)
def _retry_view(retry: Retry) -> RetryView:
    """Most jobs have one of few policies."""
    return RetryView(**asdict(retry))


def edge_view(edge: Edge) -> EdgeView:
    """Return the edge as JSON shows it."""
    return EdgeView(
        parent=edge.parent, child=edge.child, on=edge.on.value, joins=edge.joins, declared_by=edge.declared_by
    )


def skip_view(skip: Skip) -> SkipView:
    """Return the skip as JSON shows it."""
    return SkipView(
        first=format_moment(skip.first), last=format_moment(skip.last), count=skip.count, reason=skip.reason.value
    )


def count_view(count: DailyCount) -> CountView:
    """Return the count as JSON shows it."""
    day = to_datetime(count.day).date().isoformat()
    return CountView(day=day, outcome=count.outcome, count=count.count, pruned=count.pruned, more=count.more)
