"""Days on which nothing runs: dates, ranges of dates, dates of every year, and days of the week."""

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from datetime import date

from msgspec import Struct

from tokimori.errors import InvalidInput
from tokimori.schedules.days import FIRST_DAY, LAST_DAY, date_of, day_of, weekday_of

WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
MOST_IN_A_ROW = 366
"""The most days that a range may have, so that no moment is moved by much more than a year."""
MOST_YEARLY = 100
"""The most dates of every year, so that with days of the week off some business days are left of a year."""
MOST_RANGES = 1_000
"""The most dates and ranges together that don't touch each other: what is moved looks at one after the other."""
MOST_WITHOUT_BUSINESS = 3_660
"""The most days in a row without a business day: the times of all of them go to one day."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d\Z", re.ASCII)
_YEARLY = re.compile(r"(\d\d)-(\d\d)\Z", re.ASCII)
_ALLOWED = f"2026-12-25; 2026-12-24/2027-01-01, at most {MOST_IN_A_ROW} days; or 12-25 for every year"

Range = tuple[int, int]
"""The first and the last day, each its number counted from 1970-01-01."""


class DaysOff(Struct, frozen=True):
    """Days off. `ranges` are in order and share no day; `yearly` are (month, day); `weekdays` are bits, 0 = Sunday.

    At least one day of the week is not off.
    """

    ranges: tuple[Range, ...] = ()
    yearly: frozenset[tuple[int, int]] = frozenset()
    weekdays: int = 0

    def last_in_row(self, day: int) -> int | None:
        """Return the last day of a row of days off that begins with this day; None for a business day."""
        if self.weekdays >> weekday_of(day) & 1:
            return day
        if (found := self._range(day)) is not None:
            return found[1]
        return day if self._is_yearly(day) else None

    def first_in_row(self, day: int) -> int | None:
        """Return the first day of a row of days off that ends with this day; None for a business day."""
        if self.weekdays >> weekday_of(day) & 1:
            return day
        if (found := self._range(day)) is not None:
            return found[0]
        return day if self._is_yearly(day) else None

    def longest_row(self, years: Iterable[int] = ()) -> range:
        """Return the longest row of days off in which ranges take part, or dates of every year in one of the years."""
        leap = (2, 29)
        yearly = (day_of(year, *at) for year in years for at in self.yearly if at != leap or year % 4 == 0)
        longest, behind = range(0), FIRST_DAY
        for day in sorted({*(first for first, _ in self.ranges), *yearly}):
            first = stop = day
            while day >= behind and (before := self.first_in_row(first - 1)) is not None:
                first = before
            while day >= behind and (last := self.last_in_row(stop)) is not None:
                stop = last + 1
            longest, behind = max(longest, range(first, stop), key=len), max(behind, stop)
        return longest

    def _range(self, day: int) -> Range | None:
        at = bisect_right(self.ranges, (day, LAST_DAY))
        return self.ranges[at - 1] if at and day <= self.ranges[at - 1][1] else None

    def _is_yearly(self, day: int) -> bool:
        if not self.yearly or not FIRST_DAY <= day <= LAST_DAY:
            return False
        at = date_of(day)
        return (at.month, at.day) in self.yearly

    def next_off(self, day: int, through: int) -> int | None:
        """Return the first day off d with day <= d <= through."""
        if not (self.weekdays or self.yearly):
            at = bisect_right(self.ranges, (day, LAST_DAY))
            if at and day <= self.ranges[at - 1][1]:
                return day if day <= through else None
            return self.ranges[at][0] if at < len(self.ranges) and self.ranges[at][0] <= through else None
        return next((at for at in range(day, through + 1) if self.last_in_row(at) is not None), None)


def parse_days_off(dates: Iterable[str], weekdays: Iterable[str]) -> DaysOff:
    """Read days off as people type them. Raises `InvalidInput`: the field, the value and what is allowed."""
    ranges: list[Range] = []
    yearly: set[tuple[int, int]] = set()
    for text in dates:
        if found := _YEARLY.match(text):
            yearly.add(_yearly(text, int(found[1]), int(found[2])))
        else:
            ranges.append(_parse_range(text))
    _check_yearly(yearly)
    bits = 0
    for name in weekdays:
        bits |= 1 << _weekday(name)
    if bits == (1 << 7) - 1:
        raise InvalidInput(
            "weekdays: no business day is left", field="weekdays", allowed="at most six days of the week"
        )
    return _checked(DaysOff(_merged(ranges), frozenset(yearly), bits))


def united(several: Sequence[DaysOff]) -> DaysOff:
    """Return the days off of all of them together. Raises `InvalidInput` if no day of the week is left."""
    weekdays = 0
    for each in several:
        weekdays |= each.weekdays
    if weekdays == (1 << 7) - 1:
        message = "calendars: together they leave no business day"
        raise InvalidInput(message, field="calendars", allowed="at most six days of the week off")
    ranges = [found for each in several for found in each.ranges]
    yearly = frozenset[tuple[int, int]]().union(*(each.yearly for each in several))
    _check_yearly(yearly)
    return _checked(DaysOff(_merged(ranges), yearly, weekdays))


def _checked(days_off: DaysOff) -> DaysOff:
    """Return the days off, unless a search for a business day would take long."""
    if (number := len(days_off.ranges)) > MOST_RANGES:
        message = f"dates: {number} of them do not touch each other"
        raise InvalidInput(message, field="dates", allowed=f"at most {MOST_RANGES} dates and ranges of one job")
    if (days := len(days_off.longest_row())) > MOST_WITHOUT_BUSINESS:
        message = f"dates: {days} days in a row have no business day between them"
        raise InvalidInput(message, field="dates", allowed=f"at most {MOST_WITHOUT_BUSINESS} days in a row, ten years")
    return days_off


def _check_yearly(yearly: Collection[tuple[int, int]]) -> None:
    if len(yearly) > MOST_YEARLY:
        message = f"dates: {len(yearly)} of them are of every year"
        raise InvalidInput(message, field="dates", allowed=f"at most {MOST_YEARLY} without a year")


def dates_of(days_off: DaysOff) -> list[str]:
    """Return the dates as `parse_days_off` reads them."""
    yearly = [f"{month:02}-{day:02}" for month, day in sorted(days_off.yearly)]
    return [*yearly, *(_print_range(found) for found in days_off.ranges)]


def weekdays_of(days_off: DaysOff) -> list[str]:
    """Return the names of the days of the week, Monday first."""
    return [WEEKDAYS[n] for n in (1, 2, 3, 4, 5, 6, 0) if days_off.weekdays >> n & 1]


def _merged(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Return the ranges in order; those that touch are joined."""
    merged: list[Range] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)


