"""Proof that intervals, and clocks, exclude all moments of a schedule while they last.

Asked of each moment by itself, a row of a thousand years would be walked. But what k intervals exclude of one interval
is all of it if it is 2**k moments in a row (R. B. Crittenden and C. L. Vanden Eynden, 1970). Each second of the week is
such an interval as long as the clocks don't jump, so that 2**k weeks say what holds for ever.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import count
from math import gcd, lcm
from operator import or_

from msgspec import Struct

from tokimori.clock import DAY, MINUTE, Moment
from tokimori.schedules.days import days_of_week, weekdays_in
from tokimori.schedules.grid import FIRST_MOMENT, LAST_MOMENT, CalendarSteps, ExactSteps, Grid
from tokimori.schedules.second_masks import Term, clocks_of
from tokimori.schedules.terms import Terms
from tokimori.schedules.wall_sets import Pieces
from tokimori.schedules.wallclock import WallClock
from tokimori.schedules.zoned import Zoned, overtaken
from tokimori.schedules.zones import Stretch, fixed_offset, rule_from, stretch_at, stretches_between

_WEEK = 7 * DAY
_TWO_YEARS = 2 * 366 * DAY
_MOST_STRETCHES = 100
"""So many stretches of a zone are looked at for one answer."""
_MOST_DAYS = 1_000
"""So many days are looked at for one proof, each some 10 µs; nothing is told where more would be needed."""


class Row(Struct, frozen=True):
    """`moments` at one exact distance, as long as clocks don't jump, with low <= t <= high.

    `anchor` is in UTC, or a time on the wall clock if the row is `local`; it may miss what clocks show twice (`once`).
    """

    moments: Zoned
    anchor: int
    period: int
    low: int
    high: int
    local: bool
    once: bool

    def on_clock(self, offset: int) -> Zoned:
        """Return its times, without an end, on a clock with that offset."""
        steps = ExactSteps(self.anchor if self.local else self.anchor + offset, self.period)
        return Zoned(Grid(steps, None, None), "UTC", shift=False, once=False)


_Case = tuple[tuple[Row, ...], int, int | None]
"""The rows that go on, the offset of the clocks, and the time of the day to which they jump there."""


@dataclass(frozen=True, slots=True)
class Covering:
    """Exclusions of one part of a schedule, as far as they can be proved; `base` is the part.

    `own` is the part as an interval, None where it is made of clocks of the zone. `clocks` are left out all the time,
    `rows` while they last.
    """

    base: Zoned
    zone: str
    own: Row | None
    clocks: tuple[WallClock, ...]
    rows: tuple[Row, ...]
    _proved: dict[_Case, bool] = field(default_factory=dict, repr=False, compare=False)

    def last(self, moment: Moment) -> Moment:
        """Return a moment up to which all of the part is excluded from the given one on: itself, where that is all."""
        rows, _, high = self._active(moment)
        same = max(moment, rule_from(self.zone)) + _TWO_YEARS
        for number, stretch in enumerate(stretches_between(self.zone, moment, high + 1)):
            if number > _MOST_STRETCHES:
                return Moment(stretch.start - 1)
            if not self._always(stretch, rows):
                if not self._within(stretch, rows, moment):
                    return Moment(max(moment, stretch.start - 1))
                same = max(same, stretch.start + _TWO_YEARS)
            if stretch.start > same:
                break
        return Moment(high)

    def first(self, moment: Moment) -> Moment:
        """Return a moment from which on all of the part is excluded up to the given one: itself, where that is all."""
        rows, low, _ = self._active(moment)
        at, rule = moment, rule_from(self.zone) + _TWO_YEARS
        same = moment - _TWO_YEARS
        for number in count():
            stretch = stretch_at(self.zone, at)
            if number > _MOST_STRETCHES:
                break
            if not self._always(stretch, rows):
                if not self._within(stretch, rows, low):
                    return Moment(min(moment, stretch.end))
                same = min(same, stretch.start - _TWO_YEARS)
            if stretch.start <= low:
                return Moment(low)
            at = Moment(stretch.start - 1 if stretch.start > same else max(low, min(rule, stretch.start - 1)))
        return Moment(min(moment, stretch.end))

    def _active(self, moment: Moment) -> tuple[tuple[Row, ...], int, int]:
        """Return the rows that hold the moment, and for how long all of them last."""
        rows = tuple(row for row in self.rows if row.low <= moment <= row.high)
        low = max((row.low for row in rows), default=FIRST_MOMENT)
        return rows, low, min((row.high for row in rows), default=LAST_MOMENT)

    def _always(self, stretch: Stretch, rows: tuple[Row, ...]) -> bool:
        """Return whether all of the part is excluded in any stretch of this kind, the end of a gap at its start
        included.
        """
        if not self._may_shift(stretch):
            return self._prove(rows, stretch.offset, None)
        if self.base.later:  # all other parts in the zone are, too: they go by the clock that did not jump for a while
            return self._prove(rows, stretch.offset, None) and self._prove(rows, stretch.before, None)
        moved_too = tuple(row for row in rows if row.local and row.moments.shift)
        end = (stretch.start + stretch.offset) % DAY
        return self._prove(rows, stretch.offset, end) or self._prove(moved_too, stretch.offset, None)

    def _may_shift(self, stretch: Stretch) -> bool:
        """Return whether the part has times among those that clocks skip there, on some days."""
        moves = self.base.shift or self.base.later
        if not moves or self.base.zone != self.zone or stretch.before >= stretch.offset:
            return False
        first, length = (stretch.start + stretch.before) % DAY, stretch.offset - stretch.before
        if self.own is not None and self.own.period % DAY == 0:
            return (self.own.anchor - first) % DAY < length
        minutes = reduce(or_, (clock.minutes for clock in clocks_of(self.base)), 0)
        return not minutes or bool(
            (minutes << DAY // MINUTE | minutes) >> first // MINUTE & (2 << length // MINUTE) - 1
        )

    def _within(self, stretch: Stretch, rows: tuple[Row, ...], since: int) -> bool:
        """Return whether all of the part is excluded in the stretch; its start does not matter if it is not after
        `since`.
        """
        if stretch.start > since and self.base.shifts(stretch):
            at = Moment(stretch.start - 1)
            if not any(row.moments.next_after(at) == stretch.start for row in rows):
                return False
        if self.base.later and overtaken(stretch) > since and self.base.skips(stretch):
            return False
        return self._prove(rows, stretch.offset, None)

    def _prove(self, rows: tuple[Row, ...], offset: int, gap: int | None) -> bool:
        known = self._proved.get((rows, offset, gap))
        if known is None:
            known = self._proved[rows, offset, gap] = _covers(self, rows, offset, gap)
        return known


def covering(base: Zoned, excluded: Sequence[Zoned], zone: str) -> Covering | None:
    """Return what is known of a part without these; None if nothing can be."""
    own = None
    if isinstance(base.times, Grid):
        own = row_of(base, zone)
        if own is None:
            return None
    rows = [row for each in excluded if (row := row_of(each, zone)) is not None and (base.once or not row.once)]
    clocks = (clock for each in excluded if each.zone == zone and not each.once for clock in clocks_of(each))
    weekly = tuple(clock for clock in clocks if clock.days.weekdays) if own else ()
    return Covering(base, zone, own, weekly, tuple(rows)) if rows or weekly else None


def row_of(zoned: Zoned, zone: str) -> Row | None:
    """Return the moments as a row; None for those of months, or of days in another zone whose clocks jump."""
    grid = zoned.times
    if not isinstance(grid, Grid):
        return None
    low, high = zoned.next_after(Moment(FIRST_MOMENT)), zoned.last_before(Moment(LAST_MOMENT))
    if low is None or high is None or low == high:
        return None
    match grid.steps:
        case ExactSteps(anchor, period) if zoned.zone == "UTC":
            return Row(zoned, anchor, period, low, high, local=False, once=False)
        case CalendarSteps(anchor=anchor, months=0, days=days) if (offset := fixed_offset(zoned.zone)) is not None:
            return Row(zoned, anchor - offset, days * DAY, low, high, local=False, once=False)
        case CalendarSteps(anchor=anchor, months=0, days=days) if zoned.zone == zone:
            return Row(zoned, anchor, days * DAY, low, high, local=True, once=zoned.once)
        case _:
            return None


def _covers(known: Covering, rows: tuple[Row, ...], offset: int, gap: int | None) -> bool:
    """Return whether clocks and endless rows exclude all of the part, and all ends of gaps at such a time of the day,
    as long as the clocks of its zone have the offset.
    """
    if known.own is None:
        cycle, part = _WEEK, _on_clock(tuple(map(_every_week, clocks_of(known.base))))
    else:
        part = known.own.on_clock(offset)
        cycle = lcm(known.own.period, _WEEK) if known.clocks or gap is not None else known.own.period
    cycles = 1
    for row in rows:
        cycles = lcm(cycles, row.period // gcd(row.period, cycle))
    span = cycle * min(cycles, 1 << len(rows))
    if span > _MOST_DAYS * DAY:
        return False
    without = (*(row.on_clock(offset) for row in rows), *([_on_clock(known.clocks)] if known.clocks else []))
    parts = [part] if gap is None else [part, _every_day(gap)]
    return Terms([Term(each, without) for each in parts]).end(Moment(0), Moment(span), last=False) is None


def _on_clock(clocks: tuple[WallClock, ...]) -> Zoned:
    return Zoned(Pieces(clocks), "UTC", shift=False, once=False)


def _every_day(time: int) -> Zoned:
    return Zoned(Grid(ExactSteps(time, DAY), None, None), "UTC", shift=False, once=False)


def _every_week(clock: WallClock) -> WallClock:
    """Return the same times on all days of the week on which it has any."""
    days = clock.days if clock.days.weekdays else days_of_week(weekdays_in(clock.days))
    return WallClock(days, clock.minutes, clock.seconds)
