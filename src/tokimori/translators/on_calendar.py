"""systemd's calendar expressions (`Mon..Fri *-*-* 09:00:00 Europe/Berlin`), rewritten as schedules of ours. Pure.

There a weekday restricts a date, where cron unites the two: what is on other weekdays is excepted.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from tokimori.errors import InvalidInput
from tokimori.schedules.zones import check_zone

_WORDS = {
    "minutely": "*-*-* *:*:00",
    "hourly": "*-*-* *:00:00",
    "daily": "*-*-* 00:00:00",
    "midnight": "*-*-* 00:00:00",
    "weekly": "Mon *-*-* 00:00:00",
    "monthly": "*-*-01 00:00:00",
    "quarterly": "*-01,04,07,10-01 00:00:00",
    "semiannually": "*-01,07-01 00:00:00",
    "semi-annually": "*-01,07-01 00:00:00",
    "yearly": "*-01-01 00:00:00",
    "annually": "*-01-01 00:00:00",
}
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DATE = re.compile(r"(?:([^-~]+)-)?([^-~]+)([-~])([^-~]+)\Z")
_TERM = re.compile(r"(\*|\d{1,4})(?:\.\.(\d{1,4}))?(?:/(\d{1,4}))?\Z", re.ASCII)
ALLOWED = "WEEKDAYS YEAR-MONTH-DAY HOUR:MINUTE:SECOND ZONE as systemd.time(7) has them, in whole seconds"


class Calendar(NamedTuple):
    """A schedule with what is left out of it, and its zone (None: that of the machine)."""

    cron: str
    left_out: str | None
    zone: str | None


def read_calendar(text: str) -> Calendar:
    """The schedule of a calendar expression. Raises `InvalidInput`."""
    words = text.split()
    zone = _zone(words)
    if len(words) == 1 and words[0].lower() in _WORDS:
        words = _WORDS[words[0].lower()].split()
    weekdays = _weekdays(words.pop(0), text) if words and words[0][0].isalpha() else None
    time = words.pop() if words and ":" in words[-1] else "00:00:00"
    date = words.pop() if words else "*-*-*"
    if words:
        raise _refused(text)
    year, month, day = _date(date, text)
    second, minute, hour = _time(time, text)
    if weekdays is None or day == "*":
        days = "*" if weekdays is None else ",".join(map(str, weekdays))
        return Calendar(f"{second} {minute} {hour} {day} {month} {days} {year}", None, zone)
    others = ",".join(str(each) for each in range(7) if each not in weekdays)
    left_out = f"{second} {minute} {hour} * {month} {others} {year}" if others else None
    return Calendar(f"{second} {minute} {hour} {day} {month} * {year}", left_out, zone)


def _zone(words: list[str]) -> str | None:
    """The zone at the end, which is taken off. Raises `InvalidInput`."""
    if len(words) < 2 or not words[-1][0].isalpha():
        return None
    return check_zone(words.pop(), field="OnCalendar")


def _weekdays(text: str, whole: str) -> Sequence[int]:
    """The days of the week, 0 = Sunday."""
    found: set[int] = set()
    for term in filter(None, text.lower().split(",")):
        first, dots, last = term.partition("..")
        begin, end = _weekday(first, whole), _weekday(last if dots else first, whole)
        if end < begin:
            raise _refused(whole)
        found |= {each % 7 for each in range(begin, end + 1)}
    return sorted(found)


def _weekday(name: str, whole: str) -> int:
    for number, day in enumerate(_DAYS, 1):
        if name in (day, day[:3]):
            return number
    raise _refused(whole)


def _date(text: str, whole: str) -> tuple[str, str, str]:
    found = _DATE.match(text)
    if found is None:
        raise _refused(whole)
    year, month, sign, day = found.groups()
    if sign == "~":
        if not day.isascii() or not day.isdigit() or not 1 <= int(day) <= 28:
            raise _refused(whole)
        last = "L" if int(day) == 1 else f"L-{int(day) - 1}"
        return _terms(year or "*", whole), _terms(month, whole, 12), last
    return _terms(year or "*", whole), _terms(month, whole, 12), _terms(day, whole, 31)


def _time(text: str, whole: str) -> tuple[str, str, str]:
    parts = text.split(":")
    if len(parts) not in (2, 3):
        raise _refused(whole)
    hour, minute, second = (*parts, "0") if len(parts) == 2 else parts
    return _terms(second, whole, 59), _terms(minute, whole, 59), _terms(hour, whole, 23)


def _terms(text: str, whole: str, most: int = 9999) -> str:
    """A field: `..` is cron's `-`, and a number counts from there on where it has a step."""
    terms = []
    for term in text.split(","):
        found = _TERM.match(term)
        if found is None:
            raise _refused(whole)
        first, last, step = found.groups()
        if first == "*":
            if last or step:
                raise _refused(whole)
            terms.append(first)
            continue
        end = int(last) if last else most
        if int(first) > end or (step and not last and int(first) + int(step) > end):
            raise _refused(whole)
        terms.append(f"{int(first)}" + (f"-{end}" if last or step else "") + (f"/{int(step)}" if step else ""))
    return ",".join(terms)


def _refused(text: str) -> InvalidInput:
    message = f"OnCalendar: {text!r} is not allowed"
    return InvalidInput(message, field="OnCalendar", value=text, allowed=ALLOWED)
