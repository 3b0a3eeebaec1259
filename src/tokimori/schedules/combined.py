"""Schedules made from others: a union, and a schedule with exclusions."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec import structs

from tokimori.clock import DAY, MINUTE, SECOND, Moment
from tokimori.errors import Bug
from tokimori.schedules.grid import ExactSteps, Grid
from tokimori.schedules.schedule import Schedule
from tokimori.schedules.second_masks import Term, check_effort, count_terms
from tokimori.schedules.wall_sets import EVERY_SECOND, Pieces, minus, times_of
from tokimori.schedules.wallclock import WallClock
from tokimori.schedules.zoned import Zoned, ZonedSchedule
from tokimori.schedules.zones import FOREVER, stretch_at

_MAX_EXCLUDED = 1_000
"""How many excluded moments in a row a search passes, before it answers that there are no more."""
_EVER = Moment(FOREVER)
_LONG = 2 * 366 * DAY
_FEW = 100
"""So many moments are always walked."""


@dataclass(frozen=True, slots=True)
class Union:
    """The moments of any of the members; one that several of them name counts once."""

    members: tuple[Schedule, ...]
    _parts: tuple[Schedule, ...] = field(repr=False, compare=False)

    def next_after(self, moment: Moment) -> Moment | None:
        """The first moment strictly after the given one."""
        return min((at for part in self._parts if (at := part.next_after(moment)) is not None), default=None)

    def last_before(self, moment: Moment) -> Moment | None:
        """The last moment strictly before the given one."""
        return max((at for part in self._parts if (at := part.last_before(moment)) is not None), default=None)

    def count(self, after: Moment, through: Moment) -> int:
        """How many moments t there are with after < t <= through.

        Wall-clock times of one kind are counted by arithmetic. Where kinds meet (an interval and a cron expression,
        fixed times and others), the moments of the rarer ones are walked; many are compared as the seconds of each day.
        """
        if len(self._parts) == 1:
            return self._parts[0].count(after, through)
        few = _few(after, through)
        if any(isinstance(part, Difference) for part in self._parts):
            return _count_days(self, after, through)
        counts = sorted((part.count(after, through), n) for n, part in enumerate(self._parts))
        if sum(number for number, _ in counts[:-1]) > few:
            return _count_days(self, after, through)
        total, parts = 0, [self._parts[n] for number, n in reversed(counts) if number]
        for n, part in enumerate(parts):
            total += part.count(after, through) - common(part, Union((), tuple(parts[:n])), after, through)
        return total

    def __str__(self) -> str:
        return "; ".join(str(member) for member in self.members)


@dataclass(frozen=True, slots=True)
class Except:
    """The moments of `base` except those of `excluded`.

    Where both are wall-clock times of one zone, times are removed before the rules for gaps and folds apply.
    """

    base: Schedule
    excluded: Schedule
    _kept: Schedule = field(repr=False, compare=False)

    def next_after(self, moment: Moment) -> Moment | None:
        """The first moment strictly after the given one."""
        return self._kept.next_after(moment)

    def last_before(self, moment: Moment) -> Moment | None:
        """The last moment strictly before the given one."""
        return self._kept.last_before(moment)

    def count(self, after: Moment, through: Moment) -> int:
        """How many moments t there are with after < t <= through."""
        return self._kept.count(after, through)

    def __str__(self) -> str:
        return f"{self.base} except {self.excluded}"


@dataclass(frozen=True, slots=True)
class Difference:
    """The moments of `base`, an interval or a single moment, that are not in `excluded`, compared one by one.

    `free` holds the seconds that no excluded wall-clock time covers, as far as the base may name them on a clock whose
    offset is whole minutes. `covering` are intervals that exclude every moment of the base while they last. After two
    excluded moments in a row a search jumps to where these end: a long exclusion is not walked.
    """

    base: Schedule
    excluded: Schedule
    free: Zoned
    covering: tuple[Schedule, ...]

    def next_after(self, moment: Moment) -> Moment | None:
        """The first moment strictly after the given one."""
        for n in range(_MAX_EXCLUDED):
            found = self.base.next_after(moment)
            if found is None or not names(self.excluded, found):
                return found
            moment = self._last_excluded(found) if n else found
        return None

    def last_before(self, moment: Moment) -> Moment | None:
        """The last moment strictly before the given one."""
        for n in range(_MAX_EXCLUDED):
            found = self.base.last_before(moment)
            if found is None or not names(self.excluded, found):
                return found
            moment = self._first_excluded(found) if n else found
        return None

    def count(self, after: Moment, through: Moment) -> int:
        """How many moments t there are with after < t <= through; as in `Union.count`, many are not walked."""
        total = self.base.count(after, through)
        if total > _few(after, through):
            return _count_days(self, after, through)
        return total - common(self.base, self.excluded, after, through)

    def _last_excluded(self, moment: Moment) -> Moment:
        """The last of an unbroken row of excluded moments that begins at the given one, as far as can be told."""
        free = self._if_whole(self.free.next_after(moment), moment)
        ends = [cover.last_before(_EVER) or moment for cover in self.covering if names(cover, moment)]
        return max([moment, *ends] if free is None else [moment, Moment(free - 1), *ends])

    def _if_whole(self, free: Moment | None, moment: Moment) -> Moment | None:
        """The free moment, unless clocks here or there are apart from UTC by odd seconds, as before 1972."""
        if free is None or abs(free - moment) <= SECOND:
            return free
        both = [stretch_at(self.free.zone, at).offset % MINUTE for at in (free, moment)]
        return None if any(both) else free

    def _first_excluded(self, moment: Moment) -> Moment:
        """The first of an unbroken row of excluded moments that ends at the given one, as far as can be told."""
        free = self._if_whole(self.free.last_before(moment), moment)
        starts = [cover.next_after(Moment(-FOREVER)) or moment for cover in self.covering if names(cover, moment)]
        return min([moment, *starts] if free is None else [moment, Moment(free + 1), *starts])


def terms_of(schedule: Schedule) -> Sequence[Term]:
    """What the schedule is the union of, as it is counted by the seconds of days."""
    match schedule:
        case Union():
            return [term for part in schedule._parts for term in terms_of(part)]
        case Except():
            return terms_of(schedule._kept)
        case Difference():
            without = tuple(term.part for term in terms_of(schedule.excluded))
            return [Term(term.part, without) for term in terms_of(schedule.base)]
        case ZonedSchedule():
            return [Term(schedule.moments)]
        case Zoned():
            return [Term(schedule)]
        case _:
            raise Bug(f"a {type(schedule).__name__} is counted by nobody else")


def _count_days(schedule: Schedule, after: Moment, through: Moment) -> int:
    """The count by the seconds of days; a long span begins with its first moment."""
    if through - after > _LONG:
        found = schedule.next_after(after)
        if found is None or found > through:
            return 0
        after, through = Moment(found - 1), min(through, schedule.last_before(Moment(through + 1)) or through)
    return count_terms(terms_of(schedule), after, through)


def _few(after: Moment, through: Moment) -> int:
    """As many moments as can be walked in the time in which the days between are compared."""
    return max(_FEW, (through - after) // DAY // 2)


def names(schedule: Schedule, moment: Moment) -> bool:
    """Whether the schedule names the moment."""
    return schedule.next_after(Moment(moment - 1)) == moment


def common(one: Schedule, other: Schedule, after: Moment, through: Moment) -> int:
    """How many moments after < t <= through both have, in about as many steps as the rarer one has moments."""
    total = 0
    while (first := one.next_after(after)) is not None and first <= through:
        second = other.next_after(Moment(first - 1))
        if second is None or second > through:
            break
        total += first == second
        after = first if first == second else Moment(second - 1)
    return total


def union(members: Sequence[Schedule]) -> Schedule:
    """The union of the schedules; a single one is itself."""
    distinct = tuple(dict.fromkeys(members))
    return distinct[0] if len(distinct) == 1 else _counted(Union(distinct, _merged(distinct)))


_Made = TypeVar("_Made", Union, Except)


def _counted(schedule: _Made) -> _Made:
    """The schedule. Raises `InvalidSchedule` where counting its moments would take too long."""
    terms = terms_of(schedule)
    if len(terms) > 1 or any(term.without for term in terms):
        check_effort(terms)
    return schedule


def without(base: Schedule, excluded: Schedule, zone: str) -> Except:
    """The schedule without the moments of `excluded`; `zone` is the one in which both are meant."""
    leaves = _leaves(excluded)
    clocks = [clock for leaf in leaves if (clock := _clock_in(leaf, zone)) is not None]
    others = [leaf for leaf in leaves if _clock_in(leaf, zone) is None]
    free = minus((EVERY_SECOND,), clocks)
    kept: list[Schedule] = []
    for part in _merged(_leaves(base)):
        if isinstance(part, Zoned) and isinstance(part.times, Pieces) and part.zone == zone:
            rest = Zoned(Pieces(minus(part.times.pieces, clocks)), zone, part.shift, part.once)
            all_free = Zoned(Pieces(free), zone, shift=False, once=False)
            kept.append(Difference(rest, union(others), all_free, _covering(rest, others)) if others else rest)
        else:
            kept.append(Difference(part, excluded, _free_for(part, free, zone), _covering(part, others)))
    return _counted(Except(base, excluded, Union((), tuple(kept))))


def _free_for(base: Schedule, free: tuple[WallClock, ...], zone: str) -> Zoned:
    """The free seconds; for an interval of whole minutes only those on its own second of the minute."""
    steps = _exact_steps(base)
    if steps is not None and steps.anchor % SECOND == steps.period % MINUTE == 0:
        own = 1 << steps.anchor // SECOND % 60
        free = tuple(structs.replace(piece, seconds=own) for piece in free if piece.seconds & own)
    return Zoned(Pieces(free), zone, shift=False, once=False)


def _covering(base: Schedule, excluded: Sequence[Schedule]) -> tuple[Schedule, ...]:
    """The excluded intervals that name every moment of the base while they last."""
    steps = _exact_steps(base)
    if steps is None and isinstance(base, Zoned) and isinstance(base.times, Pieces):
        steps = ExactSteps(0, SECOND)
    if steps is None:
        return ()
    found = [(leaf, other) for leaf in excluded if (other := _exact_steps(leaf)) is not None]
    return tuple(
        leaf
        for leaf, other in found
        if steps.period % other.period == 0 and (steps.anchor - other.anchor) % other.period == 0
    )


def _exact_steps(schedule: Schedule) -> ExactSteps | None:
    """The steps of an interval of exact time."""
    moments = schedule.moments if isinstance(schedule, ZonedSchedule) else schedule
    times = moments.times if isinstance(moments, Zoned) else None
    return times.steps if isinstance(times, Grid) and isinstance(times.steps, ExactSteps) else None


def _leaves(schedule: Schedule) -> tuple[Schedule, ...]:
    return schedule.members if isinstance(schedule, Union) else (schedule,)


def _clock_in(schedule: Schedule, zone: str) -> WallClock | None:
    if isinstance(schedule, ZonedSchedule) and schedule.moments.zone == zone:
        times = schedule.moments.times
        return times if isinstance(times, WallClock) else None
    return None


def _merged(members: Sequence[Schedule]) -> tuple[Schedule, ...]:
    """The same moments in fewer parts: wall-clock times under the same rules become one."""
    kinds: dict[tuple[str, bool, bool], list[WallClock]] = {}
    parts: list[Schedule] = []
    for member in members:
        moments = member.moments if isinstance(member, ZonedSchedule) else member
        if isinstance(moments, Zoned) and isinstance(moments.times, WallClock):
            kinds.setdefault((moments.zone, moments.shift, moments.once), []).append(moments.times)
        else:
            parts.append(moments)
    merged = [Zoned(times_of(clocks), zone, shift, once) for (zone, shift, once), clocks in kinds.items()]
    return (*merged, *parts)
