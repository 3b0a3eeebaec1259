"""Koyomi's tables, read as jobs: `jobs` with their `job_times`. Pure.

There a job is due when any of its rows matches; a number matches by its value, so that `05` is 5. What never matches
(weekday 0, a 31st of April) is left out of the schedule, and told. Jobs overlap as they like, and what was missed while
no worker ran is gone. In the hour that clocks skip nothing runs, and what is in the hour that they repeat runs twice.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from tokimori.clock import Moment
from tokimori.errors import InvalidSchedule
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import Fold, Gap
from tokimori.translators.moving import (
    Entry,
    LeftOut,
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

_NUMBER = re.compile(r"\d{1,5}\Z", re.ASCII)
_LIMITS: Final = {"month": (1, 12), "day": (1, 31), "hour": (0, 23), "minute": (0, 59), "weekday": (1, 7)}
_SEPARATORS = re.compile(r"[;&|\n<>]")
_NEVER_RAN = "1970-01-01"
_MOST_TOLD = 3


class Koyomi(NamedTuple):
    """Facts beside the tables: the `time_zone` of the configuration, how ids begin, and the time."""

    time_zone: str
    prefix: str
    now: Moment


def read_koyomi(jobs: Sequence[Row], times: Sequence[Row], locks: Sequence[Row], koyomi: Koyomi) -> Iterator[Entry]:
    """Yield the jobs of these rows of `jobs`, with their rows of `job_times` and `semaphores`. An id is
    `PREFIX-<id>`.
    """
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
        return LeftOut(_place(row), f"no time of it comes any more: {_written(times)}")
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
        _tell_of(lock, warnings)
    return moved(_place(row), f"{koyomi.prefix}-{number_in(row, 'id')}", fields, warnings=warnings.all())


def _tell_of(lock: Row, warnings: Warnings) -> None:
    """Warn of the row of `semaphores`: who ran the job last."""
    date = lock.get("run_date")
    if date is not None and not str(date).startswith(_NEVER_RAN):
        who = f"run_host {shown(lock.get('run_host'))}, run_pid {shown(lock.get('run_pid'))}"
        warnings.add("semaphores.run_date", str(date), f"the last run there ({who}) is no run here")
    if lock.get("number"):
        warnings.add("semaphores.number", lock["number"], "left out: it has no meaning there either")


def _schedule(times: Sequence[Row], warnings: Warnings) -> str:
    """Return the rows that match at times, united; what never matches is told."""
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
    """Return some of the rows, as they are in the table."""
    texts = ("/".join(str(time.get(column)) for column in _Times._fields) for time in times[:_MOST_TOLD])
    return f"{', '.join(texts)} ({'/'.join(_Times._fields)})"


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
    """Return the row without a day, or a weekday, that never comes beside one that does; None where nothing matches."""
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