def _parse_range(text: str) -> Range:
    first, slash, last = text.partition("/")
    start = _parse_date(text, first)
    end = _parse_date(text, last) if slash else start
    if not start <= end < start + MOST_IN_A_ROW:
        raise _invalid(text)
    return start, end


def _parse_date(text: str, part: str) -> int:
    if _DATE.match(part) is None:
        raise _invalid(text)
    try:
        at = date.fromisoformat(part)
    except ValueError:
        raise _invalid(text) from None
    return min(day_of(at.year, at.month, at.day), LAST_DAY)


def _yearly(text: str, month: int, day: int) -> tuple[int, int]:
    try:
        date(2028, month, day)  # a leap year
    except ValueError:
        raise _invalid(text) from None
    return month, day


def _weekday(name: str) -> int:
    short = name.strip().lower()
    if short not in WEEKDAYS:
        message = f"weekdays: {name!r} is not allowed"
        raise InvalidInput(message, field="weekdays", value=name, allowed=", ".join(WEEKDAYS))
    return WEEKDAYS.index(short)


def _print_range(found: Range) -> str:
    first, last = (date_of(day).isoformat() for day in found)
    return first if first == last else f"{first}/{last}"


def _invalid(text: str) -> InvalidInput:
    return InvalidInput(
        f"dates: {text!r} is not a date or a range of dates", field="dates", value=text, allowed=_ALLOWED
    )
