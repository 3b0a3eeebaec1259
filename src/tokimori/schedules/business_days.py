"""A schedule that avoids days off: its moments on these are left out, or moved to a business day."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from tokimori.clock import DAY, MINUTE, Moment
from tokimori.errors import InvalidSchedule
from tokimori.schedules.combined import MOST_EXCLUDED, Except, ends_in, members_of, names
from tokimori.schedules.days import FIRST_DAY, LAST_DAY, date_of, lowest
from tokimori.schedules.days_off import DaysOff
from tokimori.schedules.grid import FIRST_MOMENT, LAST_MOMENT, ExactSteps, Grid, MixedSteps, moment_of
from tokimori.schedules.minutes import Minutes, Times, add, is_countable, plain_days, terms_of
from tokimori.schedules.schedule import OnDemand, Remembered, Schedule
from tokimori.schedules.zones import OVERLAP, stretch_at, stretches_between

_BEYOND = 7
"""So many days behind the calendar's end, and before its start, what is moved may go: a week has a business day."""
MOST_MOVED = 62
"""Number of days off in a row that may be moved to one business day."""
MOST_IN_VAIN = 100
"""Number of moments in a row that may be on days off if no other comes: each search looks at all of them."""
_ALL_KINDS_OF_YEARS = range(2001, 2029)
_MOST_ROWS = 8
"""Number of rows of days off whose times are cached."""
_ENDLESS = 1 << 62


class Shift(StrEnum):
    """Directions in which a moment on a day off moves: to the same time on the next or the previous business day."""

    NEXT = "next"
    PREVIOUS = "previous"


class LocalDays(Struct, frozen=True):
    """Business days of a zone. A day that the zone's clocks skip as a whole (Apia's 2011-12-30) is not one."""

    days_off: DaysOff
    zone: str

    def is_off(self, day: int) -> bool:
        """Return whether the day is not a business day."""
        return self.days_off.last_in_row(day) is not None or self._is_skipped(day)

    def next_business(self, day: int) -> int:
        """Return the first business day at or after the day."""
        while day <= LAST_DAY + _BEYOND:
            if (last := self.days_off.last_in_row(day)) is not None:
                day = last + 1
            elif self._is_skipped(day):
                day += 1
            else:
                break
        return day

    def previous_business(self, day: int) -> int:
        """Return the last business day at or before the day."""
        while day >= FIRST_DAY - _BEYOND:
            if (first := self.days_off.first_in_row(day)) is not None:
                day = first - 1
            elif self._is_skipped(day):
                day -= 1
            else:
                break
        return day

    def _is_skipped(self, day: int) -> bool:
        start, _, offset, before = stretch_at(self.zone, (day + 1) * DAY)  # within `OVERLAP` after any such skip
        return offset - before >= DAY and start + before <= day * DAY and (day + 1) * DAY <= start + offset

    def day_of(self, moment: int) -> int:
        """Return the date that the zone's clocks show, as a number."""
        return (moment + stretch_at(self.zone, moment).offset) // DAY

    def start(self, day: int) -> int:
        """Return the first moment of the day; if its zone skips the day, that of the next one."""
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
        """Return the microseconds since midnight before which clocks have shown all of the day at the moment."""
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


