"""Checks of the arguments of programs, their values for the service, and bounds of requests. Pure.

A type checker finds most of these faults. A program without one gets an error that names the field, the value and
what is allowed, like every other door.
"""

import json
import os
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from enum import Enum, StrEnum
from typing import TypeVar
from zoneinfo import ZoneInfo

from msgspec import Struct

from tokimori.clock import DAY, FIRST, LAST, Moment, format_moment, from_datetime
from tokimori.errors import InvalidInput
from tokimori.model.backfill import MOST_BACKFILLED
from tokimori.model.job_fields import LONGEST
from tokimori.model.sizes import MOST_AUTHOR, check_size
from tokimori.model.words import check_text
from tokimori.schedules.fluent import Phrase
from tokimori.schedules.stamp import LENGTHS, future_moment_text, iso_text, parse_stamp, seconds_in

_Choice = TypeVar("_Choice", bound=StrEnum)

When = Moment | datetime | str
"""A moment: microseconds since 1970, an aware datetime, or a text as RFC 3339 writes it."""
Ahead = datetime | timedelta | str
"""A moment to come: an aware datetime, how long from now, or a text that says either (`2030-01-01 09:00`, `2h`)."""
Span = float | timedelta | str
"""A length of time: seconds, a timedelta, or a text such as `1h30m`."""

MOST_LISTED = 1_000
"""The most rows that one answer has."""
_MOMENTS = (
    "an aware datetime, a text such as 2030-01-01T00:00:00Z, or whole microseconds since 1970, in years 1 to 9999"
)
_PAYLOADS = "a text; or a dict or list that JSON can hold"
_PATHS = ("cwd", "shell_path")


def moment_of(field: str, given: object, zone: str) -> Moment:
    """Return the moment; a text without offset is a time in the zone. Raises `InvalidInput`."""
    match given:
        case str():
            return Moment(parse_stamp(given, field=field).moment_in(zone))
        case datetime() if given.utcoffset() is None:
            raise InvalidInput(
                f"{field}: {given!r} has no time zone",
                field=field,
                value=given,
                allowed=_MOMENTS,
            )
        case datetime():
            moment: object = from_datetime(given)
        case _:
            moment = given
    if isinstance(moment, int) and not isinstance(moment, bool) and FIRST <= moment <= LAST:
        return Moment(moment)
    raise InvalidInput(f"{field}: {given!r} is not a moment", field=field, value=given, allowed=_MOMENTS)


def moment_ahead(field: str, given: object, zone: str, now: Moment) -> Moment:
    """Return the moment that one of `Ahead` describes. Raises `InvalidInput`, also for numbers without a unit."""
    match given:
        case timedelta() if given >= timedelta():
            return moment_of(field, now + round(given / timedelta(microseconds=1)), zone)
        case str():
            return moment_of(field, future_moment_text(field, given, now), zone)
        case datetime():
            return moment_of(field, given, zone)
        case _:
            allowed = "an aware datetime, a timedelta from 0, or a text such as 2030-01-01T00:00:00Z or 2h"
            raise InvalidInput(f"{field}: {given!r} is not a moment", field=field, value=given, allowed=allowed)


def seconds_of(field: str, given: object, *, above_zero: bool = False) -> float:
    """Return the seconds. Raises `InvalidInput`."""
    seconds = given.total_seconds() if isinstance(given, timedelta) else given
    if isinstance(seconds, str):
        seconds = seconds_in(seconds)
    if isinstance(seconds, int | float) and not isinstance(seconds, bool):
        is_long_enough = seconds > 0 or (seconds == 0 and not above_zero)
        if is_long_enough and seconds <= LONGEST:
            return seconds
    allowed = f"{LENGTHS}, {'above' if above_zero else 'from'} 0, at most a hundred years; or a timedelta"
    raise InvalidInput(f"{field}: {given!r} is not a length of time", field=field, value=given, allowed=allowed)


def mapping_of(field: str, given: object, values: str) -> Mapping[str, object]:
    """Return the names and values. Raises `InvalidInput`."""
    if isinstance(given, Mapping):
        return given
    raise InvalidInput(f"{field}: {given!r} is not allowed", field=field, value=given, allowed=f"a dict of {values}")


def flag_of(field: str, given: object) -> bool:
    """Return True or False itself; None is False. Raises `InvalidInput`."""
    if given is None or isinstance(given, bool):
        return bool(given)
    raise InvalidInput(f"{field}: {given!r} is neither True nor False", field=field, value=given, allowed="True, False")


def zone_of(given: object) -> object:
    """Return the name of a `ZoneInfo`; anything else as it is."""
    return given.key if isinstance(given, ZoneInfo) else given


def many(field: str, given: object, what: str) -> list[object]:
    """Return the members of a list, or of any other collection but a text. Raises `InvalidInput`."""
    if isinstance(given, Iterable) and not isinstance(given, str | bytes):
        return list(given)
    raise InvalidInput(f"{field}: {given!r} is not a list", field=field, value=given, allowed=f"a list of {what}")


def few(field: str, given: object, most: int) -> list[object]:
    """Return the texts of a list, as `many` does, but not too many. Raises `InvalidInput`."""
    found = many(field, given, "texts")
    if len(found) > most:
        message = f"{field}: {len(found)} are too many"
        raise InvalidInput(message, field=field, value=len(found), allowed=f"at most {most}")
    return found


