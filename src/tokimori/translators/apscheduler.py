"""Jobs of APScheduler 3, as its table `apscheduler_jobs` keeps them: `job_state` is a pickle, read as data. Pure."""

from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from tokimori.clock import Moment
from tokimori.errors import InvalidInput
from tokimori.service.definitions.imports import Start
from tokimori.translators.call_arguments import Parameters, payload_of
from tokimori.translators.cron_sets import Times, as_there, schedule_of
from tokimori.translators.entries import (
    AT_ONCE,
    Entry,
    Moved,
    Row,
    Warnings,
    entries,
    id_of,
    inactive_if_over,
    moved,
    refusal,
    shown,
)
from tokimori.translators.inert_pickle import Record, ZonedTime, read_datetime, read_pickle, read_timedelta, read_zone

_BEGIN = "apscheduler.triggers."
_CRON, _INTERVAL, _DATE = (
    f"{_BEGIN}{name}" for name in ("cron.CronTrigger", "interval.IntervalTrigger", "date.DateTrigger")
)
_OR = f"{_BEGIN}combining.OrTrigger"
_EXPRESSIONS = f"{_BEGIN}cron.expressions."
_FIELDS = ("year", "month", "day", "week", "day_of_week", "hour", "minute", "second")
_LOWEST = {"year": 1970, "month": 1, "day": 1, "week": 1, "day_of_week": 0, "hour": 0, "minute": 0, "second": 0}
_HIGHEST = {"year": 2199, "month": 12, "day": 31, "week": 53, "day_of_week": 6, "hour": 23, "minute": 59, "second": 59}
_ALLOWED = "a cron, interval, date or OrTrigger of APScheduler 3"
_MOST_TRIGGERS = 100
_MOST_TERMS = 100
"""Expressions of a field: a pickle may hold one list of them a million times."""


class _Field(NamedTuple):
    """Values of a field (None: any), and terms for single days: `L`, `5#2`."""

    values: frozenset[int] | None
    special: tuple[str, ...] = ()


def read_trigger(trigger: object) -> dict[str, object]:
    """Return the fields `schedule`, `time_zone`, `starts_at`, `ends_at` and `jitter`. Raises `InvalidInput`."""
    if not isinstance(trigger, Record):
        raise refusal("trigger", trigger, _ALLOWED)
    return _read(trigger.name, trigger.state)


def _read(name: str, state: object) -> dict[str, object]:
    if not isinstance(state, dict):
        raise refusal("trigger", name, _ALLOWED)
    match name:
        case found if found == _CRON:
            return _cron(state)
        case found if found == _INTERVAL:
            return _interval(state)
        case found if found == _DATE:
            return _date(state)
        case found if found == _OR:
            return _any_of(state)
        case _:
            raise refusal("trigger", name.removeprefix(_BEGIN), _ALLOWED)


def _date(state: Mapping[str, Any]) -> dict[str, object]:
    at = read_datetime("trigger.run_date", state.get("run_date"))
    return {"schedule": f"at {at.text()}", "time_zone": at.zone or "UTC"}


def _interval(state: Mapping[str, Any]) -> dict[str, object]:
    """Return the interval. The grid begins at the start; a day is 24 hours, whatever clocks do."""
    start = read_datetime("trigger.start_date", state.get("start_date"))
    length = read_timedelta("trigger.interval", state.get("interval"))
    zone = read_zone("trigger.timezone", state.get("timezone"))
    if length % timedelta(seconds=1) or length <= timedelta():
        raise refusal("trigger.interval", str(length), "whole seconds above 0")
    seconds = length // timedelta(seconds=1)
    fields = _bounds(state, zone)
    fields.pop("starts_at", None)
    return {**fields, "schedule": f"R/{_in_zone(start, zone, 'start_date').text()}/PT{seconds}S"}


def _bounds(state: Mapping[str, Any], zone: str) -> dict[str, object]:
    jitter = state.get("jitter")
    if not isinstance(jitter, int | float | None):
        raise refusal("trigger.jitter", jitter, "seconds, or None")
    fields: dict[str, object] = {"time_zone": zone, "jitter": jitter}
    for theirs, ours in (("start_date", "starts_at"), ("end_date", "ends_at")):
        if (value := state.get(theirs)) is not None:
            fields[ours] = _in_zone(read_datetime(f"trigger.{theirs}", value), zone, theirs).text()
    return fields


def _in_zone(time: ZonedTime, zone: str, name: str) -> ZonedTime:
    """Return a time in the zone of its trigger, as the library itself keeps it."""
    if time.zone not in (None, zone):
        raise refusal(f"trigger.{name}", time.zone, f"the zone of the trigger, {zone}")
    return time


