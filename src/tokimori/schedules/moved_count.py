"""Number of moments that are left if days off are left out or moved: by the seconds, or minutes, of each day."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from tokimori.clock import DAY, Moment
from tokimori.schedules.days_off import DaysOff
from tokimori.schedules.frames import MINUTES, MOST_DAYS, Frame
from tokimori.schedules.second_masks import Mask, nothing
from tokimori.schedules.zones import OVERLAP, stretch_at, stretches_between

_WHOLE, _NONE = bytes([255]) * (MINUTES // 8), bytes(MINUTES // 8)
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
        """Count the moments t of the mask that stay or come, with after < t <= through."""
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
        """Return what stays on the day and what is moved there, as bits for each of its parts."""
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
        """Return the times that clocks show at moments on the day, as bits since midnight."""
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
        """Yield the parts of a day near which clocks may change."""
        for start, end, offset, _ in stretches_between(self._zone, (day - 1) * DAY, (day + 2) * DAY):
            first, last = max(start, day * DAY - offset), min(end, (day + 1) * DAY - offset)
            if first < last:
                yield first // self._unit, last // self._unit, offset // self._unit

    def _day_of(self, at: int) -> int:
        return (at * self._unit + stretch_at(self._zone, at * self._unit).offset) // DAY


class MovedRows:
    """Rows of whole days far from any change of the clocks, of which days off are left out or moved.

    `towards`: the business day to which they go is the next (1) or the previous one (-1); 0: to none.
    """

    def __init__(self, frame: Frame, days_off: DaysOff, towards: int) -> None:
        self._frame, self._days_off, self._towards = frame, days_off, towards

    def bounds(self, first: int, stop: int) -> tuple[int, int]:
        """Return the days of the row to which nothing comes from beyond its ends."""
        if self._towards > 0 and self._is_off(first - 1):
            while first < stop and self._is_off(first):
                first += 1
            first += 1
        if self._towards < 0 and self._is_off(stop):
            while first < stop and self._is_off(stop - 1):
                stop -= 1
            stop -= 1
        return first, max(first, stop)

    def count(self, first: int, stop: int) -> int:
        """Count the moments that do not drift and stay or come on the days first <= d < stop."""
        return sum(self._count(low, min(low + MOST_DAYS, stop)) for low in range(first, stop, MOST_DAYS))

    def _count(self, first: int, stop: int) -> int:
        low, high = first, stop
        while self._towards > 0 and self._is_off(low - 1):
            low -= 1
        while self._towards < 0 and self._is_off(high):
            high += 1
        off = [self._is_off(day) for day in range(low, high)]
        business = _bits_of(not each for each in off)
        counted = business & _bits_of(first <= day < stop for day in range(low, high))
        filling = list(self._filling(_bits_of(off), _longest(off)))

        def left(bits: int) -> int:
            if not filling:
                return bits & counted
            going = bits & filling[0][1]
            for days, way in filling:
                going |= self._later(going, days) & way
            return (bits | self._later(going, 1)) & counted

        return self._frame.count(low, high, left)

    def _filling(self, off: int, longest: int) -> Iterator[tuple[int, int]]:
        """So many days, and the days off to which the times of as many days off before may go: twice as many each."""
        days = 1
        while self._towards and days <= longest:
            yield days, off
            off &= self._later(off, days)
            days *= 2

    def _later(self, bits: int, days: int) -> int:
        return bits << days * MINUTES if self._towards > 0 else bits >> days * MINUTES

    def _is_off(self, day: int) -> bool:
        return self._days_off.last_in_row(day) is not None


def _bits_of(days: Iterable[bool]) -> int:
    """Return a bit for each minute of the days."""
    return int.from_bytes(b"".join(_WHOLE if each else _NONE for each in days), "little")


def _longest(days: Sequence[bool]) -> int:
    """Return the length of the longest row of them."""
    return max((len([*row]) for each, row in groupby(days) if each), default=0)


def _clipped(bits: int, low: int, first: int, stop: int) -> int:
    """Return the units from `low` on with first <= t < stop."""
    if low < first:
        bits = bits >> first - low << first - low
    length = min(stop - low, bits.bit_length())  # with bits up to `stop` it would be years long
    return bits & (1 << length) - 1 if length > 0 else 0
