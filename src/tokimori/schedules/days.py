"""Sets of calendar days, searched month by month with bit sets."""

from collections.abc import Hashable, Iterator
from datetime import date
from functools import lru_cache
from operator import and_, xor
from typing import NamedTuple, Protocol

from msgspec import Struct

_EPOCH = date(1970, 1, 1).toordinal()
FIRST_DAY = date(1, 1, 1).toordinal() - _EPOCH
_LAST_YEAR_OF_ALL = 9998
LAST_DAY = date(_LAST_YEAR_OF_ALL, 12, 31).toordinal() - _EPOCH
FIRST_YEAR, LAST_YEAR = 1970, 2199
"""The years that a notation may name, as in Quartz. Without a year, schedules go on to the year 9998."""

_CYCLE = 400  # years, after which the Gregorian calendar repeats itself exactly
_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

ALL_MONTHS = 0b1_1111_1111_1110
ALL_WEEKDAYS = 0b111_1111
WEEKS = sum(1 << 7 * week for week in range(6))
"""Repeats the bits of a week: `weekdays * WEEKS >> first << 1` are the days of a month whose 1st has that weekday."""
_KINDS = tuple((length, first) for length in (28, 29, 30, 31) for first in range(7))
_MONTHS_OF = {
    28: 1 << 2,
    29: 1 << 2,
    30: sum(1 << month for month, length in enumerate(_LENGTHS) if length == 30),
    31: sum(1 << month for month, length in enumerate(_LENGTHS) if length == 31),
}
"""The months that may have that many days."""


def lowest(bits: int) -> int:
    """Return the number of the lowest bit that is set; `bits` is not 0."""
    return 0 if bits & 1 else (bits & -bits).bit_length() - 1


def month_length(year: int, month: int) -> int:
    """Return the number of days of the month: 28 to 31."""
    if month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0):
        return 29
    return _LENGTHS[month]


def day_of(year: int, month: int, day: int) -> int:
    """Return the number of the day, counted from 1970-01-01."""
    return date(year, month, day).toordinal() - _EPOCH


def date_of(day: int) -> date:
    """Return the date of a day's number."""
    return date.fromordinal(day + _EPOCH)


def weekday_of(day: int) -> int:
    """Return the day of the week: 0 = Sunday … 6 = Saturday."""
    return (day + 4) % 7


class MonthDays(Hashable, Protocol):
    """A rule that says which days of a month are in a set, by the month's kind: its length and its first weekday.

    There are only 28 kinds.
    """

    def mask(self, length: int, first: int) -> int:
        """Return the days of a month of that length whose 1st has that weekday (0 = Sunday); bit 1 is the 1st."""
        ...


class Table(NamedTuple):
    """The mask of each of the 28 kinds of months."""

    masks: tuple[int, ...]

    def mask(self, length: int, first: int) -> int:
        """Return the days of a month of that length whose 1st has that weekday."""
        return self.masks[(length - 28) * 7 + first]


EVERY_DAY = Table(tuple((2 << length) - 2 for length, _ in _KINDS))


