"""Jobs as JSON: their fields, edges, skips and counts."""

from collections.abc import Callable, Sequence
from datetime import date, datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, ClassVar, Self

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from tokimori.model.ids import JobId
from tokimori.model.job import Definition, JobState, Terms
from tokimori.model.ledger import Fate
from tokimori.model.notifier import Notifier
from tokimori.model.policies import Retry
from tokimori.model.run import SkipReason
from tokimori.model.statistics import Sizes
from tokimori.model.target import Unreadable
from tokimori.model.transitions import RunState
from tokimori.service.definitions.definitions import LENGTHS, JobFields, target_fields
from tokimori.service.reasons import Reason
from tokimori.service.search.jobs import Paged
from tokimori.service.views.outside import Length, Outside, Sources, length
from tokimori.service.views.resources import Pause
from tokimori.service.views.runs import Run

_TERMS = Terms.__struct_fields__
_terms_of: Callable[[Definition], tuple[Any, ...]] = attrgetter(*_TERMS)


class JobRetry(Retry, frozen=True, kw_only=True, omit_defaults=False):
    """The retry policy, defaults included. Its lengths are timedeltas."""

    delay: Length  # type: ignore[assignment]
    cap: Length | None  # type: ignore[assignment]
    epsilon: Length | None  # type: ignore[assignment]
    asked_delay: Length  # type: ignore[assignment]
    wait: Length  # type: ignore[assignment]


class JobNotifier(Notifier, frozen=True, kw_only=True, omit_defaults=True):
    """The terms of a notifier. Its lengths are timedeltas; `bundle` null: each is sent at once."""

    bundle: Length | None = None  # type: ignore[assignment]


class Edge(Outside, frozen=True, kw_only=True):
    """An edge: `child` runs after `parent`. `joins`: for how many parents it waits, 0 if it runs once after each."""

    parent: str
    child: str
    on: str
    joins: int
    declared_by: str


class Job(JobFields, Outside, frozen=True, kw_only=True, omit_defaults=False):
    """A job: its fields as typed, and its state.

    `set` is present only if one declares the job. `next_times`, `edges` (from and to it), `pauses` (of its queue and of
    everything), `too_heavy` (weights above their limits), `last_runs` and `why` are present only on request;
    `unreadable` says why the fields are not known.
    """

    SOURCES: ClassVar[Sources] = {
        **dict.fromkeys(JobFields.__struct_fields__),
        "set": lambda job: UNSET if job.definition.declared is None else job.definition.declared.set,
    }

    id: JobId
    version: int
    state: JobState
    reason: str | None
    by: str | None
    created: datetime
    updated: datetime
    next_due: datetime | None
    anchor: datetime
    tzdata: str
    unreadable: str | None
    set: str | UnsetType = UNSET
    next_times: tuple[datetime, ...] | UnsetType = UNSET
    edges: tuple[Edge, ...] | UnsetType = UNSET
    pauses: tuple[Pause, ...] | UnsetType = UNSET
    too_heavy: tuple[str, ...] | UnsetType = UNSET
    last_runs: tuple[Run, ...] | UnsetType = UNSET
    why: tuple[Reason, ...] | UnsetType = UNSET

    delay: Length  # type: ignore[assignment]  # here the lengths of `JobFields` are timedeltas
    jitter: Length  # type: ignore[assignment]
    late_after: Length  # type: ignore[assignment]
    grace: Length | None  # type: ignore[assignment]
    timeout: Length | None  # type: ignore[assignment]
    timeout_grace: Length  # type: ignore[assignment]
    max_cpu: Length | None  # type: ignore[assignment]
    approve_within: Length | None  # type: ignore[assignment]
    expect_within: Length | None  # type: ignore[assignment]
    callback_within: Length | None = None  # type: ignore[assignment]
    retry: JobRetry
    notifier: JobNotifier | None

    @classmethod
    def made(cls, value: Any, /, **more: Any) -> Self:
        """Return the job, with the fields of its definition."""
        definition, target = value.definition, value.definition.target
        found: dict[str, Any] = dict(zip(_TERMS, _terms_of(definition), strict=True)) | target_fields(target)
        found["retry"], found["notifier"] = _retry_view(definition.retry), _notifier_view(definition.notifier)
        unreadable = target.why if isinstance(target, Unreadable) else None
        return super().made(value, **found, unreadable=unreadable, runs_remaining=value.runs_remaining, **more)

    @classmethod
    def of_shown(cls, shown: Any) -> Self:
        """Return a job with all that doors show with it."""
        facts = shown.facts
        return cls.made(
            facts.job, next_times=shown.moments, edges=facts.edges, pauses=facts.pauses, too_heavy=facts.too_heavy
        )


