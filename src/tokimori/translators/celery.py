"""Periodic tasks of Celery beat: django-celery-beat's tables, and a `beat_schedule` as JSON or TOML. Pure."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple

from tokimori.clock import Moment, parse_moment
from tokimori.errors import InvalidInput
from tokimori.schedules.zones import check_zone
from tokimori.service.definitions.imports import Start
from tokimori.translators.call_arguments import Parameters, payload_of
from tokimori.translators.cron_sets import Times, as_there, schedule_of
from tokimori.translators.entries import (
    Entry,
    Inactive,
    Moved,
    Row,
    Warnings,
    entries,
    filled_text_in,
    id_of,
    inactive_if_over,
    moved,
    refusal,
)

TASKS, CRONTABS, INTERVALS, CLOCKS, SOLAR = (
    f"django_celery_beat_{name}"
    for name in ("periodictask", "crontabschedule", "intervalschedule", "clockedschedule", "solarschedule")
)
OTHERS = {"crontab": CRONTABS, "interval": INTERVALS, "clocked": CLOCKS, "solar": SOLAR}
_OWN = "celery.backend_cleanup"
_SETTINGS = ("timezone", "enable_utc")
_OLD_NAMES = {
    "CELERYBEAT_SCHEDULE": "beat_schedule",
    "CELERY_BEAT_SCHEDULE": "beat_schedule",
    "CELERY_TIMEZONE": "timezone",
    "CELERY_ENABLE_UTC": "enable_utc",
    "CELERY_ANNOTATIONS": "task_annotations",
    "CELERY_TASK_ANNOTATIONS": "task_annotations",
    "CELERY_DEFAULT_RATE_LIMIT": "task_default_rate_limit",
    "CELERY_TASK_DEFAULT_RATE_LIMIT": "task_default_rate_limit",
}
_RATE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)(?:/([smh]))?\Z", re.ASCII)
_PERIODS = {"s": 1, "m": 60, "h": 3_600}
_SECONDS = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
_NAMES = {
    "day_of_week": ("sun", "mon", "tue", "wed", "thu", "fri", "sat"),
    "month_of_year": ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
}
_RANGES = {
    "minute": (0, 59),
    "hour": (0, 23),
    "day_of_week": (0, 6),
    "day_of_month": (1, 31),
    "month_of_year": (1, 12),
}
_TERM = re.compile(r"(?:(\*)|([A-Za-z0-9]+)(?:-([A-Za-z0-9]+))?)(?:/(\d{1,4}))?\Z", re.ASCII)
_OPTIONS = {"queue": "queue", "priority": "priority", "expires": "expire_seconds"}


def read_celery(
    tasks: Iterable[Row],
    others: Mapping[str, Iterable[Row]],
    now: Moment,
    parameters: Parameters | None = None,
    zone: str = "UTC",
) -> Iterator[Entry]:
    """Read the jobs of django-celery-beat's rows; `others` are the rows of schedules by kind, as in `OTHERS`.

    `zone` is that of a crontab without one.
    """
    known = {kind: {str(row.get("id")): row for row in rows} for kind, rows in others.items()}
    for row in tasks:
        yield from _entries(f"{TASKS}, id {row.get('id')}", _joined(row, known), now, parameters or {}, zone)


class Beat(NamedTuple):
    """A `beat_schedule`, and the zone of its app (None: that of UTC, or of the machine if it is not `is_utc`).

    `rates` are the `rate_limit` of tasks by name; that of `*` is for all others.
    """

    entries: Row
    time_zone: str | None
    is_utc: bool
    rates: Mapping[str, object]


def beat_of(said: Row) -> Beat:
    """Read the configuration of an app, by old or new names of its keys, or a `beat_schedule` alone.

    Raises `InvalidInput`.
    """
    found = {_OLD_NAMES.get(name, name): value for name, value in said.items()}
    settings = {name: found.pop(name) for name in _SETTINGS if name in found and not isinstance(found[name], Mapping)}
    zone = settings.get("timezone") or None
    if zone is not None:
        zone = check_zone(str(zone), field="timezone")
    notes, rates = found.pop("task_annotations", None), {"*": found.pop("task_default_rate_limit", None)}
    for task, note in notes.items() if isinstance(notes, Mapping) else ():
        if isinstance(note, Mapping) and "rate_limit" in note:
            rates[str(task)] = note["rate_limit"]
    inner, is_utc = found.get("beat_schedule"), settings.get("enable_utc", True) is not False
    return Beat(inner if isinstance(inner, Mapping) else found, zone, is_utc, rates)


def read_beat_schedule(
    said: Row,
    file: str,
    now: Moment,
    parameters: Parameters | None = None,
    zone: str = "UTC",
    *,
    rates: Mapping[str, object] = MappingProxyType({}),
) -> Iterator[Entry]:
    """Read the jobs of a `beat_schedule`: by name `task`, `schedule`, and perhaps `args`, `kwargs` and `options`.

    `schedule` is a number of seconds, or a table: `{crontab = {minute = "0"}}`, `{every = 10, period = "seconds"}`.
    """
    for name, task in said.items():
        row = _task_of(name, task, zone)
        rate = rates.get(str(row.get("task")), rates.get("*"))
        given = row if rate is None else {"rate_limit": rate, **row}
        yield from _entries(f"{file}, {name}", given, now, parameters or {}, zone)


def _entries(place: str, row: Row, now: Moment, parameters: Parameters, zone: str) -> Iterator[Entry]:
    def translate() -> Iterator[Entry]:
        if row.get("task") == _OWN:
            yield Inactive(place, f"task: {_OWN} is work of Celery itself")
        else:
            yield inactive_if_over(_job(place, row, parameters, zone), now)

    return entries(place, translate)


def _joined(row: Mapping[str, Any], known: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """Return the row with its schedule beside it, under its kind."""
    joined = dict(row)
    for kind in OTHERS:
        key = row.get(f"{kind}_id")
        joined[kind] = None if key is None else known.get(kind, {}).get(str(key), {})
    return joined


def _task_of(name: str, said: object, zone: str) -> dict[str, Any]:
    """Return an entry of a `beat_schedule` in the words of the tables; other fields stay, for warnings."""
    if not isinstance(said, Mapping):
        return {"name": name, "said": said}
    row: dict[str, Any] = {"name": name, "enabled": True, **said}
    options = row.pop("options", None)
    for option, value in options.items() if isinstance(options, Mapping) else ():
        row[_OPTIONS.get(str(option), str(option))] = value
    schedule = row.pop("schedule", None)
    match schedule:
        case bool() | None | str():
            row["said"] = schedule
        case int() | float():
            row["interval"] = {"every": schedule, "period": "seconds"}
        case {"crontab": Mapping() as crontab}:
            row["crontab"] = {"timezone": row.pop("timezone", zone), **crontab}
        case {"every": _}:
            row["interval"] = {"period": "seconds", **schedule}
        case _:
            row["said"] = schedule
    return row


def _job(place: str, row: Mapping[str, Any], parameters: Parameters, zone: str) -> Moved:
    warnings = Warnings()
    name, function = filled_text_in(row, "name"), _function(filled_text_in(row, "task"))
    args, kwargs = _json(row, "args", list), _json(row, "kwargs", dict)
    fields = {
        "time_zone": "UTC",
        "function": function,
        "name": name if name != id_of(name) else None,
        "payload": payload_of(warnings, function, args, kwargs, parameters),
        **_schedule(row, zone),
        **_terms(row),
        "rate_limit": _rate(warnings, row),
    }
    _warn_untranslated(warnings, row)
    is_once = _flag(row, "one_off") and not str(fields["schedule"]).startswith("at ")
    return moved(
        place,
        id_of(name),
        fields,
        start=_start(row, from_last_run="anchored_on" in fields),
        runs_remaining=1 if is_once else None,
        warnings=warnings.all(),
    )


def _start(row: Mapping[str, Any], *, from_last_run: bool) -> Start:
    """Return how the job goes on: an interval from when beat sent the task last."""
    last = row.get("last_run_at") if from_last_run else None
    return Start(
        paused_because=None if _flag(row, "enabled", default=True) else "disabled in Celery beat",
        since=None if last is None else parse_moment(_moment("last_run_at", last)),
    )


def _flag(row: Mapping[str, Any], field: str, *, default: bool = False) -> bool:
    """Return a truth value, which databases also keep as 0 and 1."""
    value = row.get(field, default)
    if value in (0, 1, True, False) and value is not None:
        return bool(value)
    raise refusal(field, value, "true or false")


def _function(task: str) -> str:
    module, dot, function = task.rpartition(".")
    return f"{module}:{function}" if dot and module else task


def _json(row: Mapping[str, Any], field: str, kind: type[Any]) -> Any:
    """Return a value that tables keep as a text of JSON."""
    value = row.get(field)
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else None
        except (ValueError, RecursionError):
            raise refusal(field, value, "JSON") from None
    if value is None:
        return kind()
    if isinstance(value, kind):
        return value
    raise refusal(field, value, "a list" if kind is list else "an object")


# When


def _schedule(row: Mapping[str, Any], zone: str) -> dict[str, object]:
    named = [kind for kind in OTHERS if row.get(kind) is not None]
    for kind in named:
        if not isinstance(row[kind], Mapping):
            raise refusal(kind, row[kind], "a table, below `schedule`")
        if not row[kind]:
            raise refusal(f"{kind}_id", row.get(f"{kind}_id"), f"the id of a row of {OTHERS[kind]}")
    match named:
        case ["crontab"]:
            return _crontab(row["crontab"], zone)
        case ["interval"]:
            return _interval(row["interval"])
        case ["clocked"]:
            return {"schedule": f"at {_moment('clocked_time', row['clocked'].get('clocked_time'))}", "max_running": 0}
        case ["solar"]:
            event = row["solar"].get("event")
            raise refusal("solar", event, "crontab, interval or clocked: the sun is no schedule here")
        case []:
            raise refusal("schedule", row.get("said"), "seconds, or a crontab, interval or clocked schedule")
        case _:
            raise refusal("schedule", named, "one of crontab, interval, clocked")


def _interval(row: Mapping[str, Any]) -> dict[str, object]:
    """Return the interval, which Celery counts from when the task was sent last."""
    every, period = row.get("every"), row.get("period")
    length = _SECONDS.get(str(period))
    if length is None:
        raise refusal("interval.period", period, f"one of {', '.join(_SECONDS)}")
    if isinstance(every, bool) or not isinstance(every, int | float) or every <= 0 or every % 1 != 0:
        raise refusal("interval.every", every, "a whole number above 0")
    unit = str(period)
    return {"schedule": f"every {int(every)} {unit}", "anchored_on": "last run", "max_running": 0}


def _crontab(row: Mapping[str, Any], default: str) -> dict[str, object]:
    """Return the schedule. Every field must match, the day of the month and the weekday too."""
    values = {name: _values(name, row.get(name, "*")) for name in _RANGES}
    times = Times(
        minute=values["minute"],
        hour=values["hour"],
        day=values["day_of_month"],
        month=values["month_of_year"],
        weekday=values["day_of_week"],
    )
    zone = row.get("timezone") or default
    try:
        checked = check_zone(str(zone), field="crontab.timezone")
    except InvalidInput as fault:
        raise refusal("crontab.timezone", zone, str(fault.allowed)) from None
    return {"schedule": schedule_of(times), "time_zone": checked, "max_running": 0, **as_there(checked)}


def _values(name: str, text: object) -> set[int] | None:
    """Return the values of a field: `*`, numbers or names, ranges that may wrap round, lists, and steps."""
    if isinstance(text, list) and all(type(each) is int for each in text):
        text = ",".join(map(str, text))
    if isinstance(text, int) and not isinstance(text, bool):
        text = str(text)
    if not isinstance(text, str) or len(text) > 1000:
        raise refusal(f"crontab.{name}", text, "such as * or 0,30 or */5")
    found: set[int] = set()
    for term in text.replace(" ", "").split(","):
        found.update(_term(name, term, text))
    return None if found == set(range(_RANGES[name][0], _RANGES[name][1] + 1)) else found


def _term(name: str, term: str, text: str) -> Sequence[int]:
    low, high = _RANGES[name]
    matched = _TERM.match(term)
    star, first, last, step = matched.groups() if matched else (None, None, None, "0")
    by = int(step or 1)
    if by == 0:
        raise refusal(f"crontab.{name}", text, f"{low}-{high}, with * , - and /")
    every = list(range(low, high + 1))
    if star:
        return every[::by]
    begin = _number(name, first or "", text)
    if last is None:
        return every[begin - low :: by] if step else [begin]
    end = _number(name, last, text)
    values = every[begin - low : end - low + 1] if begin <= end else every[begin - low :] + every[: end - low + 1]
    return values[::by]


def _number(name: str, word: str, text: str) -> int:
    low, high = _RANGES[name]
    names = _NAMES.get(name, ())
    if word.lower()[:3] in names and word.isalpha():
        return names.index(word.lower()[:3]) + low
    if word.isdigit() and len(word) <= 4 and low <= int(word) <= high:
        return int(word)
    raise refusal(f"crontab.{name}", text, f"{low}-{high}{f' or {names[0]}-{names[-1]}' if names else ''}")


def _moment(field: str, value: object) -> str:
    """Return a moment as databases give it: Django keeps UTC."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise refusal(field, value, "a time, such as 2030-01-01 00:00:00") from None
    if not isinstance(value, datetime):
        raise refusal(field, value, "a time")
    return value.isoformat() if value.tzinfo is not None else f"{value.isoformat()}Z"


