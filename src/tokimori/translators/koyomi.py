"""Koyomi's tables, read as jobs: `jobs` with their `job_times`. Pure.

There a job is due when any of its rows matches; a number matches by its value, so that `05` is 5. Rows that never match
(weekday 0, a 31st of April) are left out of the schedule, with a warning. Jobs may overlap, and runs missed while no
worker ran are skipped. A moment in the hour that clocks skip does not come, and one in the hour that they repeat comes
twice.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from types import MappingProxyType
from typing import Final, NamedTuple

from tokimori.clock import Moment
from tokimori.config.value import MASK
from tokimori.errors import InvalidFile, InvalidInput, InvalidSchedule
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import Fold, Gap
from tokimori.translators.became import Became, cited, unknown
from tokimori.translators.entries import (
    Entry,
    Inactive,
    Row,
    Warnings,
    entries,
    moved,
    number_in,
    refusal,
    rows_by,
    shown,
    text_in,
)
from tokimori.translators.store_urls import store_url

_SAME = {
    "time_zone": "",
    "worker.interval_minutes": "ticks lie on whole multiples of it since midnight UTC, whenever a node was started",
    "worker.minimum_interval_seconds": "",
    "schedule.update_interval_seconds": "a node asks for edits at least so often; each beat, every 2 s, asks too",
}
_DEFAULTS = {
    "job.lock_ttl_seconds": 25.0,
    "worker.minimum_interval_seconds": 30.0,
    "worker.interval_minutes": 1.0,
}
_CLOCK = (
    "Nodes use the store's clock; it can't be set. `tokimori schedule explain TEXT --after TIME` shows what would run"
    " then; tokimori.testing.Rehearsal is a node with a clock that you move"
)
_NO_EQUAL = {
    "debug_mode": _CLOCK,
    "debug.now": _CLOCK,
    "debug.worker.sleep_seconds": _CLOCK,
    "job.lock_ttl_seconds": "no lock is needed: an occurrence becomes one run whatever the number of nodes, because the"
    " store holds (job, nominal time) once",
}
_LOG = ("log.debug", "log.console", "log.file", "log.file_path")
_MOST_NUMBER = 2**63
_LOG_FILE = "log/koyomi.log"
_MODULE = "datasource.module."
_CONNECTOR = "datasource.connector."
_STORES = {"": "store", "job.": "datasource.job.url", "semaphore.": "datasource.semaphore.url"}
_CONNECTED = tuple(f"{_CONNECTOR}{entity}{name}" for entity in _STORES for name in ("dsn", "user", "password"))
KEYS = MappingProxyType(dict.fromkeys((*_SAME, *_NO_EQUAL, *_LOG, f"{_MODULE}job", f"{_MODULE}semaphore", *_CONNECTED)))


def read_koyomi_settings(text: str, base: PurePath) -> Iterator[Became]:
    """Yield the result of each key. Raises `InvalidInput`, whose field is the key."""
    try:
        flat = dict(_flat(tomllib.loads(text), ""))
    except (ValueError, RecursionError) as fault:  # a number of thousands of digits is a ValueError
        raise InvalidFile(f"not TOML: {fault}", field="file", allowed='TOML, with texts in ""') from None
    _check_lengths(flat)
    yield from _log(flat)
    yield from _stores(flat, base)
    for key, value in flat.items():
        if key in _SAME:
            yield Became(key=key, given=cited(value), settings={key: value}, why=_SAME[key])
        elif key in _NO_EQUAL:
            yield Became(key=key, given=cited(value), why=_NO_EQUAL[key])
        elif key in (f"{_MODULE}job", f"{_MODULE}semaphore"):
            yield Became(key=key, given=cited(value), why=_module(key, value))
        elif key not in KEYS:
            yield unknown(key, KEYS, "Koyomi")


def _flat(table: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        key = prefix + name
        if isinstance(value, dict) and key not in KEYS:
            yield from _flat(value, f"{key}.")
        elif isinstance(value, int) and abs(value) > _MOST_NUMBER:
            raise InvalidInput(f"{key}: the number is too large", field=key, allowed=f"at most {_MOST_NUMBER}")
        else:
            yield key, value


def _check_lengths(said: Mapping[str, object]) -> None:
    """Check lock_ttl < minimum_interval < interval, as Koyomi's page requires and its program does not check."""
    lock, least, minutes = (_number(said, key) for key in _DEFAULTS)
    for key, value, most, other in (
        ("job.lock_ttl_seconds", lock, least, "worker.minimum_interval_seconds"),
        ("worker.minimum_interval_seconds", least, minutes * 60, "worker.interval_minutes"),
    ):
        if not value < most:
            message = f"{key}: {value:g} is not less than {other}"
            raise InvalidInput(message, field=key, value=value, allowed=f"below {most:g}")


