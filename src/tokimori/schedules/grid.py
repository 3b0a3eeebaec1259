"""Times at a fixed distance: the nth is computed from the anchor, never from the one before."""

from typing import Protocol

from msgspec import Struct

from tokimori.clock import DAY, Moment
from tokimori.errors import Bug
from tokimori.schedules.days import FIRST_DAY, LAST_DAY, date_of, day_of, month_length
from tokimori.schedules.zoned import Zoned
from tokimori.schedules.zones import FOREVER, OVERLAP, stretch_at

FIRST_WALL, LAST_WALL = FIRST_DAY * DAY, (LAST_DAY + 1) * DAY - 1
FIRST_MOMENT, LAST_MOMENT = FIRST_WALL - 2 * DAY, LAST_WALL + 2 * DAY
"""Before and after all moments of all zones."""
_MEAN_MONTH = 146_097 * DAY // 4_800  # 400 years are 146,097 days


class Steps(Protocol):
    """An endless, strictly increasing sequence of times, in microseconds; index 0 is the anchor."""

    def nth(self, n: int) -> int:
        """Return the time with the index n, which may be negative; ±FOREVER beyond the calendar."""
        ...

    def index(self, at: int) -> int:
        """Return the smallest n whose time is at or after the given one."""
        ...


class Grid(Struct, frozen=True):
    """The times of `steps` with first <= n <= last, where None means no bound (a `WallTimes`)."""

    steps: Steps
    first: int | None
    last: int | None

    def at_or_after(self, wall: int) -> int | None:
        """Return the first time at or after the given one."""
        if wall > LAST_WALL:
            return None
        n = self.steps.index(max(wall, FIRST_WALL))
        if self.first is not None and n < self.first:
            n = self.first
        if self.last is not None and n > self.last:
            return None
        found = self.steps.nth(n)
        return found if found <= LAST_WALL else None

    def at_or_before(self, wall: int) -> int | None:
        """Return the last time at or before the given one."""
        if wall < FIRST_WALL:
            return None
        n = self.steps.index(min(wall, LAST_WALL) + 1) - 1
        if self.last is not None and n > self.last:
            n = self.last
        if self.first is not None and n < self.first:
            return None
        found = self.steps.nth(n)
        return found if found >= FIRST_WALL else None

    def has(self, wall: int) -> bool:
        """Return whether the time is one of them."""
        return self.at_or_after(wall) == wall

    def count(self, low: int, high: int) -> int:
        """Count the times t with low <= t < high."""
        low, high = max(low, FIRST_WALL), min(high, LAST_WALL + 1)
        if low >= high:
            return 0
        start, stop = self.steps.index(low), self.steps.index(high)
        if self.first is not None:
            start = max(start, self.first)
        if self.last is not None:
            stop = min(stop, self.last + 1)
        return max(stop - start, 0)


class ExactSteps(Struct, frozen=True):
    """anchor + n × period."""

    anchor: int
    period: int

    def nth(self, n: int) -> int:
        """Return the time with the index n."""
        return self.anchor + n * self.period

    def index(self, at: int) -> int:
        """Return the smallest n whose time is at or after the given one."""
        return -((self.anchor - at) // self.period)


class CalendarSteps(Struct, frozen=True):
    """The anchor's wall-clock time plus n × months, then plus n × days; 31 January plus one month is 28 February."""

    anchor: int
    months: int
    days: int

    def nth(self, n: int) -> int:
        """Return the wall-clock time with the index n."""
        day, time = divmod(self.anchor, DAY)
        if self.months:
            moved = self._plus_months(day, n * self.months)
            if moved is None:
                return FOREVER if n > 0 else -FOREVER
            day = moved
        return (day + n * self.days) * DAY + time

    def index(self, at: int) -> int:
        """Return the smallest n whose time is at or after the given one: a good guess, corrected in a few steps."""
        n = (at - self.anchor) // (self.months * _MEAN_MONTH + self.days * DAY)
        while self.nth(n) >= at:
            n -= 1
        while self.nth(n) < at:
            n += 1
        return n

    def _plus_months(self, day: int, months: int) -> int | None:
        start = date_of(day)
        year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
        if not 1 <= year < 9999:
            return None
        return day_of(year, month + 1, min(start.day, month_length(year, month + 1)))


class MixedSteps(Struct, frozen=True):
    """A period with calendar and exact parts: n × the calendar part on the zone's wall clock, then n × the exact part.

    If clocks skip the time that the calendar part gives, the end of the gap counts; if they show it twice, the first.
    """

    calendar: CalendarSteps
    exact: int
    zone: str

    def nth(self, n: int) -> int:
        """Return the moment with the index n."""
        wall = self.calendar.nth(n)
        if not FIRST_WALL + 2 * DAY < wall < LAST_WALL - 2 * DAY:
            return FOREVER if n > 0 else -FOREVER
        return moment_of(wall, self.zone) + n * self.exact

    def index(self, at: int) -> int:
        """Return the smallest n whose moment is at or after the given one."""
        calendar = self.calendar
        n = (at - calendar.anchor) // (calendar.months * _MEAN_MONTH + calendar.days * DAY + self.exact)
        while self.nth(n) >= at:
            n -= 1
        while self.nth(n) < at:
            n += 1
        return n


def single(wall: int) -> Grid:
    """Return a set of one time."""
    return Grid(ExactSteps(wall, 1), 0, 0)


def moment_of(wall: int, zone: str) -> int:
    """Return the first moment at which the clock of the zone shows the time; the end of the gap that swallows it."""
    start, end, offset, _ = stretch_at(zone, wall)
    if start + OVERLAP < wall and wall + OVERLAP < end:
        return wall - offset
    found = Zoned(single(wall), zone, shift=True, once=True).next_after(Moment(wall - 2 * DAY))
    if found is None:
        raise Bug(f"no moment has the wall-clock time {wall} in {zone}")
    return found
