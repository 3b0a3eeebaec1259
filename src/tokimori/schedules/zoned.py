"""Wall-clock times put on the time line of a zone, under the rules for gaps and folds (DESIGN §4)."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from msgspec import Struct

from tokimori.clock import DAY, Moment
from tokimori.schedules.days import LAST_YEAR, day_of
from tokimori.schedules.schedule import Fold, Gap
from tokimori.schedules.zones import FOREVER, OVERLAP, Stretch, rule_from, stretch_at, stretches_between

_MOST_BY_RULE = 120
"""Number of stretches by a zone's rule that a search visits after the last year that a text may name:
enough for 40 years, which hold all kinds of years. Only times that are always in a gap are not found there, and these
never are.
"""

_NO_MORE_YEARS = day_of(LAST_YEAR + 1, 1, 1) * DAY
_IN_VAIN, _NEVER = 6, -1
"""Number of searches in vain after which the rule is asked if it has any moment; the answer is remembered."""


class WallTimes(Protocol):
    """A set of times as wall clocks show them: microseconds since 1970-01-01T00:00 on that clock, without a zone."""

    def at_or_after(self, wall: int) -> int | None:
        """Return the first time at or after the given one."""
        ...

    def at_or_before(self, wall: int) -> int | None:
        """Return the last time at or before the given one."""
        ...

    def has(self, wall: int) -> bool:
        """Return whether the time is one of them."""
        ...

    def count(self, low: int, high: int) -> int:
        """Count the times t with low <= t < high."""
        ...


class Zoned(Struct, frozen=True):
    """The moments at which the wall clocks of `zone` show one of `times`.

    `shift`: if clocks skip a time, the end of the gap is a moment. `later`: the moment is later than that by as much
    as the time is behind the start of the gap, as if clocks jumped only after it. `once`: if they show a time twice,
    only the first counts. With none of them, the moments are exactly those at which the clock shows the time.
    """

    times: WallTimes
    zone: str
    shift: bool
    once: bool
    later: bool = False

    def next_after(self, moment: Moment) -> Moment | None:
        """Return the first moment strictly after the given one."""
        start, end, offset, _ = stretch_at(self.zone, moment)
        wall = None
        if moment > start + OVERLAP:  # mostly no clock has changed of late, nor does one before the next time
            wall = self.times.at_or_after(moment + 1 + offset)
            if wall is not None and wall - offset < end:
                return Moment(wall - offset)
        return self._search(moment, _IN_VAIN, moment + 1 + offset, wall)

    def is_never_by_rule(self) -> bool:
        """Return whether there is no moment from when on all years of a kind are the same."""
        return self._search(Moment(_same_from(self.zone) - 1), _NEVER) is None

    def _search(self, moment: Moment, in_vain: int, low: int = 0, wall: int | None = None) -> Moment | None:
        """Search on; `wall` is the first time at or after `low`, if that is known."""
        at: int = moment + 1
        by_rule, rule = 0, _same_from(self.zone)
        while by_rule < _MOST_BY_RULE:
            stretch = stretch_at(self.zone, at)
            start, end, offset, before = stretch
            by_rule += start >= rule
            if by_rule == in_vain and _is_never_by_rule(self):
                return None
            if at == start and self.shifts(stretch):
                return Moment(start)
            if before > offset and self.once:
                at = max(at, start + before - offset)
            shown = at + offset
            if wall is None or not low <= shown <= wall:
                low, wall = shown, self.times.at_or_after(shown)
            found = self._skipped_from(stretch, at)
            if wall is not None and wall - offset < end:
                return Moment(wall - offset if found is None else min(found, wall - offset))
            if found is not None or end >= FOREVER:
                return found
            if end - at < DAY:
                at = end  # a fold may follow that shows again what came before
                continue
            if wall is None:
                return None
            there = stretch_at(self.zone, wall - offset)
            if there.offset == offset and wall - offset > there.start + OVERLAP:
                return Moment(wall - offset)
            at = max(end, wall - offset - OVERLAP)
        return None

    def last_before(self, moment: Moment) -> Moment | None:
        """Return the last moment strictly before the given one."""
        at: int = moment - 1
        high, wall = 0, None
        by_rule, rule = 0, _same_from(self.zone)
        while True:
            stretch = stretch_at(self.zone, at)
            start, _end, offset, before = stretch
            by_rule += start >= rule
            if by_rule == _IN_VAIN and start >= rule and _is_never_by_rule(self):
                at, by_rule = min(at, rule - 1), 0
                continue
            floor = start + before - offset if before > offset and self.once else start
            shown = at + offset
            if wall is None or not wall <= shown <= high:
                high, wall = shown, self.times.at_or_before(shown)
            found = self._skipped_until(stretch, at)
            if wall is not None and wall - offset >= floor:
                return Moment(wall - offset if found is None else max(found, wall - offset))
            if found is not None:
                return found
            if self.shifts(stretch):
                return Moment(start)
            if start <= -FOREVER:
                return None
            if at - start < DAY:
                at = start - 1  # a fold may have shown before what would come later
                continue
            if wall is None:
                return None
            at = min(start - 1, wall - offset + OVERLAP)
            if by_rule > _MOST_BY_RULE:
                at, by_rule = min(at, rule - 1), 0

    def names(self, moment: Moment) -> bool:
        """Return whether the moment is one of them."""
        start, _, offset, before = stretch = stretch_at(self.zone, moment)
        if moment == start and self.shifts(stretch):
            return True
        if self.once and moment < start + before - offset:
            return False
        return self.times.has(moment + offset) or self._skipped_from(stretch, moment) == moment

    def count(self, after: Moment, through: Moment) -> int:
        """Count the moments t with after < t <= through."""
        first, stop = after + 1, through + 1
        if first >= stop:
            return 0
        total = 0
        for stretch in stretches_between(self.zone, first, stop):
            start, end, offset, before = stretch
            if start >= first and self.shifts(stretch) and not self.times.count(start + offset, start + offset + 1):
                total += 1
            low = max(first, start + before - offset if before > offset and self.once else start)
            upper = min(end, stop)
            if low < upper:
                total += self.times.count(low + offset, upper + offset)
            total += self._count_skipped(stretch, max(start, first), min(upper, overtaken(stretch)))
        return total

    def shifts(self, stretch: Stretch) -> bool:
        """Return whether the stretch begins with a gap that skipped a time, so that its start is a moment."""
        return self.shift and self.skips(stretch)

    def skips(self, stretch: Stretch) -> bool:
        """Return whether the stretch begins with a gap that skipped a time."""
        if stretch.before >= stretch.offset:
            return False
        wall = self.times.at_or_after(stretch.start + stretch.before)
        return wall is not None and wall < stretch.start + stretch.offset

    # Skipped times that run later, all of them before the moment that `overtaken` gives

    def _skipped_from(self, stretch: Stretch, at: int) -> Moment | None:
        """Return the first moment at or after the given one in the stretch that stands for a skipped time."""
        if not self.later or at >= (stop := overtaken(stretch)):
            return None
        wall = self.times.at_or_after(at + stretch.before)
        return None if wall is None or wall - stretch.before >= stop else Moment(wall - stretch.before)

    def _skipped_until(self, stretch: Stretch, at: int) -> Moment | None:
        """Return the last moment at or before the given one in the stretch that stands for a skipped time."""
        if not self.later or stretch.before >= stretch.offset:
            return None
        wall = self.times.at_or_before(min(at, overtaken(stretch) - 1) + stretch.before)
        return None if wall is None or wall - stretch.before < stretch.start else Moment(wall - stretch.before)

    def _count_skipped(self, stretch: Stretch, low: int, high: int) -> int:
        """Count the moments low <= t < high that stand for skipped times, but for those that the clock names, too."""
        total, at = 0, self._skipped_from(stretch, low) if low < high else None
        while at is not None and at < high:
            total += not self.times.has(at + stretch.offset)
            at = self._skipped_from(stretch, at + 1)
        return total


def overtaken(stretch: Stretch) -> int:
    """Return the moment from which on none stands for a time that was skipped at the start of the stretch."""
    return stretch.start + max(stretch.offset - stretch.before, 0)


@lru_cache(maxsize=256)
def _same_from(zone: str) -> int:
    """Return the moment from which years of a kind are alike: by the zone's rule, and beyond years in texts."""
    return max(rule_from(zone), _NO_MORE_YEARS)


