"""systemd's calendar expressions (`Mon..Fri *-*-* 09:00:00 Europe/Berlin`), rewritten as schedules of ours. Pure.

They are read as `calendar_spec_from_string` of systemd 252 reads them. There a weekday restricts a date, while cron
unites the two: so other weekdays are excepted.
"""

import re
from calendar import monthrange
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from tokimori.clock import SECOND, Moment, format_moment
from tokimori.errors import InvalidInput
from tokimori.schedules.zones import check_zone
from tokimori.translators.cron_sets import ranges_of

_YEARLY, _HALF_YEARLY, _QUARTERLY = "*-01-01", "*-01,07-01", "*-01,04,07,10-01"
_WORDS = {
    "minutely": "*-*-* *:*:00",
    "hourly": "*-*-* *:00:00",
    "daily": "*-*-*",
    "weekly": "Mon *-*-*",
    "monthly": "*-*-01",
    "quarterly": _QUARTERLY,
    **dict.fromkeys(("semiannually", "semi-annually", "biannually", "bi-annually"), _HALF_YEARLY),
    **dict.fromkeys(("yearly", "annually", "anually"), _YEARLY),
}
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DATE = re.compile(r"(?:([^-~]+)-)?([^-~]+)([-~])([^-~]+)\Z")
_NUMBER = r"(\d{1,9}(?:\.\d{1,9})?)"
_TERM = re.compile(rf"{_NUMBER}(?:\.\.{_NUMBER})?(?:/{_NUMBER})?\Z", re.ASCII)
_STAMP = re.compile(r"@(\d{1,11})\Z", re.ASCII)
_NEVER = "0 0 0 1 1 * 1970"
ALLOWED = "WEEKDAYS YEAR-MONTH-DAY HOUR:MINUTE:SECOND ZONE as systemd.time(7) has them, in whole seconds"


class Calendar(NamedTuple):
    """Schedule with its exceptions, and its zone (None: that of the machine)."""

    cron: str
    left_out: str | None
    zone: str | None


class _Field(NamedTuple):
    """Bounds of a field. `unit`: the number of parts of one; steps count back `from_end`."""

    low: int
    high: int
    unit: int = 1
    from_end: bool = False


_YEAR, _MONTH, _DAY, _LAST = _Field(1970, 2199), _Field(1, 12), _Field(1, 31), _Field(1, 28, from_end=True)
_HOUR, _MINUTE, _SECOND = _Field(0, 23), _Field(0, 59), _Field(0, 59, unit=SECOND)


def read_calendar(text: str) -> Calendar:
    """Read a calendar expression. Raises `InvalidInput`."""
    words = text.split()
    zone = _zone(words)
    if len(words) == 1 and words[0].lower() in _WORDS:
        words = _WORDS[words[0].lower()].split()
    if not words:
        raise _refused(text)
    if len(words) == 1 and (stamp := _STAMP.match(words[0])):
        return Calendar(f"at {format_moment(Moment(int(stamp[1]) * SECOND))}", None, zone)
    weekdays = _weekdays(words.pop(0), text) if words[0][0].isalpha() else None
    time = words.pop() if words and ":" in words[-1] else "0:0:0"
    date = words.pop() if words else "*-*"
    if words:
        raise _refused(text)
    return _calendar(weekdays, date, time, zone, text)


def _calendar(weekdays: Collection[int] | None, date: str, time: str, zone: str | None, text: str) -> Calendar:
    found = _DATE.match(date)
    parts = time.split(":")
    if found is None or len(parts) not in (2, 3):
        raise _refused(text)
    year, month, sign, day = found.groups()
    years, months = _chain(year or "*", _YEAR, text), _chain(month, _MONTH, text)
    days = _chain(day, _LAST if sign == "~" else _DAY, text)
    fields = zip((*parts, "0"), (_HOUR, _MINUTE, _SECOND), strict=False)
    clock = " ".join(_text(_chain(part, field, text)) for part, field in list(fields)[::-1])
    named = "*" if weekdays is None else ranges_of(weekdays)
    if sign == "-" and days is not None and not _exists(days, months, years):
        return Calendar(_NEVER, None, zone)
    last = sign == "~" and days is not None
    cron = ",".join(f"L-{each - 1}" if each > 1 else "L" for each in sorted(days or ())) if last else _text(days)
    if weekdays is None or days is None:
        return Calendar(f"{clock} {cron} {_text(months)} {named} {_text(years)}", None, zone)
    others = ranges_of(set(range(7)) - set(weekdays))
    left_out = f"{clock} * {_text(months)} {others} {_text(years)}" if others else None
    return Calendar(f"{clock} {cron} {_text(months)} * {_text(years)}", left_out, zone)


