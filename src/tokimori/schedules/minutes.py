"""Times of a day as bits, one for each minute that clocks show: how what is made of several schedules is counted.

As long as an offset stays the same, everything is at a fixed distance on the clock. Each part of a minute on which a
moment lies, in microseconds, is a `fraction` with bits of its own.
"""

from collections.abc import Iterator, Sequence
from math import gcd, lcm
from typing import NamedTuple

from tokimori.clock import DAY, MINUTE, SECOND, Moment
from tokimori.errors import Bug
from tokimori.schedules.combined import Difference, Except, Union
from tokimori.schedules.days import FIRST_DAY, LAST_DAY, date_of
from tokimori.schedules.grid import FIRST_WALL, LAST_WALL, CalendarSteps, ExactSteps, Grid
from tokimori.schedules.schedule import OnDemand, Remembered, Schedule
from tokimori.schedules.wallclock import Clocks, WallClock
from tokimori.schedules.zoned import Zoned, ZonedSchedule
from tokimori.schedules.zones import fixed_offset, stretches_between

_A_DAY = DAY // MINUTE
_WHOLE = (1 << _A_DAY) - 1
_MOST_FRACTIONS = 60
"""Of intervals that drift through more parts of a minute nothing is known by formula."""

Times = dict[int, int]
"""Minutes of a day as bits, by the fraction."""


class Term(NamedTuple):
    """The moments of any of the parts that are not in `taken`. What is made of schedules is a union of terms."""

    parts: tuple[Zoned, ...]
    taken: tuple[Zoned, ...] = ()


def terms_of(schedule: Schedule) -> list[Term]:
    """Return the terms of which the schedule is the union."""
    match schedule:
        case Union():
            return [term for part in schedule._parts for term in terms_of(part)]
        case Except():
            return terms_of(schedule._kept)
        case Difference():
            taken = tuple(part for term in terms_of(schedule.excluded) for part in term.parts)
            return [Term(term.parts, taken) for term in terms_of(schedule.base)]
        case OnDemand():
            return []
        case ZonedSchedule():
            return [Term((schedule.moments,))]
        case Zoned():
            return [Term((schedule,))]
        case _:
            raise Bug(f"a {type(schedule).__name__} is counted by nobody else")


def is_countable(terms: Sequence[Term], zone: str) -> bool:
    """Return whether all moments lie on few parts of a minute, and clocks are those of the zone."""
    return all(_is_coarse(part, zone) for term in terms for part in (*term.parts, *term.taken))


def _is_coarse(zoned: Zoned, zone: str) -> bool:
    match zoned.times:
        case Grid(steps=ExactSteps(period=period)) as grid:
            return MINUTE // gcd(period, MINUTE) <= _MOST_FRACTIONS or grid.first == grid.last is not None
        case Grid():
            return True
        case _:
            return zoned.zone == zone


class PlainDay(NamedTuple):
    """A day of which clocks show nothing twice, and skip nothing, or a part of it.

    That is from `first` to before `stop`, in microseconds since midnight, on clocks with the offset.
    """

    day: int
    first: int
    stop: int
    offset: int

    def moment(self, time: int) -> Moment:
        """Return the moment at which clocks show that time of the day."""
        return Moment(self.day * DAY + time - self.offset)

    def count(self, times: Times) -> int:
        """Count the times of the day that lie in its part."""
        if self.first == 0 and self.stop == DAY:
            return sum(bits.bit_count() for bits in times.values())
        return sum(within(bits, at, self.first, self.stop).bit_count() for at, bits in times.items())


def plain_days(zone: str, after: int, through: int) -> Iterator[PlainDay]:
    """Yield the days within after < t <= through, as far as they are not near a change of the clocks, in order."""
    for start, end, offset, before in stretches_between(zone, after + 1, through + 1):
        low, high = max(after + 1, start + abs(before - offset) + 1) + offset, min(through + 1, end) + offset
        while low < high:
            day, first = divmod(low, DAY)
            yield PlainDay(day, first, min(high - day * DAY, DAY), offset)
            low = (day + 1) * DAY


class Minutes:
    """The times of the terms on days of which clocks of the zone show nothing twice, and skip nothing."""

    def __init__(self, terms: Sequence[Term], zone: str) -> None:
        self._terms, self._zone = terms, zone
        self._offset: int | None = None
        self._parts: dict[Zoned, _Part] = {}

    def of(self, day: int, offset: int) -> Times:
        """Return the times of the day, on clocks with the offset."""
        if offset != self._offset:
            self._offset, self._parts = offset, {}
        found: Times = {}
        for term in self._terms:
            shown = self._any(term.parts, day)
            taken = self._any(term.taken, day) if term.taken and shown else {}
            for fraction, bits in shown.items():
                found[fraction] = found.get(fraction, 0) | bits & ~taken.get(fraction, 0)
        return found

    def _any(self, parts: Sequence[Zoned], day: int) -> Times:
        found: Times = {}
        for part in parts:
            if part not in self._parts:
                self._parts[part] = _part_of(part, self._zone, self._offset or 0)
            add(found, self._parts[part].of(day))
        return found


