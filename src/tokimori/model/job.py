"""Jobs: what to run, when, and under which rules."""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, field

from tokimori.clock import MINUTE, Moment
from tokimori.errors import InvalidInput, InvalidSchedule
from tokimori.model.calendar import decode_days_off
from tokimori.model.dependents import Edge, Join, On, Parent
from tokimori.model.handlers import Handler, handles
from tokimori.model.ids import Incarnation, JobId, Lane, check_job_id
from tokimori.model.policies import (
    DEFAULT_RETENTION,
    LONGEST,
    MOST_KEPT_RUNS,
    AnchoredOn,
    Misfire,
    OnExhausted,
    OnLostLease,
    Overlap,
    Retry,
    Seconds,
    retention_of,
)
from tokimori.model.semaphores import MOST_UNITS, check_concurrency_key, wanted
from tokimori.model.target import Target, Unreadable, kind_of
from tokimori.model.words import check_text, check_word, texts_in
from tokimori.schedules.bounded import Bounded
from tokimori.schedules.business_days import Shift, on_business_days
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import Fold, Gap, OnDemand, Schedule
from tokimori.schedules.stamp import parse_stamp


class Terms(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """When a job runs, and under which policies: all that a user says of it but its target. Durations are seconds.

    `max_running` None means 1 for a scheduled job and unlimited otherwise; 0 means unlimited. `max_waiting` is how many
    may wait beside those that run (`most_active`; None = any number). `labels` are those that a node must carry to run
    it. `grace` is how late an occurrence may be and still run. A job with `parents` has no schedule: it runs after
    them, after each or (`join`) after all. `on_exhausted` is what becomes of the job when the retries of a run are used
    up, and `on_failure_job` a job that then runs. Without `auto_complete_success` an attempt has to report how it
    ended: exit code 0 alone is a failure. `mailto` is kept for notifications.

    Outside of `starts_at` … `ends_at` the schedule names nothing: RFC 3339, or without offset in the job's zone. A run
    is due `delay` after its nominal time, and up to `jitter` later (`tokimori.model.timing`). `calendars` name days
    off, on which nothing runs; `shift` moves what falls on them to the same time on the next or previous business day.

    `retention` (an ISO 8601 duration) is how long what has ended is kept; the newest `keep_runs` runs stay longer.

    A run holds permits of all its `semaphores` (`NAME`, or `NAME:WEIGHT` for several units) while it runs.
    `max_running_per_key` runs of one concurrency key may run at a time; `concurrency_key` is that of runs that bring
    none (None: those have no such limit). A key counts within its job alone.
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
    on_lost_lease: OnLostLease | None = None
    on_exhausted: OnExhausted = OnExhausted.FAIL
    on_failure_job: str | None = None
    auto_complete_success: bool = True
    parents: tuple[Parent, ...] = ()
    join: Join = Join.ANY
    retention: str = DEFAULT_RETENTION
    keep_runs: Annotated[int, Meta(ge=0, le=MOST_KEPT_RUNS)] = 1000
    mailto: str | None = None
    semaphores: tuple[str, ...] = ()
    concurrency_key: str | None = None
    max_running_per_key: Annotated[int, Meta(ge=1, le=MOST_UNITS)] = 1


class Definition(Terms, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a user says of a job; stored as typed. `apart`: the units of its semaphores are had in another store."""

    target: Target | Unreadable
    apart: bool = False


APART_LABEL = "tokimori:semaphores"
"""Of nodes that can have units in another store; in a lane its value says which: `NAME:WEIGHT+…`."""
HANDLERS_LABEL = "tokimori:handlers"
"""Of nodes that have any, for people: `handlers_text` of them. No lane asks for it."""


class JobState(StrEnum):
    """Whether a job fires: `paused` by a person, `parked` by a failure, `finished` when its schedule has no more.

    `deleted` is the state of a tombstone: all that is known of a job that is gone, while a run of it still runs.
    """

    ENABLED = "enabled"
    PAUSED = "paused"
    PARKED = "parked"
    FINISHED = "finished"
    DELETED = "deleted"


class Job(Struct, frozen=True, kw_only=True):
    """A job as the store keeps it.

    `version` grows with each edit. `anchor` is where `every …` starts counting. Every occurrence up to and including
    `fired_through` is decided; `next_due` is when the job wants to be looked at next (None: never by itself).
    `runs_remaining` is how many scheduled runs are still to be made (None: no limit). `tzdata` is the version of the
    time zone data by which `next_due` was reckoned, empty where nobody knows. `days_off` are the days of the named
    calendars that the schedule leaves out, as JSON.
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


def schedule_of(definition: Definition, anchor: Moment, job_id: str = "", days_off: str | None = None) -> Schedule:
    """The schedule that the definition's text names, within its bounds and without its days off.

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
    return schedule if definition.starts_at == definition.ends_at is None else _bounded(schedule, definition)


def _bounded(schedule: Schedule, definition: Definition) -> Schedule:
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
    return Bounded(schedule, first, last)


def limit_of(definition: Definition) -> int:
    """How many runs of the job may run at a time; 0 = unlimited."""
    if definition.max_running is not None:
        return definition.max_running
    return 0 if definition.schedule is None else 1


def most_active(definition: Definition) -> int | None:
    """How many runs of the job may be active: those that may run, and `max_waiting` beside them. None = any number."""
    return None if definition.max_waiting is None else limit_of(definition) + definition.max_waiting


def kills_on_lost_lease(definition: Definition, *, keyed: bool = False) -> bool:
    """Whether the node ends the job's processes before others may take them over.

    So where a limit, a semaphore or a concurrency key is stated, or the run has brought a key (`keyed`).
    """
    match definition.on_lost_lease:
        case OnLostLease.KILL:
            return True
        case OnLostLease.CONTINUE:
            return False
        case None:
            keyed = keyed or definition.concurrency_key is not None or definition.max_running_per_key != 1
            return keyed or bool(definition.max_running) or bool(definition.semaphores)


def lane_of(definition: Definition) -> Lane:
    """Where ready runs of the job wait: `queue|handler|label=value,…`."""
    labels = [f"{key}={value}" for key, value in sorted(definition.labels.items())]
    if definition.apart and definition.semaphores:
        units = "+".join(f"{name}:{weight}" for name, weight in wanted(definition.semaphores))
        labels.append(f"{APART_LABEL}={units}")
    return Lane(f"{definition.queue}|{definition.target.handler}|{','.join(labels)}")


def serves(labels: dict[str, str], lane: Lane, handlers: Sequence[Handler] = ()) -> bool:
    """Whether a node with these labels and handlers may run what waits in the lane."""
    handler = lane.split("|", 2)[1]
    served = not handler or handles(handlers, handler)
    return served and all(_carries(labels, key, value) for key, value in _labels_of(lane))


def _carries(labels: dict[str, str], key: str, value: str) -> bool:
    return key in labels if key == APART_LABEL else labels.get(key) == value


def _labels_of(lane: Lane) -> list[tuple[str, str]]:
    return [(key, value) for key, _, value in (pair.partition("=") for pair in lane.split("|", 2)[2].split(",")) if key]


def units_here(definition: Definition) -> tuple[tuple[str, int], ...]:
    """(name, weight) of each semaphore of the definition that is in the store of the job."""
    return () if definition.apart else wanted(definition.semaphores)


def units_apart(lane: Lane) -> tuple[tuple[str, int], ...]:
    """(name, weight) of each semaphore in another store that runs of the lane hold while they run, by name."""
    units = dict(_labels_of(lane)).get(APART_LABEL)
    return () if units is None else wanted(units.split("+"))


def rank_of(due: Moment, priority: int) -> int:
    """The order in a lane, smaller first: no run due more than 200 minutes later can overtake."""
    return due - head_start(priority)


def head_start(priority: int) -> int:
    """By how many microseconds a run of this priority goes before one of priority 0 that is due at the same moment."""
    return priority * MINUTE


def check_definition(definition: Definition) -> Definition:
    """The definition, if it can be kept; the schedule is checked by `schedule_of`. Raises `InvalidInput`.

    Python checks neither types nor bounds when it makes one, so that is done here.
    """
    plain = msgspec.to_builtins(definition)
    try:
        msgspec.convert(plain, Definition)
    except msgspec.ValidationError as fault:
        raise invalid_json(fault, plain) from None
    for name, value in plain.items():
        for text in texts_in(value):
            check_text(name, text)
    check_word("queue", definition.queue)
    for name in definition.calendars:
        check_word("calendars", name)
    if definition.shift is not None and not definition.calendars:
        message, allowed = "shift: without calendars there is nothing to move", "no shift, or calendars beside it"
        raise InvalidInput(message, field="shift", value=definition.shift, allowed=allowed)
    for key, value in definition.labels.items():
        check_word("labels", key)
        check_word(f"labels.{key}", value)
    _check_waiting(definition)
    _check_dependents(definition)
    wanted(definition.semaphores)
    check_concurrency_key(definition.concurrency_key)
    retention_of(definition.retention)
    definition.target.check()
    if not definition.auto_complete_success and not definition.target.can_report:
        message = f"auto_complete_success: a {kind_of(definition.target)} can't say how it ended"
        allowed = f"true with {kind_of(definition.target)}"
        raise InvalidInput(message, field="auto_complete_success", value=False, allowed=allowed)
    return definition


def _check_waiting(definition: Definition) -> None:
    waiting = definition.max_waiting
    if waiting is not None and not limit_of(definition):
        message = "max_waiting: without a limit nobody waits for a place"
        raise InvalidInput(message, field="max_waiting", value=waiting, allowed="max_running above 0 beside it")
    if waiting is not None and definition.on_overlap is Overlap.REPLACE:
        message = "max_waiting: where the newest replaces the others it always waits for one of them to end"
        raise InvalidInput(message, field="max_waiting", value=waiting, allowed="on_overlap = skip or queue beside it")


def _check_dependents(definition: Definition) -> None:
    for parent in definition.parents:
        check_job_id(parent.job, field="parents")
    if definition.on_failure_job is not None:
        check_job_id(definition.on_failure_job, field="on_failure_job")
    if definition.parents and definition.schedule is not None:
        message = "schedule: a job with parents runs after them"
        raise InvalidInput(message, field="schedule", value=definition.schedule, allowed="no schedule with parents")


def edges_of(job_id: JobId, definition: Definition) -> tuple[Edge, ...]:
    """Which jobs run after which, as this one says: it after its parents, and its `on_failure_job` after it."""
    joins = len({parent.job for parent in definition.parents}) if definition.join is Join.ALL else 0
    edges = [Edge(JobId(parent.job), job_id, parent.on, joins, job_id) for parent in definition.parents]
    if definition.on_failure_job is not None:
        edges.append(Edge(job_id, JobId(definition.on_failure_job), On.FAILURE, 0, job_id))
    return tuple(edges)


_FIELD = re.compile(r"field `([^`]+)`")
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Definition)