class FoundJobs(Paged[Job], Outside, frozen=True, kw_only=True):
    """Jobs by id. `next`: there may be more behind this id (it need not be that of one of them); None: that is all."""

    jobs: Sequence[Job]
    next: JobId | None


class DeletedJobs(Outside, frozen=True, kw_only=True):
    """The `jobs` that were deleted, as they were (on a `dry_run`: that would be), in that order.

    `kept` says by id why a job was not deleted. Ask again with the same `until` and with `next` as `after` to go on
    (an empty text: from the first one again); None: that was all.
    """

    jobs: tuple[Job, ...]
    kept: dict[str, str]
    until: datetime
    next: str | None


class Skip(Outside, frozen=True, kw_only=True):
    """A range of occurrences that became no run."""

    first: datetime
    last: datetime
    count: int
    reason: SkipReason


class DailyCount(Outside, frozen=True, kw_only=True):
    """Number of a job's runs with this outcome on a day (UTC), or of skips; `pruned`: how many rows are gone.

    `more`: the job has more rows than are counted, so that there may be more.
    """

    day: date
    outcome: str
    count: int
    pruned: int
    more: bool


@lru_cache(maxsize=256)
def _retry_view(retry: Retry) -> JobRetry:
    """Return the view of a policy. Cached, as most jobs have one of few."""
    return JobRetry(**_with_lengths("retry", retry))


def _notifier_view(notifier: Notifier | None) -> JobNotifier | None:
    if notifier is None:
        return None
    return JobNotifier(**_with_lengths("notifier", notifier) | ({} if notifier.bundle else {"bundle": None}))


def _with_lengths(field: str, value: Retry | Notifier) -> dict[str, Any]:
    """Return the fields of a value within this field of a job. Its lengths are timedeltas."""
    return {
        name: length(each) if f"{field}.{name}" in LENGTHS and each is not None else each
        for name, each in asdict(value).items()
    }


class Quantiles(Outside, frozen=True, kw_only=True):
    """Seconds of some runs: the 50th, 95th and 99th percentile (by the nearest rank), and the most."""

    p50: Length
    p95: Length
    p99: Length
    most: Length


class Durations(Outside, frozen=True, kw_only=True):
    """Median and 95th percentile of the newest successful attempts of a job.

    `runs` is their number; without a recent success it is 0, and both are None. `succeeded` and `failed` are its
    runs of the last 7 days that ended so, of the newest 2,000.
    """

    p50: Length | None
    p95: Length | None
    runs: int
    succeeded: int
    failed: int


class DailyRuns(Outside, frozen=True, kw_only=True):
    """Number of runs by end on one day (UTC), and of skipped occurrences."""

    day: date
    succeeded: int
    failed: int
    cancelled: int
    skipped: int


class Statistics(Outside, frozen=True, kw_only=True):
    """Statistics of a job. `duration` and `lateness` are seconds of its newest `measured` ended runs, as `by_hour` is.

    `cpu` (seconds of processors) and `memory` (bytes at the peak) are of the last attempts whose cost is known.
    `by_hour`: how many of them started in each hour on the clocks of the job's zone. `by_day`: the newest 30 days on
    which anything happened. `more`: the job has more rows than are counted.
    """

    job_id: str
    outcomes: dict[str, int]
    more: bool
    success_rate: float | None
    measured: int
    duration: Quantiles | None
    lateness: Quantiles | None
    cpu: Quantiles | None
    memory: Sizes | None
    by_hour: tuple[int, ...]
    by_day: tuple[DailyRuns, ...]


class LedgerLine(Outside, frozen=True, kw_only=True):
    """One occurrence, or `count` of them from `first` to `last` with the same `fate` and without runs.

    A run has its id, state and `origin`, a skip its reason.
    """

    first: datetime
    last: datetime
    count: int
    fate: Fate
    run_id: str | None
    state: RunState | None
    origin: str | None
    reason: SkipReason | None


class LedgerPage(Outside, frozen=True, kw_only=True):
    """Lines, oldest first. `next` is the first occurrence of the next page; null: there are no more."""

    lines: tuple[LedgerLine, ...]
    next: datetime | None


class Verified(Outside, frozen=True, kw_only=True):
    """Number of occurrences by fate (`fates`), of those that do not fit (`wrong`), and the first lines of these."""

    job_id: str
    wrong: int
    fates: dict[str, int]
    faults: tuple[LedgerLine, ...]
    next: datetime | None