@lru_cache(maxsize=256)
def _is_never_by_rule(zoned: Zoned) -> bool:
    return zoned.is_never_by_rule()


@dataclass(frozen=True, slots=True, kw_only=True)
class ZonedSchedule:
    """A `Schedule` whose moments are those of a `Zoned`, which follows from the other fields and is not compared."""

    moments: Zoned = field(repr=False, compare=False)

    def next_after(self, moment: Moment) -> Moment | None:
        """Return the first moment strictly after the given one."""
        return self.moments.next_after(moment)

    def last_before(self, moment: Moment) -> Moment | None:
        """Return the last moment strictly before the given one."""
        return self.moments.last_before(moment)


class ZoneRules(Struct, frozen=True):
    """The zone of a text's wall-clock times, and what happens to fixed ones where clocks jump."""

    zone: str
    gap: Gap = Gap.SHIFT
    fold: Fold = Fold.FIRST

    def moments(self, times: WallTimes, zone: str | None = None, *, fixed: bool = True) -> Zoned:
        """Return the moments of the times, in `zone` if the text names one.

        The rules apply to `fixed` times only, but for the one by which skipped times run later.
        """
        zone = zone or self.zone
        jumps = zone != "UTC"  # if clocks never jump the rules are the same, and equal kinds can be merged
        shift, once = self.gap is Gap.SHIFT, self.fold is Fold.FIRST
        return Zoned(times, zone, jumps and fixed and shift, jumps and fixed and once, jumps and self.gap is Gap.LATER)
