"""Jobs: their definitions, with terms and target, and their states."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct, field

from tokimori.clock import Moment
from tokimori.errors import InvalidSchedule
from tokimori.model.calendar import decode_days_off
from tokimori.model.claim_rate import parse_claim_rate
from tokimori.model.dependents import Edge, Join, On, Parent
from tokimori.model.ids import Incarnation, JobId
from tokimori.model.job_fields import LONGEST, MOST_MEMORY
from tokimori.model.notifier import Notifier, NotifyOn
from tokimori.model.policies import (
    DEFAULT_KEPT_RUNS,
    DEFAULT_RETENTION,
    MOST_KEPT_RUNS,
    AnchoredOn,
    Approver,
    Misfire,
    OnExhausted,
    OnLostLease,
    Overlap,
    Retry,
    Seconds,
    Within,
)
from tokimori.model.semaphores import MOST_UNITS, rate_of_job, wanted
from tokimori.model.target import Target, Unreadable
from tokimori.schedules.business_days import Shift, on_business_days
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import Bounded, Fold, Gap, OnDemand, Schedule
from tokimori.schedules.stamp import parse_stamp


class Terms(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Terms of a job: its schedule and policies, without its target. Durations are seconds.

    `tokimori.model.job_fields` says of each its meaning, unit, default and bound. A job with `parents` has no schedule.
    A run is due `delay` after its nominal time, and up to `jitter` later (`tokimori.model.decide`). A waiting
    run gets the `payload` of the moment at which it starts. A concurrency key counts within its job alone.
    """

    schedule: str | None = None
    time_zone: str = "UTC"
    gap: Gap = Gap.SHIFT
    fold: Fold = Fold.FIRST
    calendars: tuple[str, ...] = ()
    shift: Shift | None = None
    starts_at: str | None = None
    ends_at: str | None = None
    delay: Seconds = 0
    jitter: Seconds = 0
    anchored_on: AnchoredOn = AnchoredOn.GRID
    name: str | None = None
    description: str | None = None
    owner: str | None = None
    misfire: Misfire = Misfire.LATEST
    late_after: Seconds = 60
    grace: Seconds | None = None
    max_running: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None
    max_waiting: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None
    on_overlap: Overlap = Overlap.SKIP
    retry: Retry = Retry()
    priority: Annotated[int, Meta(ge=-100, le=100)] = 0
    queue: str = "default"
    labels: dict[str, str] = field(default_factory=dict)
    timeout: Annotated[float, Meta(gt=0, le=LONGEST)] | None = None
    timeout_grace: Seconds = 10
    max_cpu: Annotated[float, Meta(gt=0, le=LONGEST)] | None = None
    max_memory: Annotated[int, Meta(ge=1, le=MOST_MEMORY)] | None = None
    on_lost_lease: OnLostLease | None = None
    on_exhausted: OnExhausted = OnExhausted.FAIL
    on_failure_job: str | None = None
    notify: dict[NotifyOn, tuple[str, ...]] = field(default_factory=dict)
    notifier: Notifier | None = None
    approval: bool = False
    approver: Approver = Approver.OPERATE
    approve_within: Within | None = None
    four_eyes: bool = False
    auto_complete_success: bool = True
    own_process: bool = False
    client: bool = False
    payload: str | None = None
    parents: tuple[Parent, ...] = ()
    join: Join = Join.ANY
    retention: str = DEFAULT_RETENTION
    keep_runs: Annotated[int, Meta(ge=0, le=MOST_KEPT_RUNS)] = DEFAULT_KEPT_RUNS
    expect_within: Within | None = None
    mailto: str | None = None
    semaphores: tuple[str, ...] = ()
    rate_limit: str | None = None
    concurrency_key: str | None = None
    max_running_per_key: Annotated[int, Meta(ge=1, le=MOST_UNITS)] = 1


