"""Schedules made from others: a union, and a schedule with exclusions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import gcd
from operator import or_

from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import MINUTE, SECOND, Moment, format_moment
from tokimori.errors import InvalidSchedule
from tokimori.schedules.grid import FIRST_MOMENT, LAST_MOMENT, CalendarSteps, ExactSteps, Grid
from tokimori.schedules.schedule import Remembered, Schedule
from tokimori.schedules.wallclock import EVERY_SECOND, MOST_PIECES, WallClock, any_of, joined, minus
from tokimori.schedules.zoned import Zoned, ZonedSchedule
from tokimori.schedules.zones import stretch_at, stretches_between

MOST_EXCLUDED = 400
"""Number of moments in a row that may be excluded, each looked at by itself; a row that clocks exclude is one look."""
_ENDLESS = 1 << 62
_ALL_SECONDS = EVERY_SECOND.seconds


@dataclass(frozen=True, slots=True)
class Union:
    """The moments of any of the members; one that several of them name counts once."""

    members: tuple[Schedule, ...]
    _parts: tuple[Schedule, ...] = field(repr=False, compare=False)

    def next_after(self, moment: Moment) -> Moment | None:
        """Return the first moment strictly after the given one."""
        found: Moment | None = None
        for part in self._parts:
            at = part.next_after(moment, found) if isinstance(part, Difference) else part.next_after(moment)
            found = at if found is None or (at is not None and at < found) else found
        return found

    def last_before(self, moment: Moment) -> Moment | None:
        """Return the last moment strictly before the given one."""
        found: Moment | None = None
        for part in self._parts:
            at = part.last_before(moment, found) if isinstance(part, Difference) else part.last_before(moment)
            found = at if found is None or (at is not None and at > found) else found
        return found

    def __str__(self) -> str:
        return "; ".join(str(member) for member in self.members)


@dataclass(frozen=True, slots=True)
class Except:
    """The moments of `base` except those of `excluded`.

    If both are wall-clock times of one zone, times are removed before the rules for gaps and folds apply.
    """

    base: Schedule
    excluded: Schedule
    _kept: Schedule = field(repr=False, compare=False)

    def next_after(self, moment: Moment) -> Moment | None:
        """Return the first moment strictly after the given one."""
        return self._kept.next_after(moment)

    def last_before(self, moment: Moment) -> Moment | None:
        """Return the last moment strictly before the given one."""
        return self._kept.last_before(moment)

    def __str__(self) -> str:
        return f"{self.base} except {self.excluded}"


class Difference(Struct, frozen=True):
    """The moments of `base` that are not in `excluded`, compared one by one.

    `free` holds the seconds that no excluded wall-clock time covers, as far as the base may name them on a clock whose
    offset is whole minutes: from a moment that one covers a search goes on there. `folds`: of what clocks show twice,
    some exclude the first time only.
    """

    base: Schedule
    excluded: Schedule
    free: Zoned | None
    folds: bool

    def next_after(self, moment: Moment, limit: Moment | None = None, looks: int = _ENDLESS) -> Moment | None:
        """Return the first moment strictly after the given one; it is not looked for behind the limit."""
        looked, was_free = 0, True
        while looked < looks:
            if limit is not None and moment >= limit:
                return None
            found = self.base.next_after(moment)
            if found is None or not names(self.excluded, found):
                return found
            is_free = looked == 0 or self.free is None or self.free.names(found)
            free = None if is_free or self.free is None else self._if_whole(self.free.next_after(found), found)
            moment = found if free is None else Moment(max(found, free - 1))
            looked += is_free or not was_free  # the first one that wall-clock times exclude leads on to what is free
            was_free = is_free
        raise self._too_long(moment)

    def last_before(self, moment: Moment, limit: Moment | None = None, looks: int = _ENDLESS) -> Moment | None:
        """Return the last moment strictly before the given one; it is not looked for before the limit."""
        looked, was_free = 0, True
        while looked < looks:
            if limit is not None and moment <= limit:
                return None
            found = self.base.last_before(moment)
            if found is None or not names(self.excluded, found):
                return found
            is_free = looked == 0 or self.free is None or self.free.names(found)
            free = None if is_free or self.free is None else self._if_whole(self.free.last_before(found), found)
            moment = found if free is None else Moment(min(found, free + 1))
            looked += is_free or not was_free  # the first one that wall-clock times exclude leads on to what is free
            was_free = is_free
        raise self._too_long(moment)

    def check(self) -> None:
        """Raise `InvalidSchedule` if a search takes too long from an end of the calendar, or of an interval."""
        ends = ends_in(self.excluded)
        each = replace(self, base=_remembering(self.base))  # what a member answered holds until the search is there
        for first in {FIRST_MOMENT, max((first for first, _ in ends), default=FIRST_MOMENT)}:
            each.next_after(Moment(first - 1), looks=MOST_EXCLUDED + 1)
        for last in {LAST_MOMENT, *(last for _, last in ends)}:
            each.last_before(Moment(last + 1), looks=MOST_EXCLUDED + 1)

    def _if_whole(self, free: Moment | None, moment: Moment) -> Moment | None:
        """Return the free moment, unless clocks here or there are apart from UTC by odd seconds, as before 1972, or
        what they show twice would be passed.
        """
        if free is None or self.free is None or abs(free - moment) <= SECOND:
            return free
        if self.folds and self._repeats(self.free.zone, Moment(min(free, moment)), max(free, moment)):
            return None
        return None if any(stretch_at(self.free.zone, at).offset % MINUTE for at in (free, moment)) else free

    @staticmethod
    def _repeats(zone: str, low: Moment, high: int) -> bool:
        """Return whether clocks show something for the second time between the moments."""
        stretches = stretches_between(zone, low, high)
        return any(low < start + before - offset and start < high for start, _, offset, before in stretches)

    def _too_long(self, moment: Moment) -> InvalidSchedule:
        found = self.base.next_after(Moment(moment - 1)) or moment
        by = next((each for each in members_of(self.excluded) if names(each, found)), self.excluded)
        message = (
            f"schedule: more than {MOST_EXCLUDED} moments in a row are excluded, such as {format_moment(found)} by {by}"
        )
        allowed = f"at most {MOST_EXCLUDED} in a row that intervals or dates name one by one; or several jobs"
        return InvalidSchedule(message, field="schedule", value=str(by), allowed=allowed)


def _remembering(schedule: Schedule) -> Schedule:
    """Return the same moments for searches that make many steps: a member is asked again once its answer is passed."""
    return Union((), tuple(map(Remembered, schedule._parts))) if isinstance(schedule, Union) else schedule


def ends_in(schedule: Schedule) -> list[tuple[int, int]]:
    """Return the first and the last moments of the intervals that have several: beside them a search may be long."""
    base = schedule.base if isinstance(schedule, Except) else schedule
    return [found for each in members_of(base) if (found := _ends_of(each))]


def _ends_of(schedule: Schedule) -> tuple[int, int] | None:
    """Return the first and the last moment of an interval that has several."""
    grid = schedule.moments.times if isinstance(schedule, ZonedSchedule) else None
    if not isinstance(grid, Grid) or grid.first == grid.last is not None:
        return None
    first, last = schedule.next_after(Moment(FIRST_MOMENT)), schedule.last_before(Moment(LAST_MOMENT))
    return None if first is None or last is None else (first, last)


def names(schedule: Schedule, moment: Moment) -> bool:
    """Return whether the schedule names the moment."""
    match schedule:
        case Union():
            return any(names(part, moment) for part in schedule._parts)
        case ZonedSchedule():
            return schedule.moments.names(moment)
        case Zoned():
            return schedule.names(moment)
        case _:
            return schedule.next_after(Moment(moment - 1)) == moment


def union(members: Sequence[Schedule]) -> Schedule:
    """Return the union of the schedules; a single one is itself."""
    distinct = tuple(dict.fromkeys(members))
    return distinct[0] if len(distinct) == 1 else Union(distinct, _merged(distinct))


def without(base: Schedule, excluded: Schedule, zone: str) -> Except:
    """Return the schedule without the moments of `excluded`; `zone` is the one in which both are meant."""
    taken = joined(clock for each in members_of(excluded) if (clock := _clock_in(each, zone)) is not None)
    others = [each for each in members_of(excluded) if _clock_in(each, zone) is None]
    kept = list[Schedule](_clocks_left(base, taken, zone))
    if others and kept:
        kept = [Difference(Union((), tuple(kept)), union(others), None, folds=False)]
    rest = [each for each in members_of(base) if _clock_in(each, zone) is None]
    if rest:
        folds = any(isinstance(each, ZonedSchedule) and each.moments.once for each in members_of(excluded))
        kept.append(Difference(union(rest), excluded, _free(rest, taken, zone), folds))
    for part in kept:
        if isinstance(part, Difference):
            part.check()
    return Except(base, excluded, Union((), tuple(kept)))


def _clocks_left(base: Schedule, taken: Sequence[WallClock], zone: str) -> Iterator[Zoned]:
    """Yield the remaining wall-clock times, by the rules for gaps and folds."""
    rules: dict[tuple[bool, bool, bool], dict[WallClock, Schedule]] = {}
    for each in members_of(base):
        if isinstance(each, ZonedSchedule) and (clock := _clock_in(each, zone)) is not None:
            rule = (each.moments.shift, each.moments.once, each.moments.later)
            rules.setdefault(rule, {})[clock] = each
    for rule, known in rules.items():
        pieces = list[WallClock]()
        for clock in joined(known):
            left = minus(clock, taken)
            if left is None or len(pieces) + len(left) > MOST_PIECES:
                raise _too_many(next(each for at, each in known.items() if at.days == clock.days))
            pieces += left
        if pieces:
            yield Zoned(any_of(pieces), zone, *rule)


def _too_many(member: Schedule) -> InvalidSchedule:
    message = f"schedule: the exclusions leave over {MOST_PIECES} sets of days of {member} and what stands before it"
    allowed = "fewer members with days or hours of their own; or several jobs"
    return InvalidSchedule(message, field="schedule", value=str(member), allowed=allowed)


def _free(base: Sequence[Schedule], taken: Sequence[WallClock], zone: str) -> Zoned | None:
    """Return the seconds that none of the clocks covers, as far as the base may name them; None: nobody knows."""
    seconds = reduce(or_, map(_seconds_of, base), 0)
    if not taken or not seconds:
        return None
    free = minus(WallClock(EVERY_SECOND.days, EVERY_SECOND.minutes, seconds), taken)
    return None if free is None else Zoned(any_of(free), zone, shift=False, once=False)


def _seconds_of(schedule: Schedule) -> int:
    """Return the seconds of the minute that an interval names, as bits, on a clock whose offset is whole minutes."""
    grid = schedule.moments.times if isinstance(schedule, ZonedSchedule) else None
    match grid:
        case Grid(steps=ExactSteps(anchor, period), first=int(first), last=last) if first == last:
            anchor, step = anchor + first * period, 60
        case Grid(steps=ExactSteps(anchor, period)) if period % SECOND == 0:
            step = gcd(period // SECOND, 60)
        case Grid(steps=CalendarSteps(anchor=anchor)):
            step = 60
        case _:
            return _ALL_SECONDS
    return 0 if anchor % SECOND else sum(1 << second for second in range(anchor // SECOND % step, 60, step))


def members_of(schedule: Schedule) -> tuple[Schedule, ...]:
    """Return the schedules that are united, or the one itself."""
    return schedule.members if isinstance(schedule, Union) else (schedule,)


def _clock_in(schedule: Schedule, zone: str) -> WallClock | None:
    if isinstance(schedule, ZonedSchedule) and schedule.moments.zone == zone:
        times = schedule.moments.times
        return times if isinstance(times, WallClock) else None
    return None


def _merged(members: Sequence[Schedule]) -> tuple[Schedule, ...]:
    """Return the same moments in fewer parts: wall-clock times under the same rules become one."""
    kinds: dict[tuple[str, bool, bool, bool], list[WallClock]] = {}
    parts: list[Schedule] = []
    for member in members:
        moments = member.moments if isinstance(member, ZonedSchedule) else member
        if isinstance(moments, Zoned) and isinstance(moments.times, WallClock):
            kind = (moments.zone, moments.shift, moments.once, moments.later)
            kinds.setdefault(kind, []).append(moments.times)
        else:
            parts.append(moments)
    merged = [Zoned(any_of(joined(clocks)), *kind) for kind, clocks in kinds.items()]
    return (*merged, *parts)