def payload_of(given: object) -> str | None:
    """Return the text of a payload: a dict or a list is written as JSON. Raises `InvalidInput`."""
    if given is None or isinstance(given, str):
        return given
    if not isinstance(given, Mapping | list | tuple):
        raise InvalidInput(f"payload: {given!r} is not a payload", field="payload", value=given, allowed=_PAYLOADS)
    return json_of("payload", dict(given) if isinstance(given, Mapping) else list(given), _PAYLOADS)


def json_of(field: str, given: object, allowed: str = "a JSON value") -> str:
    """Return the value as JSON. Raises `InvalidInput` for values that JSON can't hold or would change."""

    def no_json(part: object) -> str:
        raise InvalidInput(f"{field}: JSON can't hold {part!r}", field=field, value=part, allowed=allowed)

    try:
        text = json.dumps(given, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=no_json)
    except (TypeError, ValueError, RecursionError):
        message = f"{field}: JSON can't hold it: a key that is no text, NaN or infinity, or a circle"
        raise InvalidInput(message, field=field, value=given, allowed=allowed) from None
    check_kept(field, given, allowed)
    return text


def check_kept(field: str, given: object, allowed: str = "a JSON value") -> None:
    """Refuse keys and values that JSON would change. Raises `InvalidInput`."""
    values = [given]
    while values:
        value = values.pop()
        keys = value if isinstance(value, dict) else ()
        changed = [value] if isinstance(value, tuple | Enum) else [key for key in keys if type(key) is not str]
        for each in changed:
            message = f"{field}: JSON would change {each!r}"
            raise InvalidInput(message, field=field, value=each, allowed=allowed)
        values += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def job_fields(fields: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of a job as JSON has them: texts for moments, zones and paths, seconds for timedeltas."""
    return {name: _plain(name, value) for name, value in fields.items()}


def _retention(value: timedelta | float) -> object:
    """Return a length in ISO 8601; what is none stays, and is refused."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    is_length = not isinstance(value, bool) and 0 <= seconds <= timedelta.max.total_seconds()
    if is_length:
        return iso_text(seconds)
    return str(value) if isinstance(value, timedelta) else value


def _plain(name: str, value: object) -> object:
    match value:
        case _ if name == "payload":
            return payload_of(value)
        case Phrase() if value.said:
            message = f"{name}: {', '.join(value.said)} beside a schedule are read in schedule.py of a task alone"
            raise InvalidInput(message, field=name, value=str(value), allowed="these terms as arguments of their own")
        case timedelta() | int() | float() if name == "retention":
            return _retention(value)
        case timedelta():
            return value.total_seconds()
        case datetime() if name in ("starts_at", "ends_at") and value.utcoffset() is not None:
            return value.isoformat()
        case ZoneInfo() if name == "time_zone":
            return value.key
        case os.PathLike() if name in _PATHS:
            return os.fspath(value)
        case list() | tuple() if name == "command":
            return [os.fspath(each) if isinstance(each, os.PathLike) else each for each in value]
        case Mapping() if name == "retry":
            return job_fields(value)
        case str():
            return str.__str__(value)  # of a phrase the text
        case set() | frozenset():
            return sorted(value, key=str)
        case _:
            return value


def day_of(given: object) -> object:
    """Return a `date` as calendars write it; anything else as it is. A datetime is no day."""
    return given.isoformat() if isinstance(given, date) and not isinstance(given, datetime) else given


def check_author(author: object) -> None:
    """Refuse an author that is neither a name nor None. Raises `InvalidInput`."""
    if author is not None:
        check_text("author", author)
        check_size("author", str(author), MOST_AUTHOR)


def checked(name: str, value: object, most: int, least: int = 1) -> int:
    """Return the number itself, if it is from `least` to `most`. Raises `InvalidInput`."""
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    raise InvalidInput(f"{name}: {value!r} is out of range", field=name, value=value, allowed=f"{least}..{most}")


def chosen(kind: type[_Choice], name: str, word: object) -> _Choice:
    """Return the member of `kind` that the word names. Raises `InvalidInput` with the words that are allowed."""
    try:
        return kind(str(word))
    except ValueError:
        allowed = ", ".join(kind)
        raise InvalidInput(f"{name}: {word!r} is not allowed", field=name, value=word, allowed=allowed) from None


class Bounds(Struct, frozen=True, kw_only=True):
    """The most `moments` of a schedule, and the most `occurrences` and `years` of a backfill."""

    moments: int
    occurrences: int
    years: int

    def check_years(self, first: Moment, last: Moment) -> None:
        """Refuse a backfill whose occurrences would take long to count. Raises `InvalidInput`."""
        if last - first > self.years * 366 * DAY:
            raise InvalidInput(
                f"to: {format_moment(last)} is over {self.years} years after `from`",
                field="to",
                value=format_moment(last),
                allowed=f"a range of at most {self.years} years; ask for the next ones then",
            )


OF_A_PROGRAM = Bounds(moments=10_000, occurrences=MOST_BACKFILLED, years=10_000)
OF_A_DOOR = Bounds(moments=MOST_LISTED, occurrences=10_000, years=200)
"""Years are counted in a thread beside the loop: with days off 200 of them take 0.3 s, and all of them 12 s."""