def _number(said: Mapping[str, object], key: str) -> float:
    value = said.get(key, _DEFAULTS[key])
    try:
        if isinstance(value, int | float | str) and not isinstance(value, bool) and float(value) >= 0:
            return float(value)
    except (ValueError, OverflowError):
        pass
    raise InvalidInput(f"{key}: {cited(value)} is not allowed", field=key, value=cited(value), allowed="a number")


def _truth(said: Mapping[str, object], key: str, *, otherwise: bool) -> bool:
    match said.get(key, otherwise):
        case bool() as value:
            return value
        case "true" | "false" as word:
            return word == "true"
        case value:
            raise InvalidInput(
                f"{key}: {cited(value)} is not allowed", field=key, value=cited(value), allowed="true or false"
            )


def _log(said: Mapping[str, object]) -> Iterator[Became]:
    if not any(key in said for key in _LOG):
        return
    debug, file = _truth(said, "log.debug", otherwise=False), _truth(said, "log.file", otherwise=True)
    console, path = _truth(said, "log.console", otherwise=True), said.get("log.file_path", _LOG_FILE)
    if "log.debug" in said:
        yield Became(key="log.debug", given=cited(debug), settings={"log.level": "debug" if debug else "info"})
    if "log.console" in said:
        lost = not console and not file
        why = "with neither, messages would go nowhere: they go to standard error" if lost else ""
        yield Became(key="log.console", given=cited(console), settings={"log.stderr": console or lost}, why=why)
    named = {"log.file": path} if file else {}
    if "log.file" in said:
        why = "" if "log.file_path" in said else f"it is {_LOG_FILE}, where no log.file_path is said"
        yield Became(key="log.file", given=cited(file), settings=named, why=why if file else "no log.file is said")
    if "log.file_path" in said:
        why = "" if file else "log.file is false: nothing is written there"
        yield Became(key="log.file_path", given=cited(path), settings=named, why=why)


def _module(key: str, value: object) -> str:
    if value == "Teng":
        return "nothing has to be said: the URL of the store says of which kind it is"
    if value == "None" and key.endswith("semaphore"):
        return "without locks each worker of Koyomi runs each job; here a run is run by one node"
    return "a module of Perl has no equal: the URL of the store says of which kind it is"


def _stores(said: Mapping[str, object], base: PurePath) -> Iterator[Became]:
    for entity, setting in _STORES.items():
        place = _CONNECTOR + entity
        dsn, user, password = (_text(said, place + name) for name in ("dsn", "user", "password"))
        if dsn is None:
            for name in ("user", "password"):
                if place + name in said:
                    yield Became(key=place + name, given=MASK, why=f"no {place}dsn is said, to which it belongs")
            continue
        store = store_url(dsn, base, {"user": user, "password": password}, field=f"{place}dsn")
        yield Became(key=f"{place}dsn", given=MASK, settings={setting: store.url}, why=store.why)
        for name, value in (("user", user), ("password", password)):
            if value is not None:
                yield Became(key=place + name, given=MASK, settings={setting: store.url})


def _text(said: Mapping[str, object], key: str) -> str | None:
    value = said.get(key)
    if value is None or isinstance(value, str):
        return value
    raise InvalidInput(f"{key}: this is no text", field=key, allowed="a text")


_NUMBER = re.compile(r"\d{1,5}\Z", re.ASCII)
_LIMITS: Final = {"month": (1, 12), "day": (1, 31), "hour": (0, 23), "minute": (0, 59), "weekday": (1, 7)}
_SEPARATORS = re.compile(r"[;&|\n<>]")
_NEVER_RAN = "1970-01-01"
_MOST_SHOWN = 3


class Koyomi(NamedTuple):
    """Facts beside the tables: the `time_zone` of the configuration, how ids begin, and the time."""

    time_zone: str
    prefix: str
    now: Moment


def read_koyomi(jobs: Sequence[Row], times: Sequence[Row], locks: Sequence[Row], koyomi: Koyomi) -> Iterator[Entry]:
    """Yield the jobs of these rows of `jobs`, with those of `job_times` and `semaphores`. An id is `PREFIX-<id>`."""
    times_of, locks_of = rows_by(times, "job_id"), rows_by(locks, "job_id")
    for row in jobs:

        def translate(row: Row = row) -> Iterator[Entry]:
            number = number_in(row, "id")
            yield _job(row, times_of.get(number, ()), locks_of.get(number, ()), koyomi)

        yield from entries(_place(row), translate)


