"""Whole days between two changes of the clocks, counted as the minutes of all of them at once.

As long as an offset stays the same, everything is at a fixed distance: clocks, intervals and single moments are bits,
one for each minute that the clocks show. Each second of the minute, and each part of it on which a moment lies, is a
`fraction` with bits of its own; fractions on which only clocks lie have them in common.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import gcd

from tokimori.clock import DAY, MINUTE, SECOND, Moment
from tokimori.schedules.days import lowest
from tokimori.schedules.grid import FIRST_MOMENT, LAST_WALL, CalendarSteps, ExactSteps, Grid
from tokimori.schedules.progressions import Progression, row_of_grid
from tokimori.schedules.second_masks import Term, all_fractions, clocks_of, drifts
from tokimori.schedules.tally import Tally
from tokimori.schedules.wall_sets import DayMasks
from tokimori.schedules.wallclock import WallClock
from tokimori.schedules.zoned import Zoned
from tokimori.schedules.zones import OVERLAP, fixed_offset, stretch_at

MINUTES = DAY // MINUTE
"""Bits of a day."""
MOST_DAYS = 366
"""So many days are counted at once: some 64 KiB, which stay near the processor."""

_Key = tuple[object, ...]
_Span = tuple[int, int]
_Minutes = tuple[int, int, int, int]
"""Minutes at one distance: the first of them from 0 on, the distance, the least one and the one after the greatest."""


class Frame:
    """The terms on days on which the clocks of the zone have the offset."""

    def __init__(self, terms: Sequence[Term], zone: str, offset: int) -> None:
        self._groups: dict[tuple[Zoned, ...], list[_Part]] = {}
        known: dict[Zoned, _Part] = {}
        patterns = _Patterns()

        def part_of(zoned: Zoned) -> _Part:
            if zoned not in known:
                known[zoned] = _part_of(zoned, zone, offset, patterns)
            return known[zoned]

        for term in terms:
            self._groups.setdefault(term.without, []).append(part_of(term.part))
        self._without = {each: [part_of(part) for part in each] for each in self._groups}
        self._few = [part for part in known.values() if isinstance(part, _Few)]
        self._both = [(parts, self._without[each]) for each, parts in self._groups.items()]
        self._shown = [part for parts in self._groups.values() for part in parts]
        self._drifts = any(map(drifts, terms))
        self._of_second = all_fractions(terms, SECOND)
        self._keys: dict[int, _Key] = {}
        self._known_alone: dict[int, Progression | None] = {}

    def count(self, first: int, stop: int, left: Callable[[int], int] | None = None) -> int:
        """Count the moments on the days first <= d < stop, at most some `MOST_DAYS`, that do not drift.

        `left` says what stays of the minutes of these days.
        """
        span, total = (first * MINUTES, stop * MINUTES), 0
        alike = defaultdict[_Key, list[int]](list)
        for fraction in self._fractions(span):
            if left is None and (alone := self._alone(fraction)) is not None:
                total += alone.count(first * DAY - 1, stop * DAY - 1)
            else:
                alike[self._key(fraction)].append(fraction)
        tallies = defaultdict[int, Tally](Tally)
        for fractions in alike.values():
            bits = self._bits(fractions[0], span)
            tallies[len(fractions)].add(left(bits) if left is not None and bits else bits)
        return total + sum(often * tally.bits() for often, tally in tallies.items())

    def times(self, first: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the minutes of the day on which any of these days has a moment, as bits, for each fraction that has
        any.
        """
        span = first * MINUTES, stop * MINUTES
        known: dict[_Key, int] = {}
        for fraction in self._fractions(span):
            key = self._key(fraction)
            if key not in known:
                known[key] = _folded(self._bits(fraction, span), stop - first)
            if known[key]:
                yield fraction, known[key]

    def end(self, first: int, stop: int, *, last: bool) -> int | None:
        """Return the first of these moments, or the last one, as clocks show it."""
        span, found = (first * MINUTES, stop * MINUTES), list[int]()
        for fraction in self._fractions(span):
            if bits := self._bits(fraction, span):
                bit = bits.bit_length() - 1 if last else lowest(bits)
                found.append((span[0] + bit) * MINUTE + fraction)
        return max(found, default=None) if last else min(found, default=None)

    def _fractions(self, span: _Span) -> Iterable[int]:
        """Return the fractions on which a moment of the span may lie that does not drift."""
        for part in self._few:
            part.look(span)
        if self._few:
            self._keys, self._known_alone = {}, {}
        if self._drifts:
            return [second * SECOND + part for second in range(60) for part in self._of_second]
        return {fraction for part in self._shown for fraction in part.fractions(span)}

    def _key(self, fraction: int) -> _Key:
        """Return the same where two fractions have the same bits."""
        if fraction not in self._keys:
            self._keys[fraction] = tuple(
                (tuple([part.key(fraction) for part in parts]), tuple([part.key(fraction) for part in without]))
                for parts, without in self._both
            )
        return self._keys[fraction]

    def _alone(self, fraction: int) -> Progression | None:
        """Return the moments of the fraction where they are those of one interval."""
        if fraction not in self._known_alone:
            found = [(part, without) for parts, without in self._both for part in parts if part.key(fraction)]
            alone = len(found) == 1 and not any(part.key(fraction) for part in found[0][1])
            part = found[0][0] if alone else None
            self._known_alone[fraction] = part.of(fraction) if isinstance(part, _Steps) else None
        return self._known_alone[fraction]

    def _bits(self, fraction: int, span: _Span) -> int:
        bits = 0
        for each, parts in self._groups.items():
            shown = 0
            for part in parts:
                shown |= part.bits(fraction, span)
            for part in self._without[each]:
                if not shown:
                    break
                shown ^= shown & part.bits(fraction, span)  # `& ~` goes over all digits twice more
            bits |= shown
        return bits