def encode_definition(definition: Definition) -> bytes:
    """The stored form: JSON, defaults left out; what could not be read, as it was."""
    if isinstance(definition.target, Unreadable):
        return definition.target.text.encode()
    return _encoder.encode(definition)


def decode_definition(data: bytes | str) -> Definition:
    """Read the stored form, or what a user sent. Raises `InvalidInput` naming the field."""
    try:
        found = _decoder.decode(data)
    except msgspec.DecodeError as fault:
        raise invalid_json(fault) from None
    except UnicodeDecodeError:
        raise InvalidInput("a definition must be UTF-8", allowed="JSON in UTF-8") from None
    if isinstance(found.target, Unreadable):
        raise InvalidInput("target: nothing is unreadable by itself", field="target", allowed="a target that runs")
    return found


def stored_definition(text: str) -> Definition:
    """Read the stored form, whatever it is: one job's must not keep a store from reading the others'."""
    try:
        return decode_definition(text)
    except InvalidInput as fault:
        return Definition(target=Unreadable(text=text, why=fault.message))


def invalid_json(fault: msgspec.DecodeError, plain: object = None) -> InvalidInput:
    """What msgspec found wrong in `plain`, as an error of ours: `Expected …` is what is allowed, `at $.x` the field."""
    message, _, place = str(fault).partition(" - at `$")
    path = place.rstrip("`").lstrip(".")
    if found := _FIELD.search(message):
        path = f"{path}.{found[1]}".lstrip(".")
    value = plain
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return InvalidInput(f"{path}: {message}" if path else message, field=path or None, value=value, allowed=message)