class OffTimes(NamedTuple):
    """The times of a row of days off: bits for the minutes of the day, by fraction.

    The `rest` are days near a change of the clocks, which are looked at one by one.
    """

    minutes: Times
    rest: list[int]

    def first(self, low: int) -> int | None:
        """Return the first time of the day, in microseconds, that is `low` or later; without those of the rest."""
        found = []
        for fraction, bits in self.minutes.items():
            least = max(-((fraction - low) // MINUTE), 0)
            if later := bits >> least:
                found.append((least + lowest(later)) * MINUTE + fraction)
        return min(found, default=None)

    def last(self, high: int) -> int | None:
        """Return the last time of the day, in microseconds, before `high`; without those of the rest."""
        found = []
        for fraction, bits in self.minutes.items():
            stop = max(-((fraction - high) // MINUTE), 0)
            if earlier := bits & (1 << stop) - 1:
                found.append((earlier.bit_length() - 1) * MINUTE + fraction)
        return max(found, default=None)


@dataclass(frozen=True, slots=True)
class BusinessDays:
    """The moments of `base` on business days; those on days off are left out, or moved as `shift` says.

    A moved moment keeps its time on the wall clock of `zone`. If clocks skip that time it is the end of the gap;
    if they show it twice, the first time. Two that fall on the same moment count as one.
    """

    base: Schedule
    days_off: DaysOff
    shift: Shift | None
    zone: str
    _near: Remembered = field(repr=False, compare=False)
    _rows: dict[range, OffTimes] = field(default_factory=dict, repr=False, compare=False)

    @property
    def days(self) -> LocalDays:
        """Return the days of the zone."""
        return LocalDays(self.days_off, self.zone)

    def next_after(self, moment: Moment) -> Moment | None:
        """Return the first moment strictly after the given one."""
        return self._next_kept(moment) if self.shift is None else self._next_moved(moment)

    def last_before(self, moment: Moment) -> Moment | None:
        """Return the last moment strictly before the given one."""
        return self._last_kept(moment) if self.shift is None else self._last_moved(moment)

    def is_off(self, moment: Moment) -> bool:
        """Return whether clocks show a day off at that moment."""
        return self.days.is_off(self.days.day_of(moment))

    def check(self) -> None:
        """Raise `InvalidSchedule` if a search takes too long from an end of the calendar, or of an interval."""
        for first, last in ((LAST_MOMENT, FIRST_MOMENT), *ends_in(self.base)) if self.shift is None else ():
            self._next_kept(Moment(last), MOST_EXCLUDED + 1, MOST_IN_VAIN)
            self._last_kept(Moment(first), MOST_EXCLUDED + 1, MOST_IN_VAIN)

    def __str__(self) -> str:
        if self.shift is None:
            return f"{self.base}, not on days off"
        return f"{self.base}, on days off: the {self.shift} business day"

    # What is left out

    def _next_kept(self, moment: Moment, looks: int = _ENDLESS, in_vain: int = _ENDLESS) -> Moment | None:
        looked = 0
        while looked < looks and (found := self.base.next_after(moment)) is not None:
            looked += 1
            stretch = stretch_at(self.zone, found)
            day = (found + stretch.offset) // DAY
            if (business := self.days.next_business(day)) == day:
                return found
            moment = Moment(max(found, min(business * DAY - stretch.offset, stretch.end) - 1))
        if looked > in_vain:
            raise self._too_long(moment, looked)
        return None

    def _last_kept(self, moment: Moment, looks: int = _ENDLESS, in_vain: int = _ENDLESS) -> Moment | None:
        looked = 0
        while looked < looks and (found := self.base.last_before(moment)) is not None:
            looked += 1
            stretch = stretch_at(self.zone, found)
            day = (found + stretch.offset) // DAY
            if (business := self.days.previous_business(day)) == day:
                return found
            moment = Moment(min(found, max((business + 1) * DAY - stretch.offset, stretch.start)))
        if looked > in_vain:
            raise self._too_long(moment, looked)
        return None

    def _too_long(self, moment: Moment, looked: int) -> InvalidSchedule:
        last = self.base.last_before(Moment(moment + 1)) or moment
        base = self.base.base if isinstance(self.base, Except) else self.base
        by = next((each for each in members_of(base) if names(each, last)), base)
        message = f"schedule: at least {looked} moments or days of {by} in a row are on days off, and no other comes"
        allowed = "moments on business days between them; `shift`, which moves them; or no calendar"
        return InvalidSchedule(message, field="schedule", value=str(by), allowed=allowed)

    # What is moved

    def _next_moved(self, moment: Moment) -> Moment | None:
        """Return the first moment after the given one: on its business day, or on the next one that has any.

        The business day before is read, too: a time that clocks skip at the end of a day comes on the next day.
        """
        days = self.days
        today = days.day_of(moment)
        business = days.next_business(today)
        near = days.previous_business(today - 1), business
        if found := [at for each in near if (at := self._first_on(each, moment)) is not None]:
            return min(found)
        whole = self._whole(business)
        following = self._near.next_after(Moment(days.start(whole.stop) - 1))
        if following is not None and days.day_of(following) in whole:  # clocks show its end again
            following = self._near.next_after(Moment(days.end(whole[-1]) - 1))
        return None if following is None else self._first_on(self._target(days.day_of(following)), moment)

    def _last_moved(self, moment: Moment) -> Moment | None:
        """Return the last moment before the given one, on its business day, or on one before."""
        days = self.days
        business = days.previous_business(days.day_of(moment))
        while (found := self._last_on(business, moment)) is None:
            whole = self._whole(business)
            before = self._near.last_before(Moment(days.end(whole[0] - 1)))
            if before is not None and days.day_of(before) in whole:  # clocks show its start twice
                before = self._near.last_before(Moment(days.start(whole[0])))
            if before is None:
                return None
            business = self._target(days.day_of(before))
        return found

    def _target(self, day: int) -> int:
        """Return the business day to which a day's moments go: itself, if it is one."""
        return self.days.next_business(day) if self.shift is Shift.NEXT else self.days.previous_business(day)

    def _whole(self, business: int) -> range:
        """Return the business day and the days off whose moments move to it."""
        if self.shift is Shift.NEXT:
            return range(self.days.previous_business(business - 1) + 1, business + 1)
        return range(business, self.days.next_business(business + 1))

    def _sources(self, business: int) -> range:
        """Return the days off whose moments come to the business day."""
        whole = self._whole(business)
        return whole[:-1] if self.shift is Shift.NEXT else whole[1:]

    def _first_on(self, business: int, after: Moment) -> Moment | None:
        """Return the first moment of a business day after the given one: its own, or one to which another is moved."""
        days, sources, found = self.days, self._sources(business), list[Moment]()
        for first, last, _ in days.stretches(business):
            own = self._near.next_after(Moment(max(first - 1, after)))
            if own is not None and own < last:
                found.append(own)
        time = self._off_from(sources, days.passed(business, after)) if sources else None
        while time is not None and (image := days.moment(business, time)) <= after:
            time = self._off_from(sources, time + 1)
        return min(found, default=None) if time is None else min([*found, image])

    def _last_on(self, business: int, before: Moment) -> Moment | None:
        """Return the last moment of a business day before the given one: its own, or one to which another is moved."""
        days, sources, found = self.days, self._sources(business), list[Moment]()
        for first, last, _ in days.stretches(business):
            own = self._near.last_before(Moment(min(last, before)))
            if own is not None and own >= first:
                found.append(own)
        time = self._off_until(sources, days.shown_until(business, before)) if sources else None
        while time is not None and (image := days.moment(business, time)) >= before:
            time = self._off_until(sources, time)
        return max(found, default=None) if time is None else max([*found, image])

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

    def moved_to(self, day: int, own: Times) -> Times | None:
        """Return the times of a plain day that stay or come; None if clocks change near a day from which they do."""
        if self.days.is_off(day):
            return {}
        sources = range(0) if self.shift is None else self._sources(day)
        row = self._row(sources) if sources else OffTimes({}, [])
        add(own, row.minutes)
        return None if row.rest else own

    def _row(self, sources: range) -> OffTimes:
        """Return the times of these days off, all at once."""
        if sources not in self._rows:
            if len(self._rows) >= _MOST_ROWS:
                self._rows.clear()
            self._rows[sources] = self._times_of(sources)
        return self._rows[sources]

    def _times_of(self, sources: range) -> OffTimes:
        days, found, plain = self.days, Times(), set[int]()
        terms = terms_of(self.base)
        minutes = Minutes(terms, self.zone)
        span = days.start(sources[0]) - 1, days.end(sources[-1]) - 1
        for day, first, stop, offset in plain_days(self.zone, *span) if is_countable(terms, self.zone) else ():
            if first == 0 and stop == DAY and day in sources:
                plain.add(day)
                add(found, minutes.of(day, offset))
        return OffTimes(found, [day for day in sources if day not in plain])

    def _shown_after(self, day: int, low: int) -> int | None:
        """Return the first time of the day, `low` or later, that clocks show at a moment of the base."""
        times = []
        for first, last, offset in self.days.stretches(day):
            found = self._near.next_after(Moment(max(first, day * DAY + low - offset) - 1))
            if found is not None and found < last:
                times.append(found + offset - day * DAY)
        return min(times, default=None)

    def _shown_before(self, day: int, high: int) -> int | None:
        """Return the last time of the day, before `high`, that clocks show at a moment of the base."""
        times = []
        for first, last, offset in self.days.stretches(day):
            found = self._near.last_before(Moment(min(last, day * DAY + high - offset)))
            if found is not None and found >= first:
                times.append(found + offset - day * DAY)
        return max(times, default=None)


def on_business_days(base: Schedule, days_off: DaysOff, shift: Shift | None, zone: str) -> Schedule:
    """Return the schedule with these days off; one without moments is returned as it is.

    Raises `InvalidSchedule` for an interval that is not of whole minutes, of which nothing is moved, and for more days
    off in a row than are moved to one business day.
    """
    if isinstance(base, OnDemand):
        return base
    if shift is not None and any(_is_fine(part.times) for term in terms_of(base) for part in term.parts):
        message = f"shift: {base} has an interval that is not of whole minutes"
        allowed = "intervals of whole minutes; cron expressions; or no shift, which leaves out what is on days off"
        raise InvalidSchedule(message, field="shift", value=str(shift), allowed=allowed)
    if shift is not None and len(row := _longest_row(days_off)) > MOST_MOVED:
        message = f"shift: {len(row)} days in a row, from {date_of(row[0])} to {date_of(row[-1])}, are off"
        allowed = f"at most {MOST_MOVED} days off in a row; or no shift, which leaves out what is on days off"
        raise InvalidSchedule(message, field="shift", value=str(shift), allowed=allowed)
    schedule = BusinessDays(base, days_off, shift, zone, Remembered(base))
    schedule.check()
    return schedule


def _longest_row(days_off: DaysOff) -> range:
    """Return the longest row of days off; of short ones another may be longer."""
    by_weekday = (MOST_MOVED + 1) // 7 * days_off.weekdays.bit_count()
    is_short = len(days_off.yearly) + by_weekday <= MOST_MOVED
    return days_off.longest_row(() if is_short else _ALL_KINDS_OF_YEARS)


def _is_fine(times: object) -> bool:
    """Return whether they are those of an interval that is not of whole minutes."""
    match times:
        case Grid(steps=ExactSteps(period=period), first=first, last=last):
            return period % MINUTE != 0 and not first == last is not None
        case Grid(steps=MixedSteps(exact=exact)):
            return exact % MINUTE != 0
        case _:
            return False
