"""Requests for runs: they are checked, and become the values that the store needs. Pure."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import timedelta
from enum import StrEnum
from typing import Any, assert_never

from msgspec import Struct

from tokimori.clock import SECOND, Moment, format_moment
from tokimori.errors import Duplicate, InvalidInput
from tokimori.model.cause import check_traceparent
from tokimori.model.ids import RunId, check_uuid
from tokimori.model.job import Job
from tokimori.model.job_fields import FIELDS, OF_RETRY
from tokimori.model.lanes import lane_of, rank_of
from tokimori.model.request import InPlaceOf, Manner, Unique, key_of_payload, shared_origin
from tokimori.model.run import Details, Run, Step, manual_origin
from tokimori.model.semaphores import check_concurrency_key
from tokimori.model.transitions import RunState
from tokimori.model.words import check_text
from tokimori.schedules.stamp import length_in
from tokimori.service.definitions.arguments import ELSEWHERE, Payload, RequestArguments
from tokimori.service.definitions.steps import read_steps
from tokimori.service.validation import (
    Ahead,
    When,
    checked,
    chosen,
    flag_of,
    moment_ahead,
    moment_of,
    payload_of,
    seconds_of,
)
from tokimori.spelling import hint


class OnDuplicate(StrEnum):
    """Consequences for a request whose key another run holds."""

    SAME = "same"
    REFUSE = "refuse"
    REPLACE = "replace"


class Request(Struct, frozen=True, kw_only=True):
    """A request for a run of a job, now or `at` a moment (`Ahead`), without an offset one in the job's zone.

    The same `key` again gives the same run, whatever else the request says. `priority` is that of the job unless given.
    `parent` is the run whose code asks. `force` asks for a run even if the job is paused or parked. Of runs with the
    same `concurrency_key` (that of the job unless given) only `max_running_per_key` run at a time. `traceparent` is the
    requester's place in a trace (W3C Trace Context), which the run continues.

    With one of these three, several runs share the key, one after the other. `debounce`: a run of the key that has not
    started is put off until so many seconds from now, and gets this payload and priority. `replace`: the same, but the
    request says the moment. `throttle`: a run of the key that was asked for in the last so many seconds answers.

    `unique`, "until_start" or "until_end": so long a run holds the key, which without one is that of the payload. Then
    `on_duplicate` says what becomes of a request: "same" (the run that holds it answers), "refuse" (`Duplicate`), or
    "replace" (it takes over the request; if it has begun there is a new run). `in_place_of` names that run and its
    payload as they were read: else it is a `Conflict`; nulls: no run that has not begun. `expires`: a run that has not
    begun by then ends as skipped. `then` are runs that follow this one (`Step`).
    """

    key: str | None = None
    payload: str | None = None
    at: When | Ahead | None = None
    priority: int | None = None
    parent: str | None = None
    force: bool = False
    debounce: float | None = None
    throttle: float | None = None
    replace: bool = False
    concurrency_key: str | None = None
    traceparent: str | None = None
    unique: Unique | None = None
    on_duplicate: OnDuplicate | None = None
    in_place_of: InPlaceOf | None = None
    expires: Ahead | None = None
    then: tuple[Step, ...] = ()


_FIELDS = frozenset(Request.__struct_fields__)
_LEAST = 946_684_800 * SECOND
"""The year 2000: a smaller number was never a moment, but a count of seconds."""


class Became(StrEnum):
    """Results of a request."""

    MADE = "made"
    """It made a new run."""
    KNOWN = "known"
    """A run of that key existed already."""
    REPLACED = "replaced"
    """A run that had not started took over this request."""
    DEBOUNCED = "debounced"
    """A run that had not started was put off, and took over this request."""
    THROTTLED = "throttled"
    """A run that was asked for shortly before answered."""


class RequestedRun(Struct, frozen=True, kw_only=True):
    """The run that answers a request, and what happened to the request."""

    run: Run
    became: Became


def read_request(key: str | None, payload: Payload | None, fields: RequestArguments) -> Request:
    """Return the request that these arguments say. Raises `InvalidInput`."""
    check_names(fields)
    said = {name: _read(name, value) for name, value in fields.items() if value is not None}
    request = Request(key=key, payload=payload_of(payload), **said)
    _check(request)
    return request


def check_names(fields: Mapping[str, object], known: AbstractSet[str] = _FIELDS) -> None:
    """Refuse what is no term of a request. Raises `InvalidInput`."""
    for name, value in () if fields.keys() <= known else fields.items():
        if name not in known:
            meant = hint("at" if name in ("delay", "after") else ELSEWHERE.get(name, name), known)
            if name in FIELDS or name in OF_RETRY:
                meant = meant or "; it is a term of the job, for all its requests"
            message = f"{name}: a request has no such field{meant}"
            raise InvalidInput(message, field=name, value=value, allowed=f"one of {', '.join(sorted(known))}")


def _read(name: str, value: object) -> Any:
    match name:
        case "force" | "replace":
            return flag_of(name, value)
        case "debounce" | "throttle":
            return seconds_of(name, value, above_zero=True)
        case "traceparent":
            return check_traceparent(value)
        case "unique":
            return chosen(Unique, name, value)
        case "on_duplicate":
            return chosen(OnDuplicate, name, value)
        case "then":
            return read_steps(value)
        case "in_place_of":
            return _in_place_of(value)
        case _:
            return value


def _in_place_of(value: object) -> InPlaceOf:
    match value:
        case [None, None]:
            return InPlaceOf()
        case [str() as run_id, None | str() as payload]:
            return InPlaceOf(RunId(check_uuid(run_id, field="in_place_of")), payload)
        case _:
            pass
    allowed = "a run's id and its payload, or two nulls"
    raise InvalidInput(f"in_place_of: {value!r} is no run", field="in_place_of", value=value, allowed=allowed)


def requested_run(job: Job, request: Request, run_id: RunId, now: Moment, by: str | None) -> Run:
    """Return the run for which the request of `by` asks, as it would be made. Raises `InvalidInput`."""
    due = _due(job, request, now)
    priority = job.definition.priority if request.priority is None else request.priority
    return Run(
        id=run_id,
        job_id=job.id,
        incarnation=job.incarnation,
        origin=_origin(request, run_id),
        nominal=due,
        due=due,
        state=RunState.READY if due <= now else RunState.WAITING,
        priority=priority,
        rank=rank_of(due, priority),
        lane=lane_of(job.definition),
        created=now,
        payload=request.payload,
        parent_id=None if request.parent is None else RunId(check_uuid(request.parent, field="parent")),
        concurrency_key=check_concurrency_key(request.concurrency_key) or job.definition.concurrency_key,
        details=Details(
            traceparent=request.traceparent,
            requested_by=by,
            delay=due - now if due > now and _says_delay(request) else None,
            unique=request.unique,
            expires=_expires(job, request, now, due),
            then=request.then,
        ),
    )


def manner_of(request: Request, now: Moment) -> Manner:
    """Return how the store has to treat the request."""
    return Manner(
        forced=request.force,
        replaces=request.replace or request.debounce is not None or request.on_duplicate is OnDuplicate.REPLACE,
        since=None if request.throttle is None else Moment(now - round(request.throttle * SECOND)),
        unique=request.unique,
        in_place_of=request.in_place_of,
    )


def became(request: Request, run_id: RunId, run: Run) -> Became:
    """Return the outcome of a request, by the store's answer. Raises `Duplicate`."""
    if run.id == run_id:
        return Became.MADE
    match request:
        case Request(debounce=float() | int()):
            return Became.DEBOUNCED
        case Request(throttle=float() | int()):
            return Became.THROTTLED
        case Request(on_duplicate=OnDuplicate.REFUSE):
            message = f"another run, {run.id} ({run.state}), holds the key of this request, which is to be unique"
            allowed = f"`tokimori run show {run.id}`; or on_duplicate same or replace"
            raise Duplicate(message, field="unique", value=run.id, allowed=allowed)
        case Request(replace=True) | Request(on_duplicate=OnDuplicate.REPLACE) if run.state is not RunState.HELD:
            return Became.REPLACED
        case Request():
            return Became.KNOWN
        case _:
            assert_never(request)