def _folded(bits: int, days: int) -> int:
    """Return the minutes of all the days as those of one."""
    while days > 1:
        half = (days + 1) // 2
        bits = bits >> half * MINUTES | bits & (1 << half * MINUTES) - 1
        days = half
    return bits


def plain_days(zone: str, after: Moment, through: Moment) -> Iterator[tuple[int, int, int]]:
    """Rows of whole days within after < t <= through that are far from any change of the clocks.

    Each is (first day, the one after the last, offset); what lies between them is near a change, or not a whole day.
    """
    at: int = after + 1
    while at <= through:
        start, end, offset, _ = stretch_at(zone, at)
        first = -(-(max(at, start + OVERLAP) + offset) // DAY)
        stop = (min(through + 1, end - OVERLAP) + offset) // DAY
        if first < stop:
            yield first, stop, offset
        at = end


# Parts


class _Patterns(dict[tuple[int, int], int]):
    """Numbers with a bit set every `period`, up to a length."""

    def of(self, period: int, length: int) -> int:
        """Return the number."""
        if (period, length) not in self:
            bits, have = 1, 1
            while have * period < length:  # a division would take some milliseconds
                bits |= bits << period * have
                have *= 2
            self[period, length] = bits & (1 << length) - 1
        return self[period, length]


class _Clocks:
    """Times of clocks in the zone."""

    def __init__(self, clocks: tuple[WallClock, ...]) -> None:
        self._clocks = clocks
        self._masks = DayMasks(clocks, MINUTES)
        self._keys: dict[int, int] = {}
        self._span: _Span | None = None
        self._days: list[int] = []
        self._last: tuple[object, int] = None, 0

    def fractions(self, _span: _Span) -> set[int]:
        """Return their seconds."""
        seconds = 0
        for clock in self._clocks:
            seconds |= clock.seconds
        return {second * SECOND for second in range(60) if seconds >> second & 1}

    def key(self, fraction: int) -> int:
        """Return the clocks that have the second, as bits."""
        if fraction % SECOND:
            return 0
        if fraction not in self._keys:
            second = fraction // SECOND
            self._keys[fraction] = sum(1 << n for n, clock in enumerate(self._clocks) if clock.seconds >> second & 1)
        return self._keys[fraction]

    def bits(self, fraction: int, span: _Span) -> int:
        """Return the minutes that they have."""
        key = self.key(fraction)
        if not key:
            return 0
        if self._span != span:
            self._span, self._days = span, self._masks.days(span[0] // MINUTES, span[1] // MINUTES)
        if self._last[0] != (key, span):
            times = {day: self._masks.times(day & key) for day in set(self._days)}
            self._last = (key, span), int.from_bytes(b"".join([times[day] for day in self._days]), "little")
        return self._last[1]


class _Steps:
    """An interval of exact time, or one of days on the clocks of the zone."""

    def __init__(self, moments: Progression, patterns: _Patterns) -> None:
        self._moments, self._patterns = moments, patterns
        self._step = gcd(moments.period, MINUTE)
        self._keys: dict[int, _Minutes | None] = {}

    def fractions(self, _span: _Span) -> set[int]:
        """Return the fractions on which they lie; none if they drift."""
        return set() if self._step % SECOND else set(range(self._moments.anchor % self._step, MINUTE, self._step))

    def of(self, fraction: int) -> Progression | None:
        """Return the moments of the fraction."""
        return self._moments.within(MINUTE, fraction)

    def key(self, fraction: int) -> "_Minutes | None":
        """Return the minutes of these, which several fractions may have in common."""
        if (fraction - self._moments.anchor) % self._step:
            return None
        if fraction not in self._keys:
            found = self.of(fraction)
            self._keys[fraction] = None if found is None else _minutes_of(found, fraction)
        return self._keys[fraction]

    def bits(self, fraction: int, span: _Span) -> int:
        """Return the minutes of these."""
        found = self.key(fraction)
        if found is None:
            return 0
        first, period, low, stop = found
        low, stop = max(span[0], low), min(span[1], stop)
        start = low + (first - low) % period
        if start >= stop:
            return 0
        length = span[1] - span[0]
        bits = self._patterns.of(period, length) << start - span[0]
        return bits & (self._patterns.of(1, length) if stop == span[1] else (1 << stop - span[0]) - 1)


def _minutes_of(found: Progression, fraction: int) -> _Minutes:
    period, low, stop = (
        found.period // MINUTE,
        -((fraction - found.low) // MINUTE),
        (found.high - fraction) // MINUTE + 1,
    )
    return (found.anchor - fraction) // MINUTE % period, period, low, stop


class _Few:
    """Moments that are looked for one by one."""

    def __init__(self, zoned: Zoned, offset: int) -> None:
        self._zoned, self._offset = zoned, offset
        self._span: _Span | None = None
        self._known: dict[int, bytearray] = {}

    def fractions(self, span: _Span) -> set[int]:
        """Return the fractions on which they lie."""
        return set(self._known)

    def key(self, fraction: int) -> tuple[int] | None:
        """Return each fraction on which any of them lies has its own."""
        return (fraction,) if fraction in self._known else None

    def bits(self, fraction: int, _span: _Span) -> int:
        """Return the minutes of those on the fraction."""
        return int.from_bytes(self._known[fraction], "little") if fraction in self._known else 0

    def look(self, span: _Span) -> None:
        """Look for those of the span, of which is told then."""
        if self._span == span:
            return
        self._span, self._known = span, {}
        low, high = span
        for at in self._between(low * MINUTE - self._offset, high * MINUTE - self._offset):
            minute, fraction = divmod(at + self._offset, MINUTE)
            found = self._known.setdefault(fraction, bytearray((high - low) // 8 + 1))
            found[(minute - low) // 8] |= 1 << (minute - low) % 8

    def _between(self, low: int, high: int) -> Iterator[int]:
        """Yield the moments low <= t < high."""
        found = self._zoned.next_after(Moment(low - 1))
        if found is not None and self._zoned.zone == "UTC" and isinstance(grid := self._zoned.times, Grid):
            n = grid.steps.index(found)
            while found < high and found <= LAST_WALL and (grid.last is None or n <= grid.last):
                yield found
                n, found = n + 1, Moment(grid.steps.nth(n + 1))
            return
        while found is not None and found < high:
            yield found
            found = self._zoned.next_after(found)


_Part = _Clocks | _Steps | _Few


def _part_of(zoned: Zoned, zone: str, offset: int, patterns: _Patterns) -> _Part:
    grid, own = zoned.times, offset if zoned.zone == zone else fixed_offset(zoned.zone)
    if not isinstance(grid, Grid):
        return _Clocks(clocks_of(zoned))
    if grid.first == grid.last is not None:
        at = zoned.next_after(Moment(FIRST_MOMENT))
        shown = 0 if at is None else at + offset
        return _Steps(Progression(shown, MINUTE, shown, shown if at is not None else shown - 1), patterns)
    match grid.steps:
        case ExactSteps() if zoned.zone == "UTC":
            return _Steps(_moved(row_of_grid(grid, grid.steps), offset), patterns)
        case CalendarSteps(anchor=anchor, months=0, days=days) if own is not None:
            return _Steps(_moved(row_of_grid(grid, ExactSteps(anchor, days * DAY)), offset - own), patterns)
        case _:
            return _Few(zoned, offset)


def _moved(row: Progression, by: int) -> Progression:
    return Progression(row.anchor + by, row.period, row.low + by, row.high + by)
