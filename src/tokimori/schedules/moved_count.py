"""How many moments are left where days off are left out or moved: by the seconds, or minutes, of each day."""

from collections.abc import Callable, Iterator, Sequence

from tokimori.clock import DAY, Moment
from tokimori.schedules.second_masks import Mask, nothing
from tokimori.schedules.zones import OVERLAP, stretch_at, stretches_between

Part = tuple[int, int, int]
"""A part of a day in units: its first one, the one after its last, and how far clocks are ahead of UTC."""


class CountedDays:
    """The days of a zone, on some of which nothing stays.

    `is_off` says of a local day whether nothing stays there, and `sources` from which days off moments come to a
    business day. Masks of several fractions are counted one after the other, that of 0 as the last: what is moved into
    a gap of the clocks happens at the end of the gap, whatever its fraction.
    """

    def __init__(
        self, zone: str, unit: int, is_off: Callable[[int], bool], sources: Callable[[int], Sequence[int]]
    ) -> None:
        self._zone, self._unit, self._is_off, self._sources = zone, unit, is_off, sources
        self._a_day = DAY // unit
        self._stretch = stretch_at(zone, 0)
        self._ends_of_gaps: set[int] = set()
        self._mask: Mask = nothing

    def count(self, mask: Mask, fraction: int, after: Moment, through: Moment) -> int:
        """How many moments t of the mask stay or come, with after < t <= through."""
        if mask is nothing and not (fraction == 0 and self._ends_of_gaps):
            return 0
        self._mask = mask
        first, stop = ((at - fraction) // self._unit + 1 for at in (after, through))
        total = 0
        for day in range(self._day_of(first) - 1, self._day_of(stop) + 1):
            parts = self._parts(day)
            stays = self._of_day(day, parts)
            for bits, (low, high, _) in zip(stays, parts, strict=True):
                if fraction == 0 and low in self._ends_of_gaps:
                    bits |= 1  # noqa: PLW2901
                inside = first <= low and high <= stop
                total += (bits if inside else _clipped(bits, low, first, stop)).bit_count()
        return total

    def _of_day(self, day: int, parts: Sequence[Part]) -> list[int]:
        """What stays on the day and what is moved there, as bits for each of its parts."""
        if self._is_off(day):
            return [0] * len(parts)
        stays = [self._mask(low, high) for low, high, _ in parts]
        if sources := self._sources(day):
            self._add(stays, parts, day, sources)
        return stays

    def _add(self, stays: list[int], parts: Sequence[Part], day: int, sources: Sequence[int]) -> None:
        wall = 0
        for source in sources:
            wall |= self._wall(source)
        for n, (low, high, offset) in enumerate(parts):
            start = low + offset - day * self._a_day
            window = (1 << high - low) - 1 << start
            stays[n] |= (wall & window) >> start
            wall &= ~window
        for low, _, offset in parts:
            skipped = wall & (1 << low + offset - day * self._a_day) - 1
            if skipped:
                self._ends_of_gaps.add(low)
            wall ^= skipped
        if wall:
            self._ends_of_gaps.add(parts[-1][1])

    def _wall(self, day: int) -> int:
        """The times that clocks show at moments on the day, as bits since midnight."""
        bits = 0
        for low, high, offset in self._parts(day):
            bits |= self._mask(low, high) << low + offset - day * self._a_day
        return bits

    def _parts(self, day: int) -> Sequence[Part]:
        start, end, offset, _ = self._stretch
        low, high = day * DAY - offset, (day + 1) * DAY - offset
        if start + OVERLAP < low and high + OVERLAP < end:
            return [(low // self._unit, high // self._unit, offset // self._unit)]
        self._stretch = stretch_at(self._zone, high + OVERLAP)
        return list(self._changing(day))

    def _changing(self, day: int) -> Iterator[Part]:
        """The parts of a day near which clocks may change."""
        for start, end, offset, _ in stretches_between(self._zone, (day - 1) * DAY, (day + 2) * DAY):
            first, last = max(start, day * DAY - offset), min(end, (day + 1) * DAY - offset)
            if first < last:
                yield first // self._unit, last // self._unit, offset // self._unit

    def _day_of(self, at: int) -> int:
        return (at * self._unit + stretch_at(self._zone, at * self._unit).offset) // DAY


def _clipped(bits: int, low: int, first: int, stop: int) -> int:
    """Of the units from `low` on those with first <= t < stop."""
    if low < first:
        bits = bits >> first - low << first - low
    length = min(stop - low, bits.bit_length())  # with bits up to `stop` it would be years long
    return bits & (1 << length) - 1 if length > 0 else 0
