"""Entries of another scheduler's jobs: each becomes a job, or says why not. Pure.

An entry is a row of a table, or a unit of systemd. Fields without an equal here become warnings of the entry.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from reprlib import Repr
from typing import Final, NamedTuple

import msgspec

from tokimori.clock import Moment
from tokimori.errors import InvalidFile, InvalidInput
from tokimori.model.ids import check_job_id
from tokimori.model.job import Definition, schedule_of
from tokimori.model.sizes import MOST_REASON, check_sizes
from tokimori.service.definitions.definitions import definition_from
from tokimori.service.definitions.imports import Start

Row = Mapping[str, object]
"""A row of a table, by column."""
MOST_SHOWN = 100
"""Characters of a value that are repeated in a message."""
LONGEST_SHOWN = 1_000
"""Characters of a reason: a thousand timers may have one service, with a line of a megabyte that is refused."""
AT_ONCE: Final = Start()
_NOT_IN_AN_ID = re.compile(r"[^A-Za-z0-9._:@+-]+")
_LONGEST_ID = 255
_SHORT = Repr()
"""Length of nested lists in a message: foreign data may hold one a million times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Entry that becomes a job: `place` is its source, `start` how it continues, `warnings` what is lost.

    An id of a `family` is its name, or ends in a number: which one, the jobs that are there decide.
    """

    place: str
    job_id: str
    definition: Definition
    start: Start = AT_ONCE
    runs_remaining: int | None = None
    warnings: tuple[str, ...] = ()
    family: str | None = None


class Refused(NamedTuple):
    """An entry that can't become a job as it is."""

    place: str
    why: str


class Unread(Refused):
    """Fault of a file without recognisable entries, or a further one of an entry: it is no entry."""


class Inactive(NamedTuple):
    """Entry that is not moved, as it does not run there either."""

    place: str
    why: str


Entry = Moved | Refused | Inactive


class Warnings:
    """The warnings of one entry, in order."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def add(self, field: str, value: object, why: str) -> None:
        """Add a warning of a field and its value."""
        self._texts.append(f"{field}: {shown(value)}: {why}")

    def note(self, text: str) -> None:
        """Add a warning of fields whose values say nothing."""
        self._texts.append(text)

    def all(self) -> tuple[str, ...]:
        """Return all warnings."""
        return tuple(self._texts)


def entries(place: str, translate: Callable[[], Iterable[Entry]]) -> Iterator[Entry]:
    """Yield the entries from one item of a source, or the reason that it can't be moved."""
    try:
        yield from list(translate())
    except InvalidFile as fault:  # its field is the line
        yield Refused(_cut(fault.field or place), fault_text(fault))
    except InvalidInput as fault:
        yield Refused(place, fault_text(fault))


def without_duplicates(found: Iterable[Entry], taken: dict[str, str]) -> Iterator[Entry]:
    """Yield the entries, but refuse the second of two jobs with one id. `taken` holds the place of each id so far."""
    for entry in found:
        if not isinstance(entry, Moved):
            yield entry
        elif entry.job_id in taken:
            why = f"its id would be {entry.job_id!r}, like that of {taken[entry.job_id]}; rename one"
            yield Refused(entry.place, why)
        else:
            taken[entry.job_id] = entry.place
            yield entry


def fault_text(fault: InvalidInput) -> str:
    """Return a fault in one line, with the allowed values."""
    message = _cut(" ".join(fault.message.split()))
    allowed = None if fault.allowed is None else _cut(fault.allowed)
    return message if allowed is None or allowed in message else f"{message}; allowed: {allowed}"


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def refusal(field: str, value: object, allowed: str) -> InvalidInput:
    """Return the error for a value that can't be moved."""
    return InvalidInput(f"{field}: {shown(value)} is not allowed", field=field, value=value, allowed=allowed)


