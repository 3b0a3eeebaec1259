"""The moments of a day as bits, one for each second: how what is made of several schedules is counted.

Where all times are of one second of the minute, a bit for each minute does: the `unit` is a second or a minute, in
microseconds. Moments a fixed part of a unit behind whole ones have masks of their own: such a part is a `fraction`
here, in microseconds. Intervals that drift through the parts of a second (every 0.7 seconds) are in the masks with
those that lie on the fraction; the others are counted as `progressions`.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import or_
from typing import NamedTuple

from tokimori.clock import DAY, MINUTE, SECOND, Moment
from tokimori.errors import InvalidSchedule
from tokimori.schedules.days import lowest
from tokimori.schedules.grid import CalendarSteps, ExactSteps, Grid, MixedSteps
from tokimori.schedules.progressions import MOST_DRIFTING, Progression, count_any, progression_of
from tokimori.schedules.wall_sets import DayMasks, Overlapping, Pieces
from tokimori.schedules.wallclock import WallClock
from tokimori.schedules.zoned import Zoned
from tokimori.schedules.zones import stretch_at, stretches_between

NEAR = 800 * DAY
"""From so far moments may be moved to others, where clocks were apart from UTC by odd seconds."""
LAST_ODD = 315_532_800 * SECOND
"""1980: since then no clock is apart from UTC by odd seconds."""
MOST_EFFORT = 480
"""So much a year of one text may cost when it is counted, in some tens of microseconds at most."""
_DRIFT = 100
"""So much more, where any of them drifts through the parts of a second."""
Mask = Callable[[int, int], int]
"""The moments of a span of at most a day, low <= t < high in units since 1970 in UTC, as bits: bit 0 is low."""


class Term(NamedTuple):
    """The moments of a part that none of the others has. What is made of schedules is a union of terms."""

    part: Zoned
    without: tuple[Zoned, ...] = ()

    def is_simple(self) -> bool:
        """Return whether its moments of some days are counted faster than they are looked at."""
        return not self.without and not (isinstance(self.part.times, Pieces | Overlapping) and len(self.part.times) > 1)


def drifts(term: Term) -> bool:
    """Return whether its moments are not on few fractions of a second."""
    return not _fractions_of(term.part, SECOND)


def is_fine(term: Term) -> bool:
    """Return whether its moments are those of an interval that is not of whole minutes."""
    match term.part.times:
        case Grid(steps=ExactSteps() | MixedSteps()):
            return not _is_of_minutes(term.part)
        case _:
            return False


def check_effort(terms: Sequence[Term]) -> None:
    """Raise `InvalidSchedule` where a year of the terms would not be counted within some milliseconds."""
    parts = [*dict.fromkeys(part for term in terms for part in (term.part, *term.without))]
    drifting = [part for part in parts if not _fractions_of(part, SECOND)]
    if any(_drifting(part) is None for part in drifting):
        message = "schedule: a period of calendar days and parts of a second can't be combined with others"
        raise InvalidSchedule(message, field="schedule", allowed="whole seconds beside days; or several jobs")
    effort = sum(map(_effort, parts)) + (_DRIFT if drifting else 0)
    if len(drifting) > MOST_DRIFTING or effort > MOST_EFFORT:
        message = "schedule: its members are too many, or too dense, to be counted together"
        allowed = "fewer members, above all fewer intervals and members with seconds; or several jobs"
        raise InvalidSchedule(message, field="schedule", allowed=allowed)


def _effort(part: Zoned) -> int:
    """Return what a year of it costs, in some tens of microseconds at most."""
    match part.times:
        case Grid(first=first, last=last) if first == last is not None:
            return 2
        case Grid(steps=ExactSteps()):
            return 20 if _is_of_minutes(part) else 120
        case Grid(steps=CalendarSteps()):
            return 20
        case Grid():
            return 120
        case _:
            return 15 if _is_of_minutes(part) else 60


class DayByDay:
    """The moments of any of the terms that do not drift, each day of a span by itself."""

    def __init__(self, terms: Sequence[Term], after: Moment, through: Moment) -> None:
        self._unit = unit_of(terms, after, through)
        self._zone = next((term.part.zone for term in terms if not isinstance(term.part.times, Grid)), "UTC")
        fractions = all_fractions(terms, self._unit)
        masks = [(each, mask_of_terms(terms, self._unit, each)) for each in fractions]
        self._masks = [(each, mask) for each, mask in masks if mask is not nothing]

    def count(self, after: Moment, through: Moment) -> int:
        """Count those with after < t <= through."""
        return sum(
            mask(low, high).bit_count()
            for fraction, mask in self._masks
            for low, high in self._spans(fraction, after, through)
        )

    def end(self, after: Moment, through: Moment, *, last: bool) -> Moment | None:
        """Return the first of them, or the last one."""
        found = [at for fraction, mask in self._masks for at in self._ends(fraction, mask, after, through, last=last)]
        return max(found, default=None) if last else min(found, default=None)

    def _ends(self, fraction: int, mask: Mask, after: Moment, through: Moment, *, last: bool) -> Iterator[Moment]:
        for low, high in self._spans(fraction, after, through):
            if bits := mask(low, high):
                yield Moment((low + (bits.bit_length() - 1 if last else lowest(bits))) * self._unit + fraction)

    def _spans(self, fraction: int, after: Moment, through: Moment) -> Iterator[tuple[int, int]]:
        """Yield the days between, as most of the clocks show them: what a clock shows on a whole day is known."""
        unit, a_day = self._unit, DAY // self._unit
        low, stop = (after - fraction) // unit + 1, (through - fraction) // unit + 1
        while low < stop:
            offset = stretch_at(self._zone, low * unit).offset // unit
            high = min(stop, ((low + offset) // a_day + 1) * a_day - offset)
            yield low, high
            low = high


def count_drifting(terms: Sequence[Term], after: Moment, through: Moment) -> int:
    """Count those that drift, and lie on none of the fractions of the others."""
    bases = [found for term in terms if (found := _drifting(term.part)) is not None]
    if not bases:
        return 0
    fractions = all_fractions(terms, SECOND)
    without = {found for term in terms for each in term.without if (found := _drifting(each)) is not None}
    both = _count_between([*bases, *without], fractions, after, through)
    return both - _count_between([*without], fractions, after, through)


def unit_of(terms: Sequence[Term], after: Moment, through: Moment, zone: str = "UTC") -> int:
    """Return a minute where that is fine enough for all times and all clocks of the span, those of `zone` too; or a
    second.
    """
    parts = {part for term in terms for part in (term.part, *term.without)}
    if not all(map(_is_of_minutes, parts)):
        return SECOND
    spans = {(zone, after, through), *(_span_of(part, after, through) for part in parts)}
    return SECOND if any(_is_odd(each, low - NEAR, high + NEAR) for each, low, high in spans) else MINUTE


def _is_odd(zone: str, low: int, high: int) -> bool:
    """Return whether clocks are apart from UTC by odd seconds somewhere there; none are in years after `LAST_ODD`."""
    near = stretches_between(zone, low, max(low + 1, min(high, LAST_ODD)))
    return any(stretch.offset % MINUTE or stretch.before % MINUTE for stretch in near)


def _span_of(part: Zoned, after: Moment, through: Moment) -> tuple[str, int, int]:
    """By which clocks the moments between are made. Those of days and hours go by the days, which may be far away."""
    match part.times:
        case Grid(steps=MixedSteps(calendar=CalendarSteps(anchor=anchor), zone=zone)):
            return zone, min(after, anchor), max(through, min(anchor, LAST_ODD))
        case _:
            return part.zone, after, through


def all_fractions(terms: Sequence[Term], unit: int) -> Sequence[int]:
    """Return the fractions on which any moment may lie that does not drift; 0 is the last of them."""
    parts = (part for term in terms for part in (term.part, *term.without))
    return sorted({0, *(each for part in parts for each in _fractions_of(part, unit))}, reverse=True)


def mask_of_terms(terms: Sequence[Term], unit: int, fraction: int) -> Mask:
    """Return the mask of the moments of all terms that lie on the fraction."""
    groups: dict[tuple[Zoned, ...], list[Zoned]] = {}
    for term in terms:
        groups.setdefault(term.without, []).append(term.part)
    found = [
        (shown, _any(without, unit, fraction))
        for without, parts in groups.items()
        if (shown := _any(parts, unit, fraction)) is not nothing
    ]

    if len(found) == 1 and found[0][1] is nothing:
        return found[0][0]

    def mask(low: int, high: int) -> int:
        bits = 0
        for part, without in found:
            if shown := part(low, high):
                bits |= shown & ~without(low, high) if without is not nothing else shown
        return bits

    return mask if found else nothing


def nothing(_low: int, _high: int) -> int:
    """Return the mask of no moments."""
    return 0


def _any(parts: Sequence[Zoned], unit: int, fraction: int) -> Mask:
    masks = [found for part in parts if (found := _mask_of(part, unit, fraction)) is not nothing]
    if len(masks) < 2:
        return masks[0] if masks else nothing

    def mask(low: int, high: int) -> int:
        return reduce(or_, [each(low, high) for each in masks])

    return mask


# Parts


def clocks_of(zoned: Zoned) -> tuple[WallClock, ...]:
    """Return the clocks whose times it has; none for an interval."""
    match zoned.times:
        case WallClock() as clock:
            return (clock,)
        case Pieces(clocks) | Overlapping(clocks):
            return clocks
        case _:
            return ()


def _is_of_minutes(zoned: Zoned) -> bool:
    match zoned.times:
        case Grid(steps=ExactSteps(period=period)) as grid:
            return period % MINUTE == 0 or grid.first == grid.last is not None
        case Grid(steps=MixedSteps(exact=exact)):
            return exact % MINUTE == 0
        case _:
            return all(clock.seconds.bit_count() == 1 for clock in clocks_of(zoned))


def _fractions_of(zoned: Zoned, unit: int) -> set[int]:
    """Return the fractions on which the moments lie; none for what drifts. What clocks skip may go to a whole unit."""
    times = zoned.times
    if not isinstance(times, Grid):
        seconds = {clock.seconds.bit_length() - 1 for clock in clocks_of(zoned)}
        return {0} if unit == SECOND else {0, *(second * SECOND for second in seconds)}
    match times.steps:
        case ExactSteps(_, period) as steps if period % unit == 0 or times.first == times.last is not None:
            return {0, steps.nth(times.first or 0) % unit} if zoned.shift else {steps.nth(times.first or 0) % unit}
        case CalendarSteps(anchor=anchor):
            return {0, anchor % unit}
        case MixedSteps(calendar=calendar, exact=exact) if exact % unit == 0:
            return {0, calendar.anchor % unit}
        case _:
            return set()


def _drifting(zoned: Zoned) -> Progression | None:
    """Return the moments of an interval that drifts through the parts of a second."""
    return progression_of(zoned.times) if isinstance(zoned.times, Grid) and not _fractions_of(zoned, SECOND) else None


def _count_between(several: Sequence[Progression], fractions: Sequence[int], after: int, through: int) -> int:
    """Count the moments of the progressions that lie on none of the fractions."""
    on = ([found for each in several if (found := each.within(SECOND, fraction))] for fraction in fractions)
    return count_any(several, after, through) - sum(count_any(each, after, through) for each in on)


def _mask_of(zoned: Zoned, unit: int, fraction: int) -> Mask:
    """Return the mask of its moments on the fraction."""
    match zoned.times:
        case WallClock() | Pieces() | Overlapping():
            return _clock_mask(zoned, unit, fraction)
        case Grid(steps=ExactSteps()) as grid if zoned.zone == "UTC":
            found = progression_of(grid)
            found = None if found is None else found.within(unit, fraction)
            return nothing if found is None else _progression_mask(found, unit)
        case _:
            return _walked_mask(zoned, unit, fraction) if fraction in _fractions_of(zoned, unit) else nothing


def _progression_mask(found: Progression, unit: int) -> Mask:
    a_day = DAY // unit
    anchor, period, fraction = found.anchor // unit, found.period // unit, found.anchor % unit
    first, last = -((fraction - found.low) // unit), (found.high - fraction) // unit
    pattern = _pattern(period, -(-2 * a_day // period)) if period <= a_day else 1
    whole = (1 << a_day) - 1

    def mask(low: int, high: int) -> int:
        shift, length = (anchor - low) % period, high - low
        if shift >= length or last < low or first >= high:
            return 0
        bits = pattern << shift & (whole if length == a_day else (1 << length) - 1)
        if first > low or last < high:
            bits &= (1 << min(last - low + 1, length)) - (1 << max(first - low, 0))
        return bits

    return mask


def _pattern(period: int, count: int) -> int:
    """Return a number with `count` bits set, one every `period`."""
    bits, have = 1, 1
    while have < count:  # a division would take some milliseconds
        bits |= bits << period * have
        have *= 2
    return bits & (1 << period * count) - 1


def _clock_mask(zoned: Zoned, unit: int, fraction: int) -> Mask:
    clocks, a_day = clocks_of(zoned), DAY // unit
    if unit == MINUTE:
        clocks = tuple(clock for clock in clocks if clock.seconds == 1 << fraction // SECOND)
    if fraction and (unit == SECOND or fraction % SECOND):
        return nothing
    masks = DayMasks(clocks, a_day)

    def mask(low: int, high: int) -> int:
        start, end, offset, before = stretch_at(zoned.zone, low * unit)
        if high * unit <= end and start + abs(before - offset) < low * unit:
            return masks.shown(low + offset // unit, high + offset // unit)
        return _clock_mask_at_change(zoned, masks, low, high, unit, fraction)

    return mask


def _clock_mask_at_change(  # noqa: PLR0917
    zoned: Zoned, masks: DayMasks, first: int, stop: int, unit: int, fraction: int
) -> int:
    at, bits = first, 0
    while at < stop:
        stretch = stretch_at(zoned.zone, at * unit)
        start, end, offset, before = (each // unit for each in stretch)
        upper = min(end, stop)
        if at == start and not fraction and zoned.shifts(stretch):
            bits |= 1 << at - first
        low = max(at, start + before - offset) if before > offset and zoned.once else at
        if low < upper:
            bits |= masks.shown(low + offset, upper + offset) << low - first
        if zoned.later and at < (later := min(start + offset - before, upper)):
            bits |= masks.shown(at + before, later + before) << at - first
        at = upper
    return bits


def _walked_mask(zoned: Zoned, unit: int, fraction: int) -> Mask:
    """Return the mask of few moments, none of which is looked for twice as long as days are asked for in order."""
    known: tuple[int, Moment | None] | None = None

    def following(moment: int) -> Moment | None:
        nonlocal known
        if known is None or not (known[0] <= moment and (known[1] is None or moment < known[1])):
            known = moment, zoned.next_after(Moment(moment))
        return known[1]

    def mask(low: int, high: int) -> int:
        start, bits = low * unit, 0
        found = following(start - 1)
        while found is not None and found < high * unit:
            if found % unit == fraction:
                bits |= 1 << (found - start) // unit
            found = following(found)
        return bits

    return mask