def _place(row: Row) -> str:
    return f"jobs, id {shown(row.get('id'))}"


def _job(row: Row, times: Sequence[Row], locks: Sequence[Row], koyomi: Koyomi) -> Entry:
    warnings = Warnings()
    schedule = _schedule(times, warnings)
    if times and not _comes_again(schedule, koyomi):
        return Inactive(_place(row), f"no time of it comes any more: {_written(times)}")
    if not times:
        warnings.add("job_times", 0, "the job has none: it runs when it is triggered, and never by itself")
    user, command = text_in(row, "user"), text_in(row, "command")
    fields: Mapping[str, object] = {
        "command": command,
        "user": user or None,
        "description": text_in(row, "memo") or None,
        "schedule": schedule or None,
        "time_zone": koyomi.time_zone,
        "gap": "skip",
        "fold": "both",
        "misfire": "skip",
        "max_running": 0,
    }
    if user and _SEPARATORS.search(command):
        warnings.add("user", user, "there sudo runs only the first command as this user, here all of them run so")
    for lock in locks:
        _warn_of_worker(lock, warnings)
    return moved(_place(row), f"{koyomi.prefix}-{number_in(row, 'id')}", fields, warnings=warnings.all())


def _warn_of_worker(lock: Row, warnings: Warnings) -> None:
    """Warn of the row of `semaphores`, which names the last worker of the job."""
    date = lock.get("run_date")
    if date is not None and not str(date).startswith(_NEVER_RAN):
        who = f"run_host {shown(lock.get('run_host'))}, run_pid {shown(lock.get('run_pid'))}"
        warnings.add("semaphores.run_date", str(date), f"the last run there ({who}) is no run here")
    if lock.get("number"):
        warnings.add("semaphores.number", lock["number"], "left out: it has no meaning there either")


def _schedule(times: Sequence[Row], warnings: Warnings) -> str:
    """Return the union of the rows that ever match; warn of the others."""
    rows = []
    for time in times:
        written = _Times(*(_field(time, column) for column in _Times._fields))
        row = _what_matches(written)
        if row is None:
            warnings.add("job_times", written.text(), "left out: it never matches")
            continue
        if row != written:
            warnings.add("job_times", written.text(), f"read as {row.text()}: the other field never matches")
        rows.append(row.text())
    return "; ".join(dict.fromkeys(rows))


def _written(times: Sequence[Row]) -> str:
    """Return some of the rows, as Koyomi writes them."""
    texts = [_Times(*(str(time.get(column)) for column in _Times._fields)).text() for time in times[:_MOST_SHOWN]]
    why = "; no weekday is 0 there: Sunday is 7" if any(text.endswith("(0)") for text in texts) else ""
    return "; ".join(texts) + why


class _Times(NamedTuple):
    """A row of `job_times`, each field `*` or a number without leading zeros."""

    year: str
    month: str
    day: str
    hour: str
    minute: str
    weekday: str

    def text(self) -> str:
        """Return the row as Koyomi writes it."""
        return f"{self.year}/{self.month}/{self.day} {self.hour}:{self.minute} ({self.weekday})"


def _field(time: Row, column: str) -> str:
    text = text_in(time, column)
    if text == "*":
        return text
    if _NUMBER.match(text) is None:
        raise refusal(f"job_times.{column} (id {time.get('id')})", time.get(column), "* or a number")
    return str(int(text))


def _what_matches(row: _Times) -> _Times | None:
    """Return the row without days and weekdays that never come; None if it never matches."""
    if not _is_possible("day", row.day) and row.weekday != "*":
        row = row._replace(day="*")
    if not _is_possible("weekday", row.weekday) and row.day != "*":
        row = row._replace(weekday="*")
    if not all(_is_possible(column, getattr(row, column)) for column in _LIMITS):
        return None
    try:
        parse_schedule(row.text())
    except InvalidSchedule:  # such as a 31st of April, or a year that no calendar has
        return None
    return row


def _is_possible(column: str, field: str) -> bool:
    low, high = _LIMITS[column]
    return field == "*" or low <= int(field) <= high


def _comes_again(schedule: str, koyomi: Koyomi) -> bool:
    if not schedule:
        return False
    read = parse_schedule(schedule, zone=koyomi.time_zone, gap=Gap.SKIP, fold=Fold.BOTH)
    return read.next_after(koyomi.now) is not None
