"""Schedules made from others: a union, and a schedule with exclusions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec import Struct, structs

from tokimori.clock import DAY, MINUTE, SECOND, Moment
from tokimori.errors import Bug, InvalidSchedule
from tokimori.schedules.counted import LONG, narrowed
from tokimori.schedules.covering import Covering, covering
from tokimori.schedules.grid import FIRST_MOMENT, LAST_MOMENT, ExactSteps, Grid
from tokimori.schedules.schedule import Schedule
from tokimori.schedules.second_masks import Term, check_effort
from tokimori.schedules.terms import Terms
from tokimori.schedules.wall_sets import EVERY_SECOND, Pieces, minus, times_of
from tokimori.schedules.wallclock import WallClock
from tokimori.schedules.zoned import Zoned, ZonedSchedule
from tokimori.schedules.zones import stretch_at, stretches_between

MOST_LOOKS = 1_000
"""Within so many looks, each at a moment or a day, one must be found that is not excluded when a text is read: from the
ends of the calendar, and of each excluded interval.
"""
_WALKED = 12
"""So many excluded moments in a row are looked at by themselves; each further look is at a span of time."""
_LEAST_LOOKS = 100
"""A look at a span of time counts as so many at least, for it takes as long."""
_FIRST_SPAN = 30 * DAY
"""How long that span is at first; at most it is `LONG`, which is counted without a search."""
ENDLESS = 1 << 62
"""Looks that are not counted."""
_ALL = Moment(FIRST_MOMENT), Moment(LAST_MOMENT)
_FEW = 100
"""So many moments are always walked."""


@dataclass(frozen=True, slots=True)
class Union:
    """The moments of any of the members; one that several of them name counts once."""

    members: tuple[Schedule, ...]
    _parts: tuple[Schedule, ...] = field(repr=False, compare=False)

    def next_after(self, moment: Moment) -> Moment | None:
        """Return the first moment strictly after the given one."""
        found: Moment | None = None
        for part in self._parts:
            at = part.look_after(moment, ENDLESS, found)[0] if isinstance(part, Difference) else part.next_after(moment)
            found = at if found is None or (at is not None and at < found) else found
        return found

    def last_before(self, moment: Moment) -> Moment | None:
        """Return the last moment strictly before the given one."""
        found: Moment | None = None
        for part in self._parts:
            at = (
                part.look_before(moment, ENDLESS, found)[0]
                if isinstance(part, Difference)
                else part.last_before(moment)
            )
            found = at if found is None or (at is not None and at > found) else found
        return found

    def count(self, after: Moment, through: Moment) -> int:
        """Count the moments t with after < t <= through.

        Wall-clock times of one kind are counted by arithmetic. Where kinds meet (an interval and a cron expression,
        fixed times and others), the moments of the rarer ones are walked; many are compared as the seconds of each day.
        """
        if len(self._parts) == 1:
            return self._parts[0].count(after, through)
        after, through = narrowed(self, after, through)
        few = _few(after, through)
        if any(isinstance(part, Difference) for part in self._parts):
            return Terms(terms_of(self)).count(after, through)
        counts = list[tuple[int, int]]()
        for n in reversed(range(len(self._parts))):  # intervals first, which are counted at once
            counts.append((self._parts[n].count(after, through), n))
            if sum(number for number, _ in counts) - max(counts)[0] > few:
                return Terms(terms_of(self)).count(after, through)
        total, parts = 0, [(number, self._parts[n]) for number, n in sorted(counts, reverse=True) if number]
        for n, (number, part) in enumerate(parts):
            total += number - common(part, Union((), tuple(each for _, each in parts[:n])), after, through)
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
        """Return the first moment strictly after the given one."""
        return self._kept.next_after(moment)

    def last_before(self, moment: Moment) -> Moment | None:
        """Return the last moment strictly before the given one."""
        return self._kept.last_before(moment)

    def count(self, after: Moment, through: Moment) -> int:
        """Count the moments t with after < t <= through."""
        return self._kept.count(after, through)

    def __str__(self) -> str:
        return f"{self.base} except {self.excluded}"


class Difference(Struct, frozen=True):
    """The moments of `base`, an interval or a single moment, that are not in `excluded`, compared one by one.

    `free` holds the seconds that no excluded wall-clock time covers, as far as the base may name them on a clock whose
    offset is whole minutes. `folds`: of what clocks show twice, some exclude the first time only. After a few excluded
    moments in a row a search jumps to where the row ends, as far as that is known; after more of them it looks for the
    span of time that has any, and halves it.
    """

    base: Schedule
    excluded: Schedule
    free: Zoned
    folds: bool
    covering: Covering | None

    def next_after(self, moment: Moment) -> Moment | None:
        """Return the first moment strictly after the given one."""
        return self.look_after(moment, ENDLESS)[0]

    def last_before(self, moment: Moment) -> Moment | None:
        """Return the last moment strictly before the given one."""
        return self.look_before(moment, ENDLESS)[0]

    def look_after(self, moment: Moment, looks: int, limit: Moment | None = None) -> tuple[Moment | None, int]:
        """Return the first moment strictly after the given one; it is not looked for behind the limit.

        And how many of the looks are left. Raises `InvalidSchedule` where they don't find it.
        """
        walked, span = 0, _FIRST_SPAN
        while looks > 0:
            if limit is not None and moment >= limit:
                return None, looks
            found = self.base.next_after(moment)
            if found is None or not names(self.excluded, found):
                return found, looks
            moment = self._last_excluded(found) if walked else found
            walked, looks = walked + 1, looks - 1
            if walked >= _WALKED:
                stop = Moment(moment + span)
                if (at := self._end(moment, stop, last=False)) is not None:
                    return at, looks
                looks -= max(min(self.base.count(moment, stop), span // DAY), _LEAST_LOOKS)
                moment, span = stop, min(2 * span, LONG)
        raise _too_long()

    def look_before(self, moment: Moment, looks: int, limit: Moment | None = None) -> tuple[Moment | None, int]:
        """Return the last moment strictly before the given one; it is not looked for before the limit.

        And how many of the looks are left. Raises `InvalidSchedule` where they don't find it.
        """
        walked, span = 0, _FIRST_SPAN
        while looks > 0:
            if limit is not None and moment <= limit:
                return None, looks
            found = self.base.last_before(moment)
            if found is None or not names(self.excluded, found):
                return found, looks
            moment = self._first_excluded(found) if walked else found
            walked, looks = walked + 1, looks - 1
            if walked >= _WALKED:
                start = Moment(moment - span)
                if (at := self._end(Moment(start - 1), Moment(moment - 1), last=True)) is not None:
                    return at, looks
                looks -= max(min(self.base.count(start, moment), span // DAY), _LEAST_LOOKS)
                moment, span = start, min(2 * span, LONG)
        raise _too_long()

    def _end(self, after: Moment, through: Moment, *, last: bool) -> Moment | None:
        """Return the first moment t with after < t <= through, or the last one."""
        return Terms(terms_of(self)).end(after, through, last=last)

    def check(self) -> None:
        """Raise `InvalidSchedule` where a search takes too long from an end of the calendar, or of an interval."""
        for first, last in self.ends():
            self.look_after(Moment(first - 1), MOST_LOOKS)
            self.look_before(Moment(last + 1), MOST_LOOKS)

    def ends(self) -> set[tuple[Moment, Moment]]:
        """From where searches are tried: the ends of the calendar, and of each excluded interval."""
        return {_ALL, *(_ends(leaf) for leaf in _leaves(self.excluded))}

    def count(self, after: Moment, through: Moment) -> int:
        """Count the moments t with after < t <= through; as in `Union.count`, many are not walked."""
        after, through = narrowed(self, after, through)
        total = self.base.count(after, through)
        if total > _few(after, through):
            return Terms(terms_of(self)).count(after, through)
        return total - common(self.base, self.excluded, after, through)

    def _last_excluded(self, moment: Moment) -> Moment:
        """Return the last of an unbroken row of excluded moments that begins at the given one, as far as can be
        told.
        """
        free = self._if_whole(self.free.next_after(moment), moment)
        end = self.covering.last(moment) if self.covering else moment
        return end if free is None else Moment(max(end, free - 1))

    def _if_whole(self, free: Moment | None, moment: Moment) -> Moment | None:
        """Return the free moment, unless clocks here or there are apart from UTC by odd seconds, as before 1972, or
        what they show twice would be passed.
        """
        if free is None or abs(free - moment) <= SECOND:
            return free
        if self.folds and self._repeats(Moment(min(free, moment)), max(free, moment)):
            return None
        both = [stretch_at(self.free.zone, at).offset % MINUTE for at in (free, moment)]
        return None if any(both) else free

    def _repeats(self, low: Moment, high: int) -> bool:
        """Return whether clocks show something for the second time between the moments."""
        stretches = stretches_between(self.free.zone, low, high)
        return any(low < start + before - offset and start < high for start, _, offset, before in stretches)

    def _first_excluded(self, moment: Moment) -> Moment:
        """Return the first of an unbroken row of excluded moments that ends at the given one, as far as can be told."""
        free = self._if_whole(self.free.last_before(moment), moment)
        start = self.covering.first(moment) if self.covering else moment
        return start if free is None else Moment(min(start, free + 1))


def _ends(schedule: Schedule) -> tuple[Moment, Moment]:
    """Return the first and the last moment of an interval that has several; those of the calendar for others."""
    grid = schedule.moments.times if isinstance(schedule, ZonedSchedule) else None
    if not isinstance(grid, Grid) or grid.first == grid.last is not None:
        return _ALL
    return schedule.next_after(_ALL[0]) or _ALL[0], schedule.last_before(_ALL[1]) or _ALL[1]


def _too_long() -> InvalidSchedule:
    message = f"schedule: it excludes more than {MOST_LOOKS} moments or days in a row, of which no formula is known"
    allowed = "shorter exclusions; cron expressions rather than intervals of months; or several jobs"
    return InvalidSchedule(message, field="schedule", allowed=allowed)


def terms_of(schedule: Schedule) -> Sequence[Term]:
    """Return the terms of which the schedule is the union, as it is counted by the seconds of days."""
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


def _few(after: Moment, through: Moment) -> int:
    """As many moments as can be walked in the time in which the days between are compared."""
    return max(_FEW, (through - after) // DAY // 2)


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


def common(one: Schedule, other: Schedule, after: Moment, through: Moment) -> int:
    """Count the moments after < t <= through that both have, in about as many steps as the rarer one has moments."""
    total = 0
    while (first := one.next_after(after)) is not None and first <= through:
        second = other.next_after(Moment(first - 1))
        if second is None or second > through:
            break
        total += first == second
        after = first if first == second else Moment(second - 1)
    return total


def union(members: Sequence[Schedule]) -> Schedule:
    """Return the union of the schedules; a single one is itself."""
    distinct = tuple(dict.fromkeys(members))
    return distinct[0] if len(distinct) == 1 else _counted(Union(distinct, _merged(distinct)))


_Made = TypeVar("_Made", Union, Except)


def _counted(schedule: _Made) -> _Made:
    """Return the schedule. Raises `InvalidSchedule` where counting its moments would take too long."""
    terms = terms_of(schedule)
    if len(terms) > 1 or any(term.without for term in terms):
        check_effort(terms)
    return schedule


def without(base: Schedule, excluded: Schedule, zone: str) -> Except:
    """Return the schedule without the moments of `excluded`; `zone` is the one in which both are meant."""
    leaves = _leaves(excluded)
    clocks = [clock for leaf in leaves if (clock := _clock_in(leaf, zone)) is not None]
    others = [leaf for leaf in leaves if _clock_in(leaf, zone) is None]
    free = minus((EVERY_SECOND,), clocks)
    folds = any(isinstance(leaf, ZonedSchedule) and leaf.moments.once for leaf in leaves)
    kept: list[Schedule] = []
    for part in _merged(_leaves(base)):
        if isinstance(part, Zoned) and isinstance(part.times, Pieces) and part.zone == zone:
            all_free = Zoned(Pieces(free), zone, shift=False, once=False)
            for pieces in _alike(minus(part.times.pieces, clocks), others):
                rest = structs.replace(part, times=Pieces(pieces))
                known = _covering(rest, others, zone)
                kept.append(Difference(rest, union(others), all_free, False, known) if others else rest)
        else:
            kept.append(Difference(part, excluded, _free_for(part, free, zone), folds, _covering(part, leaves, zone)))
    made = _counted(Except(base, excluded, Union((), tuple(kept))))
    for part in kept:
        if isinstance(part, Difference):
            part.check()
    return made


def _alike(pieces: tuple[WallClock, ...], excluded: Sequence[Schedule]) -> Iterator[tuple[WallClock, ...]]:
    """Yield the pieces; beside intervals those of days of the week by themselves, as these may all be excluded."""
    weekly = tuple(piece for piece in pieces if excluded and piece.days.weekdays)
    rest = tuple(piece for piece in pieces if piece not in weekly)
    if weekly:
        yield weekly
    if rest or not weekly:
        yield rest


def _free_for(base: Schedule, free: tuple[WallClock, ...], zone: str) -> Zoned:
    """Return the free seconds; for an interval of whole minutes only those on its own second of the minute."""
    steps = _exact_steps(base)
    if steps is not None and steps.anchor % SECOND == steps.period % MINUTE == 0:
        own = 1 << steps.anchor // SECOND % 60
        free = tuple(structs.replace(piece, seconds=own) for piece in free if piece.seconds & own)
    return Zoned(Pieces(free), zone, shift=False, once=False)


def _covering(base: Schedule, excluded: Sequence[Schedule], zone: str) -> Covering | None:
    """Return what is known of where the excluded schedules leave nothing of the base."""
    parts = [leaf.moments for leaf in excluded if isinstance(leaf, ZonedSchedule)]
    return covering(base, parts, zone) if isinstance(base, Zoned) else None


def _exact_steps(schedule: Schedule) -> ExactSteps | None:
    """Return the steps of an interval of exact time."""
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
    merged = [Zoned(times_of(clocks), *kind) for kind, clocks in kinds.items()]
    return (*merged, *parts)
