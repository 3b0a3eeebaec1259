"""The moments of a schedule that are not on days off."""

from collections.abc import Callable, Iterator, Sequence
from datetime import date
from functools import cache, partial, reduce
from operator import or_

from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import DAY, MINUTE, Moment
from tokimori.schedules.bounded import Bounded
from tokimori.schedules.combined import Difference, Except, Union, terms_of
from tokimori.schedules.covering import row_of
from tokimori.schedules.days import (
    FIRST_DAY,
    LAST_DAY,
    LAST_YEAR,
    date_of,
    day_of,
    days_of_week,
    has_other_dates,
    month_length,
)
from tokimori.schedules.days_off import DaysOff
from tokimori.schedules.grid import FIRST_MOMENT, LAST_MOMENT, CalendarSteps, Grid, MixedSteps, MonthEnd, moment_of
from tokimori.schedules.schedule import Schedule
from tokimori.schedules.second_masks import Term, clocks_of, count_drifting
from tokimori.schedules.wall_sets import EVERY_SECOND, Overlapping, Pieces, minus
from tokimori.schedules.wallclock import WallClock
from tokimori.schedules.zoned import Zoned, ZonedSchedule, overtaken
from tokimori.schedules.zones import OVERLAP, Stretch, fixed_offset, rule_from, stretch_at, stretches_between

_WEEK = 7 * DAY
_TWO_YEARS = 2 * 366 * DAY
_ALL_KINDS = 41 * 366 * DAY
"""In so many years all kinds of years come, by length and first day of the week."""
BEYOND = 7
"""So many days behind the calendar's end, and before its start, what is moved may go: a week has a business day."""


class LocalDays(Struct, frozen=True):
    """Business days of a zone. A day that the zone's clocks skip as a whole (Apia's 2011-12-30) is not one."""

    days_off: DaysOff
    zone: str

    def is_off(self, day: int) -> bool:
        """Return whether the day is not a business day."""
        return self.days_off.last_in_row(day) is not None or self._is_skipped(day)

    def next_business(self, day: int) -> int:
        """Return the first business day at or after the day."""
        while day <= LAST_DAY + BEYOND:
            if (last := self.days_off.last_in_row(day)) is not None:
                day = last + 1
            elif self._is_skipped(day):
                day += 1
            else:
                break
        return day

    def previous_business(self, day: int) -> int:
        """Return the last business day at or before the day."""
        while day >= FIRST_DAY - BEYOND:
            if (first := self.days_off.first_in_row(day)) is not None:
                day = first - 1
            elif self._is_skipped(day):
                day -= 1
            else:
                break
        return day

    def _is_skipped(self, day: int) -> bool:
        _, _, offset, before = stretch = stretch_at(self.zone, (day + 1) * DAY)  # within `OVERLAP` after any such skip
        start = stretch.start
        return offset - before >= DAY and start + before <= day * DAY and (day + 1) * DAY <= start + offset

    def day_of(self, moment: int) -> int:
        """Return the date that the zone's clocks show, as a number."""
        return (moment + stretch_at(self.zone, moment).offset) // DAY

    def start(self, day: int) -> int:
        """Return the first moment of the day; where its zone skips the day, that of the next one."""
        found = next((first for first, _, _ in self.stretches(day)), None)
        return self.start(day + 1) if found is None else found

    def end(self, day: int) -> int:
        """Return the moment after the last one of the day."""
        found = max((last for _, last, _ in self.stretches(day)), default=None)
        return self.end(day - 1) if found is None else found

    def moment(self, day: int, time: int) -> Moment:
        """Return the first moment at which clocks show that time on the day, or the end of the gap that swallows it."""
        for first, last, offset in self.stretches(day):
            if first <= (at := day * DAY + time - offset) < last:
                return Moment(at)
        return Moment(moment_of(day * DAY + time, self.zone))

    def passed(self, day: int, moment: int) -> int:
        """Return the time since midnight, in microseconds, before which clocks have shown all of the day at the
        moment.
        """
        start, end, offset, _ = stretch_at(self.zone, moment)
        midnight = day * DAY - offset
        shown = moment - midnight + 1
        if start + OVERLAP < midnight and midnight + DAY + OVERLAP < end:
            return max(0, shown)
        ends = (last + offset - day * DAY for _, last, offset in self.stretches(day) if last <= moment + 1)
        return max(0, shown, *ends)

    def shown_until(self, day: int, moment: int) -> int:
        """Return how much of the day clocks have shown before the moment, in microseconds since midnight; 0: nothing.

        A day that is over has shown all of it, also what its clocks skip at its end: such a time is the end of the gap.
        """
        if moment > self.end(day):
            return DAY
        times = [
            min(last, moment) + offset - day * DAY for first, last, offset in self.stretches(day) if first < moment
        ]
        return max(times, default=0)

    def stretches(self, day: int) -> Iterator[tuple[int, int, int]]:
        """Yield the parts of the day, each as (first moment, end, offset); usually one."""
        for start, end, offset, _ in stretches_between(self.zone, (day - 1) * DAY, (day + 2) * DAY):
            first, last = max(start, day * DAY - offset), min(end, (day + 1) * DAY - offset)
            if first < last:
                yield first, last, offset