def _exists(days: Collection[int], months: Collection[int] | None, years: Collection[int] | None) -> bool:
    first = min(days)
    return first <= 28 or any(
        first <= monthrange(year, month)[1] for year in years or range(1970, 2200) for month in months or range(1, 13)
    )


def _zone(words: list[str]) -> str | None:
    """Remove and return the zone at the end. Raises `InvalidInput`."""
    if len(words) < 2 or not words[-1][0].isalpha():
        return None
    name = words.pop()
    return "UTC" if name.lower() == "utc" else check_zone(name, field="OnCalendar")


def _weekdays(text: str, whole: str) -> Collection[int]:
    """Return the days of the week, 0 = Sunday."""
    found: set[int] = set()
    for term in text.lower().removesuffix(",").split(","):
        first, _, last = term.replace("..", "-").partition("-")
        begin, end = _weekday(first, whole), _weekday(last if first != term else first, whole)
        if end < begin:
            raise _refused(whole)
        found |= {each % 7 for each in range(begin, end + 1)}
    return found


def _weekday(name: str, whole: str) -> int:
    for number, day in enumerate(_DAYS, 1):
        if name in (day, day[:3]):
            return number
    raise _refused(whole)


def _chain(text: str, field: _Field, whole: str) -> Collection[int] | None:
    """Return the values of a field; None: any."""
    if text == "*":
        return None
    return {value for term in text.split(",") for value in _values(term, field, whole)}


def _values(term: str, field: _Field, whole: str) -> Iterator[int]:
    found = _TERM.match(term)
    if found is None:
        raise _refused(whole)
    first, last, step = (None if each is None else _parts(each, field, whole) for each in found.groups())
    low, high = field.low * field.unit, field.high * field.unit + field.unit - 1
    begin = _full_year(first or 0) if field is _YEAR else first or 0
    end = _full_year(last) if field is _YEAR and last is not None else last
    by = field.unit if step is None else step
    if by == 0 or by > high - low or not low <= begin <= (begin if end is None else end) <= high:
        raise _refused(whole)
    if end is None and step is None:
        yield from _whole([begin], field, whole)
    elif end is None:  # a step without an end goes on to that of the field, and has to find one more
        values = range(begin, low - 1, -by) if field.from_end else range(begin, high + 1, by)
        if len(values) < 2:
            raise _refused(whole)
        yield from _whole(values, field, whole)
    else:
        yield from _whole(range(begin, end + 1, by), field, whole)


def _parts(number: str, field: _Field, whole: str) -> int:
    """Return a number in the field's units: seconds have microseconds, rounded as there."""
    base, dot, fraction = number.partition(".")
    if dot and field.unit == 1:
        raise _refused(whole)
    return int(base) * field.unit + (round(int(fraction) * 10.0 ** (6 - len(fraction))) if dot else 0)


def _whole(values: Sequence[int], field: _Field, whole: str) -> Iterator[int]:
    for value in values:
        if value % field.unit:
            raise _refused(whole)
        yield value // field.unit


def _full_year(year: int) -> int:
    if year < 70:
        return year + 2000
    return year + 1900 if year < 100 else year


def _text(values: Collection[int] | None) -> str:
    return "*" if values is None else ranges_of(values)


def _refused(text: str) -> InvalidInput:
    message = f"OnCalendar: {text!r} is not allowed"
    return InvalidInput(message, field="OnCalendar", value=text, allowed=ALLOWED)
