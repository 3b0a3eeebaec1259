"""How many moments are left where days off are left out or moved: by the seconds of each day."""

from collections.abc import Callable, Iterator, Sequence

from tokimori.clock import DAY as MICROSECONDS_A_DAY
from tokimori.clock import SECOND
from tokimori.schedules.second_masks import DAY, WHOLE_DAY, Mask
from tokimori.schedules.zones import OVERLAP, stretch_at, stretches_between

Part = tuple[int, int, int]
"""A part of a day: its first second, the second after its last one, and how far clocks are ahead of UTC."""


class CountedDays:
    """The days of a zone, on some of which nothing stays.

    `mask` are the seconds of days of UTC, `is_off` says of a local day whether nothing stays there, and `sources` from
    which days off moments come to a business day.
    """

    def __init__(
        self, mask: Mask, zone: str, is_off: Callable[[int], bool], sources: Callable[[int], Sequence[int]]
    ) -> None:
        self._mask, self._zone, self._is_off, self._sources = mask, zone, is_off, sources
        self._near: dict[int, int] = {}
        self._stretch = stretch_at(zone, 0)

    def count(self, first: int, stop: int) -> int:
        """How many seconds t there are with first <= t < stop."""
        total, spilled = 0, False
        for day in range(self._day_of(first) - 1, self._day_of(stop) + 1):
            parts = self._parts(day)
            if self._is_off(day):
                total += bool(spilled and parts and first <= parts[0][0] < stop)
                spilled = False
                continue
            stays = [self._shown(low, high) for low, high, _ in parts]
            spills = self._add(stays, parts, day, sources) if (sources := self._sources(day)) else False
            if spilled:
                stays[0] |= 1
            spilled = spills
            total += sum(
                _clipped(bits, low, first, stop).bit_count() for bits, (low, _, _) in zip(stays, parts, strict=True)
            )
        return total

    def _add(self, stays: list[int], parts: Sequence[Part], day: int, sources: Sequence[int]) -> bool:
        """Add what is moved to the day; whether something goes beyond its end, as the day ends in a gap."""
        wall = 0
        for source in sources:
            wall |= self._wall(source)
        for n, (low, high, offset) in enumerate(parts):
            start = low + offset - day * DAY
            window = (1 << high - low) - 1 << start
            stays[n] |= (wall & window) >> start
            wall &= ~window
        for n, (low, _, offset) in enumerate(parts):
            skipped = wall & (1 << low + offset - day * DAY) - 1
            stays[n] |= bool(skipped)
            wall ^= skipped
        return bool(wall)

    def _wall(self, day: int) -> int:
        """The times that clocks show at moments on the day, as bits since midnight."""
        bits = 0
        for low, high, offset in self._parts(day):
            bits |= self._shown(low, high) << low + offset - day * DAY
        return bits

    def _parts(self, day: int) -> Sequence[Part]:
        start, end, offset, _ = self._stretch
        low, high = day * MICROSECONDS_A_DAY - offset, (day + 1) * MICROSECONDS_A_DAY - offset
        if start + OVERLAP < low and high + OVERLAP < end:
            return [(low // SECOND, high // SECOND, offset // SECOND)]
        self._stretch = stretch_at(self._zone, high + OVERLAP)
        return list(self._changing(day))

    def _changing(self, day: int) -> Iterator[Part]:
        """The parts of a day near which clocks may change."""
        low, high = (day - 1) * MICROSECONDS_A_DAY, (day + 2) * MICROSECONDS_A_DAY
        for start, end, offset, _ in stretches_between(self._zone, low, high):
            first = max(start, day * MICROSECONDS_A_DAY - offset) // SECOND
            last = min(end, (day + 1) * MICROSECONDS_A_DAY - offset) // SECOND
            if first < last:
                yield first, last, offset // SECOND

    def _shown(self, low: int, high: int) -> int:
        """The seconds with low <= t < high, as bits; bit 0 is low."""
        bits, day = 0, low // DAY
        while day * DAY < high:
            shift = day * DAY - low
            mask = self._of_utc(day)
            bits |= mask << shift if shift >= 0 else mask >> -shift
            day += 1
        return bits & (WHOLE_DAY if high - low == DAY else (1 << high - low) - 1)

    def _of_utc(self, day: int) -> int:
        if day not in self._near:
            if len(self._near) > 16:
                self._near.clear()
            self._near[day] = self._mask(day)
        return self._near[day]

    def _day_of(self, second: int) -> int:
        return (second * SECOND + stretch_at(self._zone, second * SECOND).offset) // MICROSECONDS_A_DAY


def _clipped(bits: int, low: int, first: int, stop: int) -> int:
    """Of the seconds from `low` on those with first <= t < stop."""
    if low < first:
        bits = bits >> first - low << first - low
    return bits & (1 << max(stop - low, 0)) - 1 if bits and stop - low < DAY * 2 else bits