def _any_of(state: Mapping[str, Any]) -> dict[str, object]:
    """Return the union of several triggers, if they differ only in their schedules.

    A union within a union is refused: one that contained itself would be read without end.
    """
    inner = state.get("triggers")
    if not isinstance(inner, list) or not 0 < len(inner) <= _MOST_TRIGGERS:
        raise refusal("trigger.triggers", inner, f"1 to {_MOST_TRIGGERS} triggers")
    found = [_inner(each) for each in inner]
    if any(name == _OR for name, _ in found):
        raise refusal("trigger.triggers", _OR.removeprefix(_BEGIN), "cron, interval and date triggers")
    read = [_read(name, state) for name, state in found]
    schedules = [str(each.pop("schedule")) for each in read]
    if any(each != read[0] for each in read) or (len(read) > 1 and any("except" in text for text in schedules)):
        allowed = "triggers of one zone, start, end and jitter, without both day and day_of_week"
        raise InvalidInput("trigger: its triggers can't be one schedule", field="trigger", allowed=allowed)
    return {**read[0], "schedule": "; ".join(schedules)}


def _inner(each: object) -> tuple[str, object]:
    """Return a trigger within another one: `module:Class` and its state."""
    match each:
        case (str() as name, dict() as state):
            return name.replace(":", ".").replace(".cron.trigger.", ".cron."), state
        case Record():
            return each.name, each.state
        case _:
            raise refusal("trigger.triggers", each, _ALLOWED)


# Cron


def _cron(state: Mapping[str, Any]) -> dict[str, object]:
    fields = {name: _Field(None) for name in _FIELDS}
    for field in _list(state.get("fields"), "trigger.fields", len(_FIELDS)):
        name, found = _field(field)
        fields[name] = found
    if fields["week"].values is not None:
        raise refusal("trigger.week", sorted(fields["week"].values), "no week: cron has days, weekdays and months")
    zone = read_zone("trigger.timezone", state.get("timezone"))
    return {**_bounds(state, zone), "schedule": schedule_of(_times(fields)), **as_there(zone)}


def _times(fields: Mapping[str, _Field]) -> Times:
    special = fields["day"].special
    if len(special) > 1 or (special and fields["day"].values is not None):
        raise refusal("trigger.day", special, "one of last, 2nd fri, or numbers")
    weekdays = fields["day_of_week"].values
    seconds = fields["second"].values
    return Times(
        second=range(60) if seconds is None else seconds,
        minute=fields["minute"].values,
        hour=fields["hour"].values,
        day=fields["day"].values,
        month=fields["month"].values,
        weekday=None if weekdays is None else {(each + 1) % 7 for each in weekdays},
        year=fields["year"].values,
        special_day="L" if special == ("L",) else None,
        special_weekday=special[0] if special and special != ("L",) else None,
    )


def _field(field: object) -> tuple[str, _Field]:
    state = field.state if isinstance(field, Record) else None
    if not isinstance(state, dict) or state.get("name") not in _FIELDS:
        raise refusal("trigger.fields", field, f"one of {', '.join(_FIELDS)}")
    name = str(state["name"])
    values: set[int] = set()
    special: list[str] = []
    for each in _list(state.get("expressions"), f"trigger.{name}", _MOST_TERMS):
        found = _expression(name, each)
        if isinstance(found, str):
            special.append(found)
        elif found is None:
            return name, _Field(None)
        else:
            values.update(found)
    return name, _Field(frozenset(values) if values else None, tuple(special))


def _expression(name: str, expression: object) -> Sequence[int] | str | None:
    """Return the values of an expression; None for all, a text for a single day."""
    where, allowed = f"trigger.{name}", "an expression of APScheduler's cron trigger"
    if not isinstance(expression, Record) or not isinstance(expression.state, dict):
        raise refusal(where, expression, allowed)
    kind, state = expression.name.removeprefix(_EXPRESSIONS), expression.state
    first, last, step = (_number(where, state, part) for part in ("first", "last", "step"))
    match kind:
        case "AllExpression":
            return None if step is None else range(_LOWEST[name], _HIGHEST[name] + 1, step)
        case "RangeExpression" | "MonthRangeExpression" | "WeekdayRangeExpression" if first is not None:
            if kind == "RangeExpression" and last is None and step is None:
                last = first
            end = _HIGHEST[name] if last is None else last
            if first < _LOWEST[name] or end > _HIGHEST[name]:
                raise refusal(where, f"{first}-{end}", f"{_LOWEST[name]}-{_HIGHEST[name]}")
            return range(first, end + 1, step or 1)
        case "LastDayOfMonthExpression":
            return "L"
        case "WeekdayPositionExpression":
            return _position(where, state)
        case _:
            raise refusal(where, kind, allowed)


