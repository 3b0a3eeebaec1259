"""Keiji's table `task_models`, read as jobs. Pure.

A task is a program that Keiji has compiled: the job runs it as Keiji's scheduler does, by `EXECUTABLE --run`. As there,
it never overlaps, missed runs are skipped, and a failure parks it until a person resolves it.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Final, NamedTuple

from tokimori.config.value import MASK
from tokimori.errors import InvalidInput
from tokimori.model.ids import check_job_id
from tokimori.model.task import read_env
from tokimori.schedules.fluent import every, parse_time, print_time
from tokimori.service.definitions.imports import Start
from tokimori.translators.became import Became, cited, unknown
from tokimori.translators.entries import (
    Entry,
    Inactive,
    Row,
    Warnings,
    entries,
    flag_in,
    moved,
    object_in,
    reason_of,
    refusal,
    shown,
    text_in,
)
from tokimori.translators.store_urls import store_url

KEYS = dict.fromkeys(("DB_URL", "TIME_ZONE", "ROTATE_LOGS", "LOG_MAX_SIZE"))
_LEAST = 1024
"""Bytes of a log file, in our settings."""


def read_keiji_settings(text: str, base: PurePath) -> Iterator[Became]:
    """Yield the result of each key. Raises `InvalidInput`, whose field is the key."""
    for key, value in read_env(text.encode(), "settings").items():
        match key:
            case "DB_URL":
                yield _store(value, base)
            case "TIME_ZONE":
                yield Became(key=key, given=cited(value), settings={"time_zone": value})
            case "ROTATE_LOGS":
                yield _rotation(value)
            case "LOG_MAX_SIZE":
                yield _size(value)
            case _:
                yield unknown(key, KEYS, "Keiji")


def _store(value: str, base: PurePath) -> Became:
    if value == "default":
        why = "nothing has to be said: the default is a file of SQLite in the state folder"
        return Became(key="DB_URL", given=value, why=why)
    store = store_url(value, base, {}, field="DB_URL")
    return Became(key="DB_URL", given=MASK, settings={"store": store.url}, why=store.why)


def _rotation(value: str) -> Became:
    if value not in {"0", "1"}:
        raise InvalidInput(
            f"ROTATE_LOGS: {cited(value)} is not allowed", field="ROTATE_LOGS", value=cited(value), allowed="0 or 1"
        )
    why = "" if value == "0" else "it is the file log.file that is rotated; `tokimori system start` makes one"
    return Became(key="ROTATE_LOGS", given=value, settings={"log.rotate": value == "1"}, why=why)


def _size(value: str) -> Became:
    if not (value.isascii() and value.isdecimal() and len(value) <= 18):
        raise InvalidInput(
            f"LOG_MAX_SIZE: {cited(value)} is not allowed",
            field="LOG_MAX_SIZE",
            value=cited(value),
            allowed="a number of bytes",
        )
    why = "" if int(value) >= _LEAST else f"{_LEAST} bytes are the least here"
    return Became(key="LOG_MAX_SIZE", given=value, settings={"log.max_size": max(_LEAST, int(value))}, why=why)


_UNITS: Final = ("seconds", "minutes", "hours")
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MOST_INTERVAL = 999_999_999


class Keiji(NamedTuple):
    """Facts beside the table: the TIME_ZONE of `settings.conf`."""

    time_zone: str


def read_keiji(rows: Sequence[Row], keiji: Keiji) -> Iterator[Entry]:
    """Yield the jobs of these rows. The id is the name of the task, or its slug if the name can be no id."""
    for row in rows:

        def translate(row: Row = row) -> Iterator[Entry]:
            yield _job(row, keiji)

        yield from entries(_place(row), translate)


def _place(row: Row) -> str:
    return f"task_models, id {shown(row.get('id'))} (name {shown(row.get('name'))})"


def _job(row: Row, keiji: Keiji) -> Entry:
    if row.get("deleted_at") is not None:
        return Inactive(_place(row), f"deleted_at: {shown(str(row['deleted_at']))}: the task was deleted")
    warnings = Warnings()
    name, slug, executable = (text_in(row, column) for column in ("name", "slug", "executable"))
    if not executable.endswith(".bin"):
        raise refusal("executable", executable, "the path of a built task, which ends in .bin")
    fields: Mapping[str, object] = {
        "command": (executable, "--run"),
        "name": name,
        "description": text_in(row, "description") or None,
        "schedule": _schedule(row),
        "time_zone": keiji.time_zone,
        "misfire": "skip",
        "on_exhausted": "park",
    }
    if slug and name != slug:
        warnings.add("name", name, f"it is not its slug {slug!r}, so that it has never run there; here it does")
    if (last := row.get("last_execution_time")) is not None:
        warnings.add("last_execution_time", str(last), "what ran there is no run here")
    return moved(_place(row), _job_id(name, slug), fields, start=_start(row), warnings=warnings.all())


def _job_id(name: str, slug: str) -> str:
    try:
        return check_job_id(name)
    except InvalidInput:
        return check_job_id(slug)


def _start(row: Row) -> Start:
    if flag_in(row, "is_disabled"):
        return Start(paused_because="disabled in Keiji")
    if flag_in(row, "is_error"):
        return Start(parked_because=reason_of(text_in(row, "error_txt").strip() or "failed in Keiji"))
    return Start()


def _schedule(row: Row) -> str:
    """Return the schedule that `schedule_info` says. Raises `InvalidInput`."""
    info = object_in(row, "schedule_info")
    match info:
        case {"units": units, "interval": interval}:
            if units not in _UNITS:
                raise refusal("schedule_info.units", units, ", ".join(_UNITS))
            if isinstance(interval, bool) or interval != _whole(interval) or not 1 <= interval <= _MOST_INTERVAL:
                raise refusal("schedule_info.interval", interval, f"a whole number, 1..{_MOST_INTERVAL}")
            return str(getattr(every(int(interval)), units))
        case {"day": day, "time": time}:
            if day not in _DAYS:
                raise refusal("schedule_info.day", day, ", ".join(_DAYS))
            return f"on {str(day).lower()} at {print_time(parse_time(str(time)))}"
        case _:
            raise refusal("schedule_info", dict(info), "units and interval, or day and time")


def _whole(interval: object) -> int:
    """Return the number, which JSON may have as 10.0; 0 for other values."""
    return int(interval) if isinstance(interval, int) or (isinstance(interval, float) and interval.is_integer()) else 0