class Days(Struct, frozen=True):
    """A set of days, each its number counted from 1970-01-01.

    `months` has bits 1 … 12. `years` has bit 0 = 1970; -1 is all years, for a negative number also holds the years
    before 1970 and after its highest digit. `weekdays` (bit 0 = Sunday) is set if only the day of the week counts,
    so that searches can take a short cut.
    """

    in_month: MonthDays
    months: int
    years: int
    weekdays: int

    def at_or_after(self, day: int) -> int | None:
        """Return the first day at or after the given one."""
        if self.weekdays >> weekday_of(day) & 1 and FIRST_DAY <= day <= LAST_DAY:
            return day
        day = max(day, FIRST_DAY)
        if day > LAST_DAY:
            return None
        if self.weekdays:
            found = day + lowest(_two_weeks(self.weekdays) >> weekday_of(day))
            return found if found <= LAST_DAY else None
        at = date.fromordinal(day + _EPOCH)
        if self.months >> at.month & 1 and self._has_year(at.year):
            first, mask = self._month(at.year, at.month)
            if rest := mask >> at.day:
                return day + lowest(rest)
        for year, month in self._months_from(at.year, at.month + 1, at.year + _CYCLE):
            first, mask = self._month(year, month)
            if mask:
                return first + lowest(mask) - 1
        return None

    def at_or_before(self, day: int) -> int | None:
        """Return the last day at or before the given one."""
        day = min(day, LAST_DAY)
        if day < FIRST_DAY:
            return None
        if self.weekdays:
            past = _two_weeks(self.weekdays) & ((1 << weekday_of(day) + 8) - 1)
            found = day - (weekday_of(day) + 8 - past.bit_length())
            return found if found >= FIRST_DAY else None
        at = date.fromordinal(day + _EPOCH)
        for year, month in self._months_back(at.year, at.month):
            first, mask = self._month(year, month)
            if rest := mask & ((2 << min(day - first + 1, 31)) - 1):
                return first + rest.bit_length() - 2
        return None

    def count(self, low: int, high: int) -> int:
        """Count the days d with low <= d < high."""
        low, high = max(low, FIRST_DAY), min(high, LAST_DAY + 1)
        if low >= high:
            return 0
        if self.weekdays:
            weeks, rest = divmod(high - low, 7)
            turned = _two_weeks(self.weekdays) >> weekday_of(low) & ((1 << rest) - 1)
            return weeks * self.weekdays.bit_count() + turned.bit_count()
        start, last = date.fromordinal(low + _EPOCH), date.fromordinal(high - 1 + _EPOCH)
        total = 0
        for year, month in self._months_from(start.year, start.month, last.year):
            first, mask = self._month(year, month)
            before, until = max(low - first + 1, 0), max(min(high - first + 1, 32), 0)
            total += (mask & ((1 << until) - 1) >> before << before).bit_count()
        return total

    def has(self, day: int) -> bool:
        """Return whether the day is in the set."""
        if not FIRST_DAY <= day <= LAST_DAY:
            return False
        if self.weekdays:
            return self.weekdays >> weekday_of(day) & 1 == 1
        at = date.fromordinal(day + _EPOCH)
        return self.of_month(at.year, at.month) >> at.day - 1 & 1 == 1

    def of_month(self, year: int, month: int) -> int:
        """Return the days of a month as bits; bit 0 is the 1st."""
        if not 1 <= year <= _LAST_YEAR_OF_ALL or not self.months >> month & 1 or not self._has_year(year):
            return 0
        return self._month(year, month)[1] >> 1

    def _month(self, year: int, month: int) -> tuple[int, int]:
        """Return the number of the month's first day, and its days as bits."""
        first = date(year, month, 1).toordinal() - _EPOCH
        return first, self.in_month.mask(month_length(year, month), (first + 4) % 7)

    def _months_from(self, year: int, month: int, last_year: int) -> Iterator[tuple[int, int]]:
        """Yield the months of the set from the given one to the end of the last year."""
        if self.years >= 0 and year < FIRST_YEAR:
            year, month, last_year = FIRST_YEAR, 1, max(last_year, LAST_YEAR)
        months = self.months >> month << month
        while year <= min(last_year, _LAST_YEAR_OF_ALL):
            while months and self._has_year(year):
                yield year, lowest(months)
                months &= months - 1
            months = self.months
            later = -1 if year + 1 < FIRST_YEAR else self.years >> year + 1 - FIRST_YEAR
            if not later:
                return
            year += 1 + lowest(later)

    def _months_back(self, year: int, month: int) -> Iterator[tuple[int, int]]:
        """Yield the months of the set from the given one back, through one cycle of the calendar."""
        if self.years >= 0 and year > LAST_YEAR:
            year, month = LAST_YEAR, 12
        months, last = self.months & (2 << month) - 1, max(year - _CYCLE, 1)
        while year >= last:
            while months and self._has_year(year):
                highest = months.bit_length() - 1
                yield year, highest
                months ^= 1 << highest
            months = self.months
            earlier = self.years & (1 << max(year - FIRST_YEAR, 0)) - 1
            if self.years >= 0 and not earlier:
                return
            year = FIRST_YEAR - 1 + earlier.bit_length() if earlier else min(year, FIRST_YEAR) - 1

    def is_empty(self) -> bool:
        """Return whether no day is in the set. The 28 kinds of months decide it: all of them occur within 400 years."""
        if self.weekdays:
            return False
        masks = _masks(self.in_month)
        for length, months in _MONTHS_OF.items():
            if self.months & months and any(masks[(length - 28) * 7 : (length - 27) * 7]):
                return self.years >= 0 and self.at_or_after(day_of(FIRST_YEAR, 1, 1)) is None
        return True

    def _has_year(self, year: int) -> bool:
        return self.years < 0 if year < FIRST_YEAR else self.years >> (year - FIRST_YEAR) & 1 == 1


def _two_weeks(weekdays: int) -> int:
    return weekdays | weekdays << 7


def _masks(in_month: MonthDays) -> tuple[int, ...]:
    return in_month.masks if isinstance(in_month, Table) else _masks_of_rule(in_month)


@lru_cache(maxsize=1024)
def _masks_of_rule(in_month: MonthDays) -> tuple[int, ...]:
    return tuple([in_month.mask(length, first) for length, first in _KINDS])


def share_a_month(days: Days, others: Days) -> bool:
    """Return whether both sets name a month of the same year: else they have no day in common."""
    return days.months & others.months != 0 and days.years & others.years != 0


def in_both(days: Days, others: Days) -> Days:
    """Return the days of both sets."""
    masks = tuple(map(and_, _masks(days.in_month), _masks(others.in_month)))
    return Days(Table(masks), days.months & others.months, days.years & others.years, days.weekdays & others.weekdays)


def in_first_only(days: Days, others: Days) -> list[Days]:
    """Return the days of the first set that are not in the second, as sets without a day in common."""
    own = _masks(days.in_month)
    masks = tuple(map(xor, own, map(and_, own, _masks(others.in_month))))
    months, years = days.months & others.months, days.years & others.years
    return [
        Days(days.in_month, days.months & ~others.months, days.years, 0),
        Days(days.in_month, months, days.years & ~others.years, 0),
        Days(Table(masks), months, years, 0),
    ]