def moved(
    place: str,
    job_id: str,
    fields: Mapping[str, object],
    *,
    start: Start = AT_ONCE,
    runs_remaining: int | None = None,
    warnings: tuple[str, ...] = (),
) -> Moved:
    """Return the job of these fields, checked as far as it can be without a store. Raises `InvalidInput`."""
    definition = definition_from({name: value for name, value in fields.items() if value is not None})
    job = Moved(
        place=place,
        job_id=job_id,
        definition=definition,
        start=start,
        runs_remaining=runs_remaining,
        warnings=warnings,
    )
    return checked(job)


def checked(job: Moved) -> Moved:
    """Return the job, checked as far as it can be without a store. Raises `InvalidInput`."""
    check_sizes(job.definition)
    schedule_of(job.definition, Moment(0), job.job_id)
    check_job_id(job.job_id)
    return job


def inactive_if_over(job: Moved, now: Moment) -> Entry:
    """Return the job; it is left out if its schedule names no moment any more."""
    schedule = job.definition.schedule
    if schedule is None or schedule_of(job.definition, now, job.job_id).next_after(now) is not None:
        return job
    return Inactive(job.place, f"schedule: {shown(schedule)}: it names no moment any more")


def id_of(name: str) -> str:
    """Return a name as an id: `_` replaces characters that no id can hold."""
    return _NOT_IN_AN_ID.sub("_", name)[:_LONGEST_ID]


def shown(value: object) -> str:
    """Return a value as messages show it."""
    text = repr(value) if isinstance(value, str | bytes | int | float | None) else _SHORT.repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


# Columns


def text_in(row: Row, column: str) -> str:
    """Return the text of a column; an empty one if it is NULL or missing. Raises `InvalidInput`."""
    value = row.get(column)
    match value:
        case None:
            return ""
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise refusal(column, value, "text in UTF-8") from None
        case str():
            if any("\ud800" <= character <= "\udfff" for character in value):
                raise refusal(column, value, "text in UTF-8")
            return value
        case int() if not isinstance(value, bool):
            return str(value)
        case _:
            raise refusal(column, value, "a text")


def filled_text_in(row: Row, column: str) -> str:
    """Return the text of a column that must have one, and not a number. Raises `InvalidInput`."""
    value = row.get(column)
    if isinstance(value, str) and value.strip():
        return value
    raise refusal(column, value, "a text")


def number_in(row: Row, column: str) -> int:
    """Return the whole number of a column. Raises `InvalidInput`."""
    value = row.get(column)
    if isinstance(value, bool) or not isinstance(value, int):
        try:
            return int(str(value), 10) if isinstance(value, str) else int(_whole(value))
        except (TypeError, ValueError):
            raise refusal(column, value, "a whole number") from None
    return value


def _whole(value: object) -> int:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise ValueError(value)


def flag_in(row: Row, column: str) -> bool:
    """Return whether a column is true; NULL is false. Raises `InvalidInput`."""
    value = row.get(column)
    if value in (None, 0, 1, "0", "1", "t", "f", "true", "false"):
        return value in (1, "1", "t", "true")
    raise refusal(column, value, "0 or 1")


def object_in(row: Row, column: str) -> Mapping[str, object]:
    """Return the JSON object of a column. Raises `InvalidInput`."""
    value = row.get(column)
    try:
        found = msgspec.json.decode(value) if isinstance(value, str | bytes) else value
    except (msgspec.DecodeError, ValueError, RecursionError):
        found = None
    if not isinstance(found, Mapping):
        raise refusal(column, value, "an object as JSON")
    return found


def reason_of(text: str) -> str:
    """Return a text as the reason of a stopped job, cut if it is long."""
    data = text.encode(errors="replace")
    return text if len(data) <= MOST_REASON else data[: MOST_REASON - 3].decode(errors="ignore") + "…"


def rows_by(rows: Sequence[Row], column: str) -> Mapping[int, Sequence[Row]]:
    """Return rows of a table by the number in one of their columns; those without a number are left out."""
    found: dict[int, list[Row]] = {}
    for row in rows:
        try:
            found.setdefault(number_in(row, column), []).append(row)
        except InvalidInput:
            continue
    return found
