"""The moments of a day as bits, one for each second: how what is made of several schedules is counted.

Moments a fixed part of a second behind whole seconds have masks of their own: such a part is a `fraction` here, in
microseconds. Intervals that drift through the parts of a second (every 0.7 seconds) are in the masks with those that
lie on the fraction; the others are counted as `progressions`.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from typing import NamedTuple

from tokimori.clock import DAY as MICROSECONDS_A_DAY
from tokimori.clock import SECOND, Moment
from tokimori.schedules.grid import CalendarSteps, ExactSteps, Grid, MixedSteps
from tokimori.schedules.progressions import Progression, count_any, progression_of
from tokimori.schedules.wall_sets import DayMasks, Overlapping, Pieces
from tokimori.schedules.wallclock import WallClock
from tokimori.schedules.zoned import Zoned
from tokimori.schedules.zones import stretch_at

DAY = 86_400  # seconds
WHOLE_DAY = (1 << DAY) - 1

Mask = Callable[[int], int]
"""The moments of a day of UTC (its number since 1970-01-01) as bits: bit 0 is its first second."""


def nothing(_: int) -> int:
    """The mask of no moments."""
    return 0


def fractions_of(zoned: Zoned) -> set[int]:
    """The fractions on which the moments lie; none for what drifts. What clocks skip may go to a whole second."""
    times = zoned.times
    if not isinstance(times, Grid):
        return {0}
    match times.steps:
        case ExactSteps(_, period) as steps if period % SECOND == 0 or times.first == times.last is not None:
            return {0, steps.nth(times.first or 0) % SECOND} if zoned.shift else {steps.nth(times.first or 0) % SECOND}
        case CalendarSteps(anchor=anchor) | MixedSteps(calendar=CalendarSteps(anchor=anchor)):
            return {0, anchor % SECOND}
        case _:
            return set()


def drifting(zoned: Zoned) -> Progression | None:
    """The moments of an interval that drifts through the parts of a second."""
    return progression_of(zoned.times) if isinstance(zoned.times, Grid) and not fractions_of(zoned) else None


def mask_of(zoned: Zoned, fraction: int) -> Mask:
    """The mask of its moments on the fraction."""
    match zoned.times:
        case WallClock() as clock:
            return nothing if fraction else _wall_mask(zoned, DayMasks((clock,)))
        case Pieces(clocks) | Overlapping(clocks):
            return nothing if fraction else _wall_mask(zoned, DayMasks(clocks))
        case Grid(steps=ExactSteps()) as grid if zoned.zone == "UTC":
            found = progression_of(grid)
            found = None if found is None else found.within_second(fraction)
            return nothing if found is None else _progression_mask(found)
        case _:
            return _walked_mask(zoned, fraction) if fraction in fractions_of(zoned) else nothing


class Term(NamedTuple):
    """The moments of a part that none of the others has. What is made of schedules is a union of terms."""

    part: Zoned
    without: tuple[Zoned, ...] = ()


def count_terms(terms: Sequence[Term], after: Moment, through: Moment) -> int:
    """How many moments t there are in any of the terms, with after < t <= through."""
    fractions = all_fractions(terms)
    total = sum(count_masks(mask_of_terms(terms, each), after, through, each) for each in fractions)
    return total + count_drifting(terms, after, through)


def count_drifting(terms: Sequence[Term], after: Moment, through: Moment) -> int:
    """How many of them drift, and lie on none of the fractions of the others."""
    bases = [found for term in terms if (found := drifting(term.part)) is not None]
    if not bases:
        return 0
    fractions = all_fractions(terms)
    without = {found for term in terms for each in term.without if (found := drifting(each)) is not None}
    both = _count_between([*bases, *without], fractions, after, through)
    return both - _count_between([*without], fractions, after, through)


def all_fractions(terms: Sequence[Term]) -> set[int]:
    """The fractions on which any moment may lie that does not drift."""
    return {each for term in terms for part in (term.part, *term.without) for each in fractions_of(part)}


def _count_between(several: Sequence[Progression], fractions: set[int], after: int, through: int) -> int:
    """How many moments of the progressions lie on none of the fractions."""
    on = ([found for each in several if (found := each.within_second(fraction))] for fraction in fractions)
    return count_any(several, after, through) - sum(count_any(each, after, through) for each in on)


def mask_of_terms(terms: Sequence[Term], fraction: int) -> Mask:
    """The mask of the moments of all terms that lie on the fraction."""
    groups: dict[tuple[Zoned, ...], list[Zoned]] = {}
    for term in terms:
        groups.setdefault(term.without, []).append(term.part)
    found = [(_any(parts, fraction), _any(without, fraction)) for without, parts in groups.items()]

    def mask(day: int) -> int:
        bits = 0
        for part, without in found:
            if shown := part(day):
                bits |= shown & ~without(day) if without is not nothing else shown
        return bits

    return mask


def _any(parts: Sequence[Zoned], fraction: int) -> Mask:
    masks = [mask for part in parts if (mask := mask_of(part, fraction)) is not nothing]
    if len(masks) < 2:
        return masks[0] if masks else nothing

    def mask(day: int) -> int:
        return reduce(or_, [each(day) for each in masks])

    return mask


def count_masks(mask: Mask, after: Moment, through: Moment, fraction: int) -> int:
    """How many moments t of the masks there are with after < t <= through."""
    first, stop = (after - fraction) // SECOND + 1, (through - fraction) // SECOND + 1
    total = 0
    for day in range(first // DAY, -(-stop // DAY)):
        if bits := mask(day):
            if day * DAY < first or stop < (day + 1) * DAY:
                low, high = max(first - day * DAY, 0), min(stop - day * DAY, DAY)
                bits &= (1 << high) - (1 << low)
            total += bits.bit_count()
    return total


def _progression_mask(found: Progression) -> Mask:
    anchor, period = found.anchor // SECOND, found.period // SECOND
    fraction = found.anchor % SECOND
    low, high = -((fraction - found.low) // SECOND), (found.high - fraction) // SECOND
    pattern = _pattern(period, -(-2 * DAY // period)) if period <= DAY else 1

    def mask(day: int) -> int:
        start = day * DAY
        shift = (anchor - start) % period
        if shift >= DAY or high < start or low >= start + DAY:
            return 0
        bits = pattern << shift & WHOLE_DAY
        if low > start or high < start + DAY:
            bits &= (1 << min(high - start + 1, DAY)) - (1 << max(low - start, 0))
        return bits

    return mask


def _pattern(period: int, count: int) -> int:
    """A number with `count` bits set, one every `period`."""
    return ((1 << period * count) - 1) // ((1 << period) - 1)


def _wall_mask(zoned: Zoned, masks: DayMasks) -> Mask:
    def mask(day: int) -> int:
        start, end, offset, before = (each // SECOND for each in stretch_at(zoned.zone, day * MICROSECONDS_A_DAY))
        at, stop = day * DAY, (day + 1) * DAY
        if stop <= end and start + max(before - offset, 0) < at:
            return masks.shown(at + offset, stop + offset)
        return _wall_mask_at_change(zoned, masks, day)

    return mask


def _wall_mask_at_change(zoned: Zoned, masks: DayMasks, day: int) -> int:
    at, stop = day * DAY, (day + 1) * DAY
    bits = 0
    while at < stop:
        stretch = stretch_at(zoned.zone, at * SECOND)
        start, end, offset, before = (each // SECOND for each in stretch)
        upper = min(end, stop)
        if at == start and zoned.shifts(stretch):
            bits |= 1 << at - day * DAY
        low = max(at, start + before - offset) if before > offset and zoned.once else at
        if low < upper:
            bits |= masks.shown(low + offset, upper + offset) << low - day * DAY
        at = upper
    return bits


def _walked_mask(zoned: Zoned, fraction: int) -> Mask:
    """That of few moments, none of which is looked for twice as long as days are asked for in order."""
    known: tuple[int, Moment | None] | None = None

    def following(moment: int) -> Moment | None:
        nonlocal known
        if known is None or not (known[0] <= moment and (known[1] is None or moment < known[1])):
            known = moment, zoned.next_after(Moment(moment))
        return known[1]

    def mask(day: int) -> int:
        start, bits = day * MICROSECONDS_A_DAY, 0
        found = following(start - 1)
        while found is not None and found < start + MICROSECONDS_A_DAY:
            if found % SECOND == fraction:
                bits |= 1 << (found - start) // SECOND
            found = following(found)
        return bits

    return mask