class Declaration(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The set of a job, and a digest of its last declaration, which an edit by hand changes."""

    set: str
    digest: str


class Definition(Terms, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Definition of a job as its user has typed it. `apart`: its semaphores are in another store.

    `foreign` is what a foreign API received for the job (`tokimori.foreign`), for its own answers. `declared` is set if
    a set declares the job; people do not write it, and edits keep it. So is `moved`: since when the job is in its
    queue, if it was in another one before. `fired_ahead` are moments after the cursor that have a run already, from
    when the store's clock was ahead: they are left out (`model.rewind`).
    """

    target: Target | Unreadable
    apart: bool = False
    foreign: str | None = None
    declared: Declaration | None = None
    moved: Moment | None = None
    fired_ahead: tuple[tuple[Moment, int, int], ...] = ()
    """Rows of moments: the first, the distance between two, and their number."""


class JobState(StrEnum):
    """States of a job: `paused` by a person, `parked` by a failure, `finished` if its schedule has no more.

    `deleted` is the state of a tombstone: the record of a deleted job while a run of it still runs.
    """

    ENABLED = "enabled"
    PAUSED = "paused"
    PARKED = "parked"
    FINISHED = "finished"
    DELETED = "deleted"


class Job(Struct, frozen=True, kw_only=True):
    """A job as the store keeps it.

    `version` grows with each edit. `anchor` is where `every …` starts counting. Every occurrence up to and including
    `fired_through` is decided; `next_due` is when the job has to be decided next (None: never by itself).
    `runs_remaining` is how many scheduled runs are still to be made (None: no limit). `tzdata` is the version of the
    time zone data by which `next_due` was computed; empty: unknown. `days_off` are the days of the named calendars that
    the schedule leaves out, as JSON.
    """

    id: JobId
    incarnation: Incarnation
    version: int
    definition: Definition
    state: JobState = JobState.ENABLED
    reason: str | None = None
    by: str | None = None
    created: Moment
    updated: Moment
    anchor: Moment
    fired_through: Moment
    next_due: Moment | None = None
    runs_remaining: int | None = None
    tzdata: str = ""
    days_off: str | None = None

    @property
    def stamp(self) -> str:
        """Return its incarnation, version and state as one text: edits and pauses change it."""
        return f"{self.incarnation} {self.version} {self.state}"


def schedule_of(definition: Definition, anchor: Moment, job_id: str = "", days_off: str | None = None) -> Schedule:
    """Return the schedule that the definition's text names, within its bounds and without its days off.

    `H` in it spreads jobs by their id. Raises `InvalidSchedule`.
    """
    schedule = parse_schedule(
        "on demand" if definition.schedule is None else definition.schedule,
        zone=definition.time_zone,
        anchor=anchor,
        gap=definition.gap,
        fold=definition.fold,
        job_id=job_id,
        last_run=definition.anchored_on is AnchoredOn.LAST_RUN,
    )
    if days_off is not None:
        schedule = on_business_days(schedule, decode_days_off(days_off), definition.shift, definition.time_zone)
    ahead = () if isinstance(schedule, OnDemand) else moments_in(definition.fired_ahead)
    return (
        schedule
        if definition.starts_at == definition.ends_at is None and not ahead
        else _bounded(schedule, definition, ahead)
    )


def moments_in(rows: Iterable[tuple[Moment, int, int]]) -> tuple[Moment, ...]:
    """Return the moments of rows like those of `fired_ahead`, in order."""
    return tuple(sorted({Moment(first + n * step) for first, step, count in rows for n in range(count)}))


def _bounded(schedule: Schedule, definition: Definition, ahead: tuple[Moment, ...]) -> Schedule:
    bounds = {"starts_at": definition.starts_at, "ends_at": definition.ends_at}
    moments: dict[str, Moment | None] = {}
    for name, text in bounds.items():
        if text is not None and isinstance(schedule, OnDemand):
            message = f"{name}: a job that runs on demand has no moments to bound"
            raise InvalidSchedule(message, field=name, value=text, allowed="a schedule with moments beside it")
        moments[name] = None if text is None else Moment(parse_stamp(text, field=name).moment_in(definition.time_zone))
    first, last = moments.values()
    if first is not None and last is not None and last < first:
        message = f"ends_at: {definition.ends_at!r} is before starts_at"
        raise InvalidSchedule(
            message, field="ends_at", value=definition.ends_at, allowed=f"from {bounds['starts_at']} on"
        )
    return Bounded(schedule, first, last, ahead)


def limit_of(definition: Definition) -> int:
    """Return the number of runs of the job that may run at a time; 0 = unlimited."""
    if definition.max_running is not None:
        return definition.max_running
    return 0 if definition.schedule is None else 1


def most_active(definition: Definition) -> int | None:
    """Return the number of runs that may be active: running ones and `max_waiting`. None = any number."""
    return None if definition.max_waiting is None else limit_of(definition) + definition.max_waiting


def kills_on_lost_lease(definition: Definition, *, keyed: bool = False) -> bool:
    """Return if the node ends the job's processes before others may take its runs over.

    It does so with a limit, a semaphore or a concurrency key, also one of the run itself (`keyed`).
    """
    if definition.on_lost_lease is not None:
        return definition.on_lost_lease is OnLostLease.KILL
    keyed = keyed or definition.concurrency_key is not None or definition.max_running_per_key != 1
    return keyed or bool(definition.max_running or definition.semaphores)


def units_here(definition: Definition, incarnation: Incarnation) -> tuple[tuple[str, int], ...]:
    """Return (name, weight) of each semaphore that the job wants in its own store, by name; its rate is one."""
    units = () if definition.apart else wanted(definition.semaphores)
    if definition.rate_limit is None:
        return units
    rate = parse_claim_rate(definition.rate_limit, field="rate_limit")
    return tuple(sorted([*units, (rate_of_job(incarnation, rate), 1)]))


def edges_of(job_id: JobId, definition: Definition) -> tuple[Edge, ...]:
    """Return the edges that this job declares: from its parents, and to its `on_failure_job`."""
    joins = len({parent.job for parent in definition.parents}) if definition.join is Join.ALL else 0
    edges = [Edge(JobId(parent.job), job_id, parent.on, joins, job_id) for parent in definition.parents]
    if definition.on_failure_job is not None:
        edges.append(Edge(job_id, JobId(definition.on_failure_job), On.FAILURE, 0, job_id))
    return tuple(edges)


def set_of(definition: Definition) -> str | None:
    """Return the set that declares the job, if one does."""
    return None if definition.declared is None else definition.declared.set