def _position(where: str, state: Mapping[str, Any]) -> str:
    """Return `2nd tue` as `2#2`, `last sun` as `0L`. Theirs count weekdays from Monday 0, places from 0, the last 5."""
    place, weekday = _number(where, state, "option_num"), _number(where, state, "weekday")
    if place is None or weekday is None or place > 5 or weekday > 6:
        raise refusal(where, state, "such as 2nd fri or last sun")
    ours = (weekday + 1) % 7
    return f"{ours}L" if place == 5 else f"{ours}#{place + 1}"


def _number(where: str, state: Mapping[str, Any], part: str) -> int | None:
    value = state.get(part)
    if value is None or (isinstance(value, int) and 0 <= value <= 9999 and (part != "step" or value > 0)):
        return value
    raise refusal(where, value, "whole numbers")


def _list(value: object, where: str, most: int) -> Sequence[object]:
    if isinstance(value, list | tuple) and len(value) <= most:
        return value
    raise refusal(where, value, f"a list, of at most {most}")


TABLE, KEY = "apscheduler_jobs", "id"
_VERSION = 1
_KNOWN = frozenset(
    {
        *("version", "id", "func", "trigger", "executor", "args", "kwargs", "name", "misfire_grace_time", "coalesce"),
        *("max_instances", "next_run_time"),
    }
)


def from_base64(row: Row) -> Row:
    """Return a row with its state decoded from Base64; another text stays, and is refused with the row."""
    try:
        return {**row, "job_state": b64decode(str(row.get("job_state")), validate=True)}
    except ValueError:
        return row


def read_apscheduler(rows: Iterable[Row], now: Moment, parameters: Parameters | None = None) -> Iterator[Entry]:
    """Yield the jobs of these rows. `parameters` are the names of positional arguments."""
    for row in rows:
        place = f"{TABLE}, id {shown(row.get(KEY))}"

        def translate(row: Row = row, place: str = place) -> Iterator[Entry]:
            yield inactive_if_over(_job(row, place, parameters or {}), now)

        yield from entries(place, translate)


def _job(row: Row, place: str, parameters: Parameters) -> Moved:
    state = _state(row)
    warnings = Warnings()
    name = _text(state, "id")
    title = _text(state, "name") if state.get("name") else name
    fields = {
        "function": _function(state),
        "name": title if state.get("name") or name != id_of(name) else None,
        "payload": payload_of(warnings, _text(state, "func"), _args(state), _kwargs(state), parameters),
        **read_trigger(state.get("trigger")),
        **_policies(state),
    }
    if (executor := state.get("executor")) != "default":
        warnings.add("executor", executor, "there are none here: functions run in worker processes")
    for more in sorted(map(str, state.keys() - _KNOWN)):
        warnings.add(more, state[more], "it is not known, and left out")
    start = Start(paused_because="paused in APScheduler") if state.get("next_run_time") is None else AT_ONCE
    return moved(place, id_of(name), fields, start=start, warnings=warnings.all())


def _state(row: Row) -> Mapping[str, Any]:
    data = row.get("job_state")
    if not isinstance(data, bytes | bytearray | memoryview):
        raise refusal("job_state", data, "a pickle, as SQLAlchemyJobStore writes it")
    state = read_pickle(bytes(data))
    if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
        raise refusal("job_state", state, "the state of a job, as SQLAlchemyJobStore writes it")
    if state.get("version") != _VERSION:
        raise refusal("version", state.get("version"), f"{_VERSION}, that of APScheduler 3")
    return state


def _text(state: Mapping[str, Any], name: str) -> str:
    value = state.get(name)
    if isinstance(value, str) and value:
        return value
    raise refusal(name, value, "a text")


def _function(state: Mapping[str, Any]) -> str:
    """Return the function as `module:function`, as both systems write it."""
    text = _text(state, "func")
    if ":" not in text:
        raise refusal("func", text, "module:function")
    return text


def _args(state: Mapping[str, Any]) -> Sequence[object]:
    args = state.get("args", ())
    if isinstance(args, tuple | list):
        return args
    raise refusal("args", args, "a list")


def _kwargs(state: Mapping[str, Any]) -> Mapping[Any, object]:
    kwargs = state.get("kwargs", {})
    if isinstance(kwargs, dict):
        return kwargs
    raise refusal("kwargs", kwargs, "a dict")


def _policies(state: Mapping[str, Any]) -> dict[str, object]:
    """Return the policies: coalesced missed times are one run; times later than the grace are skipped."""
    grace, coalesce, most = (state.get(name) for name in ("misfire_grace_time", "coalesce", "max_instances"))
    if not isinstance(coalesce, bool):
        raise refusal("coalesce", coalesce, "True or False")
    if not isinstance(grace, int | float | None):
        raise refusal("misfire_grace_time", grace, "seconds, or None")
    if not isinstance(most, int):
        raise refusal("max_instances", most, "a whole number")
    return {
        "misfire": "latest" if coalesce else "all",
        "grace": grace,
        "max_running": most,
        "on_overlap": "skip",
    }