# The rest


def _terms(row: Mapping[str, Any]) -> dict[str, object]:
    fields: dict[str, object] = {"misfire": "latest"}
    for theirs, ours in (("start_time", "starts_at"), ("expires", "ends_at")):
        if row.get(theirs) is not None:
            fields[ours] = _moment(theirs, row[theirs])
    seconds = row.get("expire_seconds")
    fields["grace"] = seconds.total_seconds() if isinstance(seconds, timedelta) else seconds
    fields["queue"] = row.get("queue") or None
    fields["priority"] = row.get("priority")
    fields["description"] = row.get("description") or None
    return fields | _limits(row)


def _limits(row: Mapping[str, Any]) -> dict[str, object]:
    """Return the time-out: a soft limit notifies the task, and the hard one, which is later, kills it."""
    limits = {name: row[name] for name in ("soft_time_limit", "time_limit") if row.get(name)}
    for name, value in limits.items():
        if not isinstance(value, int | float) or value < 0:
            raise refusal(name, value, "a number of seconds")
    grace = {"timeout_grace": max(0, row["time_limit"] - row["soft_time_limit"])} if len(limits) > 1 else {}
    return {"timeout": min(limits.values(), default=None), **grace}


def _rate(warnings: Warnings, row: Mapping[str, Any]) -> str | None:
    """Return the rate of the job; Celery's has a number alone for one a second, and 0 for none."""
    rate = row.get("rate_limit")
    found = None if isinstance(rate, bool) else _RATE.match(str(rate).strip())
    if rate is None or (found is not None and not float(found[1])):
        return None
    if found is None:
        raise refusal("rate_limit", rate, "a number of runs a second, or N/s, N/m or N/h, such as 10/m")
    number, unit = float(found[1]), found[2] or "s"
    warnings.add("rate_limit", rate, "each worker of Celery counts alone, and here all nodes count together")
    return (
        f"{number:.0f}/{unit}" if number % 1 == 0 else f"1/{_PERIODS[unit] / number:.6f}".rstrip("0").rstrip(".") + "s"
    )


_TRANSLATED = frozenset(
    {
        *("rate_limit", "time_limit", "soft_time_limit"),
        *("id", "name", "task", "args", "kwargs", "queue", "priority", "expires", "expire_seconds", "enabled"),
        *("description", "one_off", "start_time", *OTHERS, *(f"{kind}_id" for kind in OTHERS)),
        *("last_run_at", "total_run_count", "date_changed"),  # what beat itself notes, and not what a person says
    }
)


def _warn_untranslated(warnings: Warnings, row: Mapping[str, Any]) -> None:
    """Warn of fields without an equal here: exchanges, routing keys, headers, and any others."""
    for field, value in row.items():
        if field not in _TRANSLATED and value not in (None, "", "{}", {}, [], False):
            warnings.add(field, value, "there is no such thing here, and it was left out")