def _sharing(request: Request) -> list[str]:
    """Return the fields of the request by which runs share a key."""
    throttles, debounces = request.throttle is not None, request.debounce is not None
    used = (("debounce", debounces), ("throttle", throttles), ("replace", request.replace), ("unique", request.unique))
    return [name for name, is_used in used if is_used]


def _check(request: Request) -> None:
    check_text("payload", request.payload or "")
    sharing = _sharing(request)
    if len(sharing) > 1:
        message = f"{sharing[1]}: it can't be used together with {sharing[0]}"
        raise InvalidInput(message, field=sharing[1], allowed="one of debounce, throttle, replace, unique")
    _check_unique(request)
    if request.then and (sharing or request.key is not None):
        message = "then: a run that others follow can't share a key: their ids are those of this request"
        raise InvalidInput(message, field="then", allowed="a request without key, unique, debounce, throttle, replace")
    if sharing and request.key is None and request.unique is None:
        message = f"key: {sharing[0]} needs a key"
        raise InvalidInput(message, field="key", allowed=f"a key beside {sharing[0]}")
    if request.debounce is not None and request.at is not None:
        raise InvalidInput(
            "at: it can't be used together with debounce, which says when",
            field="at",
            value=request.at,
            allowed="no moment with debounce",
        )
    if request.priority is not None:
        checked("priority", request.priority, 100, least=-100)


