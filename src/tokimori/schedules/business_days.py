"""A schedule that avoids days off: its moments on these are left out, or moved to a business day."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache

from tokimori.clock import DAY, Moment
from tokimori.errors import InvalidSchedule
from tokimori.schedules.combined import terms_of
from tokimori.schedules.counted import LONG, Count, narrowed
from tokimori.schedules.days import FIRST_DAY, LAST_DAY
from tokimori.schedules.days_off import DaysOff
from tokimori.schedules.frames import Frame, plain_days
from tokimori.schedules.grid import FIRST_MOMENT, LAST_MOMENT
from tokimori.schedules.kept import BEYOND, Kept, LocalDays, kept_of
from tokimori.schedules.left_out import check_left_out
from tokimori.schedules.moved_count import CountedDays, MovedRows
from tokimori.schedules.off_times import OffTimes, off_times
from tokimori.schedules.remembered import Remembered, remembered
from tokimori.schedules.schedule import OnDemand, Schedule, next_moments
from tokimori.schedules.second_masks import Term, all_fractions, is_fine, mask_of_terms, unit_of
from tokimori.schedules.terms import zones_of

_NEAR = 60 * DAY
"""What is moved is looked for so far before it is asked what stays, which may be nothing for ever."""
_LONG_ROW, _MOST_ROWS = 16, 8
"""The times of more days off in a row are looked at all at once; of so many such rows they are kept."""
_FEW = 16
"""So many moments are always walked."""


class Shift(StrEnum):
    """Directions in which a moment on a day off moves: to the same time on the next or the previous business day."""

    NEXT = "next"
    PREVIOUS = "previous"


_TOWARDS = {None: 0, Shift.NEXT: 1, Shift.PREVIOUS: -1}


@dataclass(frozen=True, slots=True)
class BusinessDays:
    """The moments of `base` on business days; those on days off are left out, or moved as `shift` says.

    A moved moment keeps its time on the wall clock of `zone`. Where clocks skip that time it is the end of the gap;
    where they show it twice, the first time. Two that fall on the same moment count as one.
    """

    base: Schedule
    days_off: DaysOff
    shift: Shift | None
    zone: str
    _kept: Kept = field(repr=False, compare=False)
    _rows: dict[range, OffTimes] = field(default_factory=dict, repr=False, compare=False)
    _near: Remembered | None = field(default=None, repr=False, compare=False)

    @property
    def _asked(self) -> Remembered:
        """Return the base, for the time of one question."""
        return remembered(self.base) if self._near is None else self._near

    @property
    def _days(self) -> LocalDays:
        return LocalDays(self.days_off, self.zone)

    def next_after(self, moment: Moment) -> Moment | None:
        """Return the first moment strictly after the given one."""
        if self.shift is None:
            return self._kept.next_after(moment)
        return replace(self, _near=remembered(self.base))._next_moved(moment)

    def _next_moved(self, moment: Moment) -> Moment | None:
        first = self._asked.next_after(moment)
        if first is not None and not self.is_off(first):
            return next(self._moved_after(moment, first), first)
        moved = next(self._moved_after(moment, Moment(min((first or moment) + _NEAR, LAST_MOMENT))), None)
        kept = None if first is None else self._kept.next_after(Moment(first - 1), moved)
        if moved is None:
            return next(self._moved_after(moment, kept), kept)
        return moved if kept is None else kept

    def last_before(self, moment: Moment) -> Moment | None:
        """Return the last moment strictly before the given one."""
        if self.shift is None:
            return self._kept.last_before(moment)
        return replace(self, _near=remembered(self.base))._last_moved(moment)

    def _last_moved(self, moment: Moment) -> Moment | None:
        last = self._asked.last_before(moment)
        if last is not None and not self.is_off(last):
            moved = self._moved_before(moment, last)
            return last if moved is None else moved
        moved = self._moved_before(moment, Moment(max((last or moment) - _NEAR, FIRST_MOMENT)))
        kept = None if last is None else self._kept.last_before(Moment(last + 1), moved)
        if moved is None:
            moved = self._moved_before(moment, kept)
            return kept if moved is None else moved
        return moved if kept is None else kept

    def count(self, after: Moment, through: Moment) -> int:
        """Count the moments t with after < t <= through, without walking them."""
        after, through = narrowed(self, after, through)
        if through - after > LONG:
            walked = sum(moment <= through for moment in next_moments(self, after, _FEW))
            if walked < _FEW:
                return walked
        terms = terms_of(self.base)
        if self.shift is None and len(terms) == 1 and terms[0].is_simple():
            return self._kept.count(after, through)
        counted, at, total = self._day_by_day(terms, after, through), after, 0
        for first, stop, offset in plain_days(self.zone, after, through) if zones_of(terms) <= {self.zone} else ():
            rows = MovedRows(Frame(terms, self.zone, offset), self.days_off, _TOWARDS[self.shift])
            first, stop = rows.bounds(first, stop)  # noqa: PLW2901
            if first < stop:
                total += counted(at, Moment(first * DAY - offset - 1)) + rows.count(first, stop)
                at = Moment(stop * DAY - offset - 1)
        return total + counted(at, through) + self._kept.count_drifting(terms, after, through)

    def _day_by_day(self, terms: Sequence[Term], after: Moment, through: Moment) -> Count:
        """Return a counter of moments that do not drift, day by day."""
        is_off, near = cache(self._days.is_off), -_TOWARDS[self.shift]

        def sources(business: int) -> range:
            return self._sources(business) if near and is_off(business + near) else range(0)

        unit = unit_of(terms, after, through, self.zone)
        counted = CountedDays(self.zone, unit, is_off, sources)
        masks = [(mask_of_terms(terms, unit, fraction), fraction) for fraction in all_fractions(terms, unit)]

        def count(low: Moment, high: Moment) -> int:
            return sum(counted.count(mask, fraction, low, high) for mask, fraction in masks) if low < high else 0

        return count

    def is_off(self, moment: Moment) -> bool:
        """Return whether clocks show a day off at that moment."""
        return self._days.is_off(self._days.day_of(moment))

    def __str__(self) -> str:
        if self.shift is None:
            return f"{self.base}, not on days off"
        return f"{self.base}, on days off: the {self.shift} business day"

    # What is moved

    def _target(self, day: int) -> int:
        """Return the business day to which a day off's moments go."""
        days = self._days
        return days.next_business(day) if self.shift is Shift.NEXT else days.previous_business(day)

    def _sources(self, business: int) -> range:
        """Return the days off whose moments come to the business day."""
        days = self._days
        if self.shift is Shift.NEXT:
            return range(days.previous_business(business - 1) + 1, business)
        return range(business + 1, days.next_business(business + 1))

    def _moved_after(self, moment: Moment, limit: Moment | None) -> Iterator[Moment]:
        """Yield the moments after the given one to which others are moved, in order, up to the limit."""
        days = self._days
        today = days.day_of(moment)
        until = LAST_DAY + BEYOND if limit is None else days.day_of(limit) + 1
        through = until if self.shift is Shift.NEXT else days.next_business(min(until + 1, LAST_DAY + BEYOND))
        day = today + 1 if self.shift is Shift.PREVIOUS else days.previous_business(today - 1) + 1
        while True:
            found = self._day_off_from(day, through)
            if found is None or (business := self._target(found)) > until:
                return
            while business >= today and (image := self._first_image(business, moment)) is not None:
                if limit is not None and image > limit:
                    return
                yield image
                moment = image
            day = max(found, business) + 1 if self.shift is Shift.NEXT else self._sources(business).stop

    def _moved_before(self, moment: Moment, limit: Moment | None) -> Moment | None:
        """Return the last moment before the given one to which another is moved; None where it would be before the
        limit.
        """
        days = self._days
        today = days.day_of(moment)
        until = FIRST_DAY - BEYOND if limit is None else days.day_of(limit) - 1
        since = until if self.shift is Shift.PREVIOUS else days.previous_business(max(until - 1, FIRST_DAY - BEYOND))
        day = today if self.shift is Shift.NEXT else days.next_business(today + 1) - 1
        while True:
            found = self._day_off_until(day, since)
            if found is None or (business := self._target(found)) < until:
                return None
            if business <= today and (image := self._last_image(business, moment)) is not None:
                return image if limit is None or image >= limit else None
            day = min(found, business) - 1 if self.shift is Shift.PREVIOUS else self._sources(business).start - 1

    def _day_off_from(self, day: int, through: int) -> int | None:
        """Return the first day off d with day <= d <= through on which the base has a moment."""
        days = self._days
        while True:
            off = self.days_off.next_off(day, through)
            if off is None or self._shown_after(off, 0) is not None:
                return off
            found = self._asked.next_after(Moment(days.end(off) - 1))
            if found is None:
                return None
            day = max(off + 1, days.day_of(found))

    def _day_off_until(self, day: int, first: int) -> int | None:
        """Return the last day off d with first <= d <= day on which the base has a moment."""
        days = self._days
        while True:
            off = self.days_off.last_off(day, first)
            if off is None or self._shown_before(off, DAY) is not None:
                return off
            found = self._asked.last_before(Moment(days.start(off)))
            if found is None:
                return None
            day = min(off - 1, days.day_of(found))

    def _first_image(self, business: int, after: Moment) -> Moment | None:
        """Return the first moment on the business day, after the given one, to which one of a day off is moved."""
        days, sources = self._days, self._sources(business)
        time = self._off_from(sources, days.passed(business, after)) if sources else None
        while time is not None and (image := days.moment(business, time)) <= after:
            time = self._off_from(sources, time + 1)
        return None if time is None else image

    def _last_image(self, business: int, before: Moment) -> Moment | None:
        """Return the last moment on the business day, before the given one, to which one of a day off is moved."""
        days, sources = self._days, self._sources(business)
        time = self._off_until(sources, days.shown_until(business, before)) if sources else None
        while time is not None and (image := days.moment(business, time)) >= before:
            time = self._off_until(sources, time)
        return None if time is None else image

    def _off_from(self, sources: range, low: int) -> int | None:
        """Return the first time of a day, `low` or later, that clocks show at a moment of any of these days."""
        row = self._row(sources)
        times = [time for day in row.rest if (time := self._shown_after(day, low)) is not None]
        return min(times if (time := row.first(low)) is None else [*times, time], default=None)

    def _off_until(self, sources: range, high: int) -> int | None:
        """Return the last time of a day, before `high`, that clocks show at a moment of any of these days."""
        row = self._row(sources)
        times = [time for day in row.rest if (time := self._shown_before(day, high)) is not None]
        return max(times if (time := row.last(high)) is None else [*times, time], default=None)

    def _row(self, sources: range) -> OffTimes:
        """Return the times of these days, those of a long row all at once."""
        if len(sources) <= _LONG_ROW:
            return OffTimes((), sources)
        if sources not in self._rows:
            if len(self._rows) >= _MOST_ROWS:
                self._rows.clear()
            self._rows[sources] = off_times(terms_of(self._kept.base), self._days, sources)
        return self._rows[sources]

    def _shown_after(self, day: int, low: int) -> int | None:
        """Return the first time of the day, `low` or later, that clocks show at a moment of the base."""
        times = []
        for first, last, offset in self._days.stretches(day):
            found = self._asked.next_after(Moment(max(first, day * DAY + low - offset) - 1), Moment(last))
            if found is not None and found < last:
                times.append(found + offset - day * DAY)
        return min(times, default=None)

    def _shown_before(self, day: int, high: int) -> int | None:
        """Return the last time of the day, before `high`, that clocks show at a moment of the base."""
        times = []
        for first, last, offset in self._days.stretches(day):
            found = self._asked.last_before(Moment(min(last, day * DAY + high - offset)), Moment(first - 1))
            if found is not None and found >= first:
                times.append(found + offset - day * DAY)
        return max(times, default=None)


def on_business_days(base: Schedule, days_off: DaysOff, shift: Shift | None, zone: str) -> Schedule:
    """Return the schedule with these days off; one without moments is returned as it is.

    Raises `InvalidSchedule` for an interval that is not of whole minutes, of which nothing is moved.
    """
    if isinstance(base, OnDemand):
        return base
    if shift is not None and any(map(is_fine, terms_of(base))):
        message = f"shift: {base} has an interval that is not of whole minutes"
        allowed = "intervals of whole minutes; cron expressions; or no shift, which leaves out what is on days off"
        raise InvalidSchedule(message, field="shift", value=str(shift), allowed=allowed)
    kept = kept_of(base, LocalDays(days_off, zone))
    check_left_out(kept)
    return BusinessDays(base, days_off, shift, zone, kept)