def add(times: Times, more: Times) -> None:
    """Add the times of another day, or of another part."""
    for fraction, bits in more.items():
        times[fraction] = times.get(fraction, 0) | bits


def within(bits: int, fraction: int, first: int, stop: int) -> int:
    """Return the minutes whose fraction lies at first <= t < stop, in microseconds of the day."""
    below, above = max(-((fraction - first) // MINUTE), 0), max(-((fraction - stop) // MINUTE), 0)
    return bits >> below << below & (1 << above) - 1


class _Clocks:
    """Times of clocks; what days have in common is computed once."""

    def __init__(self, clocks: Sequence[WallClock]) -> None:
        self._clocks = clocks
        self._month: tuple[int, int] | None = None
        self._first, self._days = 0, list[int]()
        self._known: dict[int, Times] = {0: {}}

    def of(self, day: int) -> Times:
        """Return the times of the day."""
        if not FIRST_DAY <= day <= LAST_DAY:
            return {}
        at = date_of(day)
        if self._month != (at.year, at.month):
            self._month, self._first = (at.year, at.month), day - at.day + 1
            self._days = [clock.days.of_month(at.year, at.month) for clock in self._clocks]
        kind = sum(1 << n for n, days in enumerate(self._days) if days >> day - self._first & 1)
        if kind not in self._known:
            self._known[kind] = self._times([clock for n, clock in enumerate(self._clocks) if kind >> n & 1])
        return self._known[kind]

    @staticmethod
    def _times(clocks: Sequence[WallClock]) -> Times:
        seconds: dict[int, int] = {}
        for clock in clocks:
            seconds[clock.seconds] = seconds.get(clock.seconds, 0) | clock.minutes
        found: Times = {}
        for on, minutes in seconds.items():
            for second in range(60):
                if on >> second & 1:
                    found[second * SECOND] = found.get(second * SECOND, 0) | minutes
        return found


class _Steps:
    """Times at one distance on the clock, `low <= t <= high`."""

    def __init__(self, anchor: int, period: int, low: int, high: int) -> None:
        self._low, self._high = low, high
        self._period = lcm(period, MINUTE) // MINUTE
        step = gcd(period, MINUTE)
        self._rows = [_first_on(fraction, anchor, period) for fraction in range(anchor % step, MINUTE, step)]
        self._pattern = sum(1 << n for n in range(0, _A_DAY, self._period))

    def of(self, day: int) -> Times:
        """Return the times of the day."""
        midnight = day * DAY
        if midnight > self._high or midnight + DAY <= self._low:
            return {}
        shifts = ((at % MINUTE, (at // MINUTE - day * _A_DAY) % self._period) for at in self._rows)
        found = {fraction: self._pattern << by & _WHOLE for fraction, by in shifts if by < _A_DAY}
        if self._low <= midnight and midnight + DAY <= self._high:
            return found
        first, stop = max(self._low - midnight, 0), min(self._high + 1 - midnight, DAY)
        return {fraction: within(bits, fraction, first, stop) for fraction, bits in found.items()}


def _first_on(fraction: int, anchor: int, period: int) -> int:
    """Return a time of the steps that lies on the fraction."""
    shared = gcd(period, MINUTE)
    steps = (fraction - anchor) // shared * pow(period // shared, -1, MINUTE // shared) if shared < MINUTE else 0
    return anchor + steps % (MINUTE // shared) * period


class _Few:
    """Moments that are looked for one by one."""

    def __init__(self, zoned: Zoned, offset: int) -> None:
        self._zoned, self._offset = Remembered(zoned), offset

    def of(self, day: int) -> Times:
        """Return the times of the day."""
        midnight = day * DAY
        found: Times = {}
        at = self._zoned.next_after(Moment(midnight - self._offset - 1))
        while at is not None and at + self._offset < midnight + DAY:
            minute, fraction = divmod(at + self._offset - midnight, MINUTE)
            found[fraction] = found.get(fraction, 0) | 1 << minute
            at = self._zoned.next_after(at)
        return found


_Part = _Clocks | _Steps | _Few


def _part_of(zoned: Zoned, zone: str, offset: int) -> _Part:
    own = offset if zoned.zone == zone else fixed_offset(zoned.zone)
    match zoned.times:
        case WallClock() as clock:
            return _Clocks([clock])
        case Clocks(clocks):
            return _Clocks(clocks)
        case Grid(first=first, last=last) if first == last is not None:
            return _Few(zoned, offset)
        case Grid(steps=ExactSteps(anchor, period)) as grid if zoned.zone == "UTC":
            return _row(grid, anchor, period, offset)
        case Grid(steps=CalendarSteps(anchor=anchor, months=0, days=days)) as grid if own is not None:
            return _row(grid, anchor, days * DAY, offset - own)
        case _:
            return _Few(zoned, offset)


def _row(grid: Grid, anchor: int, period: int, by: int) -> _Steps:
    """Return the times of the grid, moved by this length."""
    low = FIRST_WALL if grid.first is None else max(anchor + grid.first * period, FIRST_WALL)
    high = LAST_WALL if grid.last is None else min(anchor + grid.last * period, LAST_WALL)
    return _Steps(anchor + by, period, low + by, high + by)