class Unlikely(Struct, frozen=True):
    """Times meant for days off in the zone of these: times of clocks, and intervals of whole weeks or months.

    None of them is at another of the `minutes` of a day. From `regular` on all years of a kind have the same.
    """

    clocks: tuple[Zoned, ...]
    rows: tuple[Zoned, ...]
    minutes: int
    regular: int

    def may_go_on(self, stretch: Stretch) -> bool:
        """Return whether one of them may be among those that clocks skip there before a midnight."""
        first, end = stretch.start + stretch.before, stretch.start + stretch.offset
        if first // DAY >= (2 * end - first) // DAY or not self.minutes >> first % DAY // MINUTE:
            return False
        return any(clock.skips(stretch) for clock in self.clocks) or any(
            _is_like(row, at) for row in self.rows for at in range(first // DAY, (end - 1) // DAY + 1)
        )


class Kept(Struct, frozen=True):
    """The moments of `base` that are not on days off.

    They are looked for in `likely`: the others are meant for days of the week or dates of every year that are off. Only
    what is `unlikely` may happen on the day after it, where clocks skip midnight.
    """

    base: Schedule
    likely: Schedule
    unlikely: Unlikely | None
    days: LocalDays

    def next_after(self, moment: Moment, limit: Moment | None = None) -> Moment | None:
        """Return the first moment strictly after the given one; None where it would be after the limit."""
        while (found := self._next_likely(moment)) is not None and (limit is None or found <= limit):
            if (behind := self.behind_off(found)) is None:
                return found
            moment = behind
        return None

    def last_before(self, moment: Moment, limit: Moment | None = None) -> Moment | None:
        """Return the last moment strictly before the given one; None where it would be before the limit."""
        while (found := self._last_likely(moment)) is not None and (limit is None or found >= limit):
            if (before := self.before_off(found)) is None:
                return found
            moment = before
        return None

    def behind_off(self, found: Moment) -> Moment | None:
        """From where to look on for the next moment that is not off; None where this one is not."""
        stretch = stretch_at(self.days.zone, found)
        day = (found + stretch.offset) // DAY
        business = self.days.next_business(day)
        at = min(business * DAY - stretch.offset, stretch.end) - 1
        return None if business == day else Moment(max(found, at))

    def before_off(self, found: Moment) -> Moment | None:
        """From where to look on for the last moment before that is not off; None where this one is not."""
        stretch = stretch_at(self.days.zone, found)
        day = (found + stretch.offset) // DAY
        business = self.days.previous_business(day)
        at = max((business + 1) * DAY - stretch.offset, stretch.start)
        return None if business == day else Moment(min(found, at))

    def count(self, after: Moment, through: Moment) -> int:
        """Count the moments t with after < t <= through: those of the base, minus those on days off."""
        return self._count(self.base.count, after, through)

    def count_drifting(self, terms: Sequence[Term], after: Moment, through: Moment) -> int:
        """Count those that drift through the parts of a second, so that they are in no mask."""
        return self._count(partial(count_drifting, terms), after, through)

    def _count(self, of: Callable[[Moment, Moment], int], after: Moment, through: Moment) -> int:
        through = Moment(min(through, LAST_MOMENT))
        total = of(after, through)
        if not total:
            return 0
        for stretch in stretches_between(self.days.zone, after + 1, through + 1):
            low, high = max(stretch.start, after + 1), min(stretch.end - 1, through)
            total -= sum(of(*row) for row in self._rows_off(stretch, low, high))
        return total

    def _rows_off(self, stretch: Stretch, low: int, high: int) -> Iterator[tuple[Moment, Moment]]:
        """Yield the stretches of days off within low <= t <= high, each as (after, through)."""
        day, last = (low + stretch.offset) // DAY, (high + stretch.offset) // DAY
        while (first := self._next_off(day, last)) is not None:
            day = self.days.next_business(first)
            start, end = first * DAY - stretch.offset, day * DAY - stretch.offset
            yield Moment(max(low, start) - 1), Moment(min(high, end - 1))

    def _next_off(self, day: int, last: int) -> int | None:
        return self.days.days_off.next_off(day, last)

    def _next_likely(self, moment: Moment) -> Moment | None:
        found = self.likely.next_after(moment)
        if self.unlikely is None:
            return found
        quiet = max(moment, self.unlikely.regular) + _ALL_KINDS
        stretch = stretch_at(self.days.zone, moment)
        at = stretch.end if moment >= overtaken(stretch) else stretch.start
        while at <= min(quiet, LAST_MOMENT) and (found is None or at < found):
            stretch = stretch_at(self.days.zone, at)
            at = stretch.end
            if not self._may_go_on(stretch):
                continue
            quiet = max(quiet, stretch.start + _ALL_KINDS)
            following = self.base.next_after(Moment(max(stretch.start - 1, moment)))
            if following is None or following < overtaken(stretch):
                return following
            there = stretch_at(self.days.zone, following)
            at = there.start if following == there.start or following < overtaken(there) else there.end
        return found

    def _last_likely(self, moment: Moment) -> Moment | None:
        found = self.likely.last_before(moment)
        if self.unlikely is None:
            return found
        low, regular = FIRST_MOMENT if found is None else found, self.unlikely.regular
        quiet, stretch = moment - _ALL_KINDS, stretch_at(self.days.zone, moment - 1)
        while max(stretch.start, overtaken(stretch) - 1) > low:
            at: int = stretch.start
            if self._may_go_on(stretch):
                quiet = min(quiet, at - _ALL_KINDS)
                before = self.base.last_before(Moment(min(overtaken(stretch), moment)))
                if before is None or before >= at:
                    return before
                at = before + 1
            elif at <= quiet:
                at = min(at, regular)
            stretch = stretch_at(self.days.zone, at - 1)
        return found

    def _may_go_on(self, stretch: Stretch) -> bool:
        """Return whether a time of the base may be among those that clocks skip there just before a business day."""
        assert self.unlikely is not None  # noqa: S101
        days = range((stretch.start + stretch.offset) // DAY, (overtaken(stretch) + stretch.offset) // DAY + 1)
        return self.unlikely.may_go_on(stretch) and not all(map(self.days.is_off, days))


def kept_of(base: Schedule, days: LocalDays) -> Kept:
    """Return what is left of the schedule on business days."""
    if not days.days_off.weekdays and not days.days_off.yearly:
        return Kept(base, base, None, days)
    parts = [part for each in terms_of(base) if ((part := each.part).shift or part.later) and part.zone == days.zone]
    clocks = tuple(part for part in parts if clocks_of(part))
    rows = tuple(part for part in parts if isinstance(part.times, Grid) and _is_never_on(part, days))
    minutes = reduce(or_, (clock.minutes for part in clocks for clock in clocks_of(part)), 0)
    for part in rows:
        minutes |= 1 << _anchor(part) % DAY // MINUTE
    regular = rule_from(days.zone)
    if any(clock.days.years != -1 for part in clocks for clock in clocks_of(part)):
        regular = max(regular, day_of(LAST_YEAR + 1, 1, 1) * DAY)
    unlikely = Unlikely(clocks, rows, minutes, regular) if minutes and fixed_offset(days.zone) is None else None
    return Kept(base, Union((), tuple(_likely(base, days))), unlikely, days)


def _is_like(row: Zoned, day: int) -> bool:
    """Return whether an interval may name the day: it is the same day of the week, or of the month."""
    if isinstance(row.times, Grid) and isinstance(row.times.steps, CalendarSteps) and row.times.steps.months:
        return _date_of(_anchor(row)).day in {29, 30, 31, date_of(day).day}
    return (_anchor(row) // DAY - day) % 7 == 0


def _anchor(part: Zoned) -> int:
    """Return the time on the wall clock from which an interval of days or months counts."""
    steps = part.times.steps if isinstance(part.times, Grid) else None
    return steps.anchor if isinstance(steps, CalendarSteps) else 0


def _likely(schedule: Schedule, days: LocalDays) -> Iterator[Schedule]:
    """Yield the parts of the schedule that days off leave in other weeks, or other years."""
    match schedule:
        case Union():
            for part in schedule._parts:
                yield from _likely(part, days)
        case Except():
            yield from _likely(schedule._kept, days)
        case Difference(base=base):
            parts = (part.base if isinstance(part, Bounded) else part for part in _likely(base, days))
            yield from (replace(schedule, base=part) for part in dict.fromkeys(parts))
        case ZonedSchedule():
            yield from _likely(schedule.moments, days)
        case Zoned(times=times, zone=zone) if zone == days.zone and (clocks := clocks_of(schedule)):
            if left := tuple(rest for clock in clocks for rest in _without_days(clock, days.days_off)):
                kind = Overlapping if isinstance(times, Overlapping) else Pieces
                yield replace(schedule, times=kind(left))
        case Zoned() if (is_never := _never_on(schedule, days)) is not None:
            yield from _times_on(schedule, is_never, days.zone)
        case _:
            yield schedule


def _is_never_on(part: Zoned, days: LocalDays) -> bool:
    """Return whether an interval names days off only."""
    is_never = _never_on(part, days)
    return is_never is not None and all(is_never(stretch.offset) for stretch in _stretches(part, days.zone))


def _never_on(part: Zoned, days: LocalDays) -> Callable[[int], bool] | None:
    """With which offsets of the clocks an interval of whole weeks, or whole months, names days off only."""
    grid = part.times
    if not isinstance(grid, Grid) or grid.first == grid.last is not None:
        return None
    row, off = row_of(part, days.zone), days.days_off
    if row is not None and row.period % _WEEK == 0:
        return lambda offset: off.has_weekday((row.anchor + (0 if row.local else offset)) // DAY)
    match grid.steps:
        case CalendarSteps(anchor=anchor, days=0) as steps if off.yearly:
            own = fixed_offset(part.zone)
            return cache(lambda offset: off.yearly >= _dates(steps, anchor + (0 if own is None else offset - own)))
        case MixedSteps(calendar=CalendarSteps(months=0) as steps) as mixed if (
            steps.days * DAY + mixed.exact
        ) % _WEEK == 0:
            clocks = {stretch.offset for stretch in _all_kinds(mixed.zone)}
            return cache(lambda offset: all(off.has_weekday((steps.anchor - own + offset) // DAY) for own in clocks))
        case _:
            return None


def _all_kinds(zone: str) -> Iterator[Stretch]:
    """Return the stretches of a zone, of those of its rule the first ones."""
    return stretches_between(zone, FIRST_MOMENT, min(rule_from(zone) + _TWO_YEARS, LAST_MOMENT))


def _times_on(part: Zoned, is_never: Callable[[int], bool], zone: str) -> Iterator[Schedule]:
    """Yield the interval, as long as clocks have offsets with which it may name business days: thousands of years may
    be left out between two such times.
    """
    first, last = None, FIRST_MOMENT
    for stretch in _stretches(part, zone):
        if is_never(stretch.offset):
            continue
        if first is not None and stretch.start > last + _TWO_YEARS:
            yield Bounded(part, Moment(first), Moment(last))
            first = None
        first = stretch.start if first is None else first
        last = LAST_MOMENT if stretch.start >= rule_from(zone) else stretch.end - 1
    if first is not None:
        yield Bounded(part, Moment(max(first, FIRST_MOMENT)), Moment(min(last, LAST_MOMENT)))


def _stretches(part: Zoned, zone: str) -> Iterator[Stretch]:
    """Yield the stretches of the zone as long as an interval lasts, of those of its rule the first ones."""
    low, high = part.next_after(Moment(FIRST_MOMENT)), part.last_before(Moment(LAST_MOMENT))
    if low is not None and high is not None:
        yield from stretches_between(zone, low, min(high, max(low, rule_from(zone)) + _TWO_YEARS) + 1)


def _dates(steps: CalendarSteps, anchor: int) -> set[tuple[int, int]]:
    """Return all dates of the year that an interval of months from the anchor may have, each a month and a day."""
    at = _date_of(anchor)
    if at.day > 28 and steps.month_end is MonthEnd.NORMALISE:
        return {(month, day) for month in range(1, 13) for day in range(1, 32)}
    months = {(at.month - 1 + n * steps.months) % 12 + 1 for n in range(12)}
    return {(month, min(at.day, month_length(year, month))) for month in months for year in (2027, 2028)}


def _date_of(wall: int) -> date:
    return date_of(min(max(wall // DAY, FIRST_DAY), LAST_DAY))


def _without_days(clock: WallClock, off: DaysOff) -> Iterator[WallClock]:
    """Return its times on other days of the week; nothing where all of these are dates of every year that are off."""
    weekly = WallClock(days_of_week(off.weekdays), EVERY_SECOND.minutes, EVERY_SECOND.seconds)
    left = minus((clock,), (weekly,)) if off.weekdays else (clock,)
    return (rest for rest in left if not off.yearly or has_other_dates(rest.days, off.yearly))