def _check_unique(request: Request) -> None:
    for name in ("on_duplicate", "in_place_of") if request.unique is None else ():
        if (value := getattr(request, name)) is not None:
            allowed = f"{name} beside unique"
            raise InvalidInput(f"{name}: the request is not unique", field=name, value=value, allowed=allowed)
    if request.in_place_of is not None and request.on_duplicate is not OnDuplicate.REPLACE:
        message = "in_place_of: nothing is to be replaced"
        raise InvalidInput(message, field="in_place_of", allowed="in_place_of beside on_duplicate=replace")


def _expires(job: Job, request: Request, now: Moment, due: Moment) -> Moment | None:
    if request.expires is None:
        return None
    expires = moment_ahead("expires", request.expires, job.definition.time_zone, now)
    if expires <= max(now, due):
        message = f"expires: {format_moment(expires)} is not after {format_moment(max(now, due))}, when the run is due"
        raise InvalidInput(message, field="expires", value=request.expires, allowed="a later moment, or none")
    return expires


def _due(job: Job, request: Request, now: Moment) -> Moment:
    if request.debounce is not None:
        return Moment(now + round(request.debounce * SECOND))
    at, zone = request.at, job.definition.time_zone
    if at is None:
        return now
    return moment_of("at", at, zone) if isinstance(at, int) and at > _LEAST else moment_ahead("at", at, zone, now)


def _says_delay(request: Request) -> bool:
    """Return if the request says when its run is due by a length of time, which counts from the moment it came."""
    at = request.at
    is_length = isinstance(at, timedelta) or (isinstance(at, str) and length_in(at) is not None)
    return request.debounce is not None or (is_length and not request.replace)


def _origin(request: Request, run_id: RunId) -> str:
    if request.key is None and request.unique is None:
        return manual_origin(run_id)
    usual = run_id if request.unique is None else key_of_payload(request.payload)
    key: object = usual if request.key is None else request.key
    if not isinstance(key, str) or not 1 <= len(key) <= 255 or not key.isprintable():
        raise InvalidInput(
            f"key: {key!r} is not a valid key", field="key", value=key, allowed="1 to 255 printable characters"
        )
    return shared_origin(key, run_id) if _sharing(request) else manual_origin(key)
