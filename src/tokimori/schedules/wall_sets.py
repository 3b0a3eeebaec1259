"""Sets of wall-clock times built from others, as pieces that have no time in common, so that they can be counted."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tokimori.clock import SECOND
from tokimori.errors import InvalidSchedule
from tokimori.schedules.days import (
    ALL_MONTHS,
    ALL_WEEKDAYS,
    EVERY_DAY,
    FIRST_DAY,
    LAST_DAY,
    Days,
    date_of,
    in_both,
    in_first_only,
    lowest,
    month_length,
)
from tokimori.schedules.wallclock import WallClock

EVERY_SECOND = WallClock(
    Days(EVERY_DAY, ALL_MONTHS, years=-1, weekdays=ALL_WEEKDAYS), minutes=(1 << 1440) - 1, seconds=(1 << 60) - 1
)
_DAY = 86_400  # seconds
_FEW_CLOCKS = 3
"""Of more of them it is asked first which have the day."""
_FEW_LOOKS, _MOST_LOOKS = 300, 1_000
"""So many pairs of clocks are compared for one set of pieces, some 5 µs each: few where there is another way to count.
"""


@dataclass(frozen=True, slots=True)
class Pieces:
    """The times of all the pieces (a `WallTimes`); no two have one in common."""

    pieces: tuple[WallClock, ...]

    def __len__(self) -> int:
        return len(self.pieces)

    def at_or_after(self, wall: int) -> int | None:
        """Return the first time at or after the given one."""
        return _first_of(self.pieces, wall)

    def at_or_before(self, wall: int) -> int | None:
        """Return the last time at or before the given one."""
        return _last_of(self.pieces, wall)

    def has(self, wall: int) -> bool:
        """Return whether the time is one of them."""
        return any(piece.has(wall) for piece in self.pieces)

    def count(self, low: int, high: int) -> int:
        """Count the times t with low <= t < high."""
        return sum(piece.count(low, high) for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Overlapping:
    """The times of any of the clocks (a `WallTimes`), which have times in common in so many ways that days are counted
    one by one.
    """

    clocks: tuple[WallClock, ...]

    def __len__(self) -> int:
        return len(self.clocks)

    def at_or_after(self, wall: int) -> int | None:
        """Return the first time at or after the given one."""
        return _first_of(self.clocks, wall)

    def at_or_before(self, wall: int) -> int | None:
        """Return the last time at or before the given one."""
        return _last_of(self.clocks, wall)

    def has(self, wall: int) -> bool:
        """Return whether the time is one of them."""
        return any(clock.has(wall) for clock in self.clocks)

    def count(self, low: int, high: int) -> int:
        """Count the times t with low <= t < high."""
        return DayMasks(self.clocks).count(-(-low // SECOND), -(-high // SECOND))


def _first_of(clocks: tuple[WallClock, ...], wall: int) -> int | None:
    """Return the first time of any of them at or after the given one: on its day, where most are found, or later."""
    if len(clocks) > _FEW_CLOCKS:
        day = -(-wall // SECOND) // _DAY
        today = [at for clock in clocks if clock.days.has(day) and (at := clock.at_or_after(wall)) is not None]
        if today and (first := min(today)) < (day + 1) * _DAY * SECOND:
            return first
    return min([at for clock in clocks if (at := clock.at_or_after(wall)) is not None], default=None)


def _last_of(clocks: tuple[WallClock, ...], wall: int) -> int | None:
    """Return the last time of any of them at or before the given one: on its day, or earlier."""
    if len(clocks) > _FEW_CLOCKS:
        day = wall // SECOND // _DAY
        today = [at for clock in clocks if clock.days.has(day) and (at := clock.at_or_before(wall)) is not None]
        if today and (last := max(today)) >= day * _DAY * SECOND:
            return last
    return max([at for clock in clocks if (at := clock.at_or_before(wall)) is not None], default=None)


class DayMasks:
    """The times of any of the clocks, as bits for the seconds of a day; what days have in common is reckoned once.

    Or for its minutes (`a_day` = 1440), each of which stands for the same second of it.
    """

    def __init__(self, clocks: tuple[WallClock, ...], a_day: int = _DAY) -> None:
        self._clocks, self._a_day = clocks, a_day
        self._start, self._kinds = 0, list[int]()
        self._masks: dict[int, int] = {0: 0}

    def shown(self, low: int, high: int) -> int:
        """Return the seconds t with low <= t < high that any of the clocks names, as bits; bit 0 is low."""
        if high - low == self._a_day and low % self._a_day == 0:
            return self._of_kind(self._kind(low // self._a_day))
        bits = 0
        for day in range(low // self._a_day, (high - 1) // self._a_day + 1):
            shift = day * self._a_day - low
            mask = self._of_kind(self._kind(day))
            bits |= mask << shift if shift >= 0 else mask >> -shift
        return bits & (1 << high - low) - 1

    def days(self, first: int, stop: int) -> list[int]:
        """Return which of the clocks have each of the days first <= d < stop, as bits."""
        return [self._kind(day) for day in range(first, stop)]

    def times(self, clocks: int) -> bytes:
        """Return the times of a day on which these clocks are."""
        return self._of_kind(clocks).to_bytes(self._a_day // 8, "little")

    def count(self, first: int, stop: int) -> int:
        """Count the seconds t with first <= t < stop that they name."""
        first, stop = max(first, FIRST_DAY * self._a_day), min(stop, (LAST_DAY + 1) * self._a_day)
        if first >= stop:
            return 0
        day, last = -(-first // self._a_day), stop // self._a_day
        if day > last:
            return self.shown(first, stop).bit_count()
        total = self.shown(first, day * self._a_day).bit_count() if first < day * self._a_day else 0
        total += self.shown(last * self._a_day, stop).bit_count() if last * self._a_day < stop else 0
        while day < last:
            self._kind(day)
            there = min(last, self._start + len(self._kinds))
            kinds = Counter(self._kinds[day - self._start : there - self._start])
            total += sum(number * self._of_kind(kind).bit_count() for kind, number in kinds.items())
            day = there
        return total

    def _kind(self, day: int) -> int:
        """Return which of the clocks have the day, as bits."""
        if not FIRST_DAY <= day <= LAST_DAY:
            return 0
        if not self._start <= day < self._start + len(self._kinds):
            at = date_of(day)
            self._start, self._kinds = day - at.day + 1, self._of_month(at.year, at.month)
        return self._kinds[day - self._start]

    def _of_month(self, year: int, month: int) -> list[int]:
        """Return the kind of each day of the month."""
        length = month_length(year, month)
        days = {0: (1 << length) - 1}
        for number, clock in enumerate(self._clocks):
            if bits := clock.days.of_month(year, month):
                rest = {kind: left for kind, found in days.items() if (left := found & ~bits)}
                both = {kind | 1 << number: left for kind, found in days.items() if (left := found & bits)}
                days = rest | both
        kinds = [0] * length
        for kind, bits in days.items():
            while kind and bits:
                kinds[lowest(bits)] = kind
                bits &= bits - 1  # noqa: PLW2901
        return kinds

    def _of_kind(self, kind: int) -> int:
        if kind not in self._masks:
            bits, rest = 0, kind
            while rest:
                clock = self._clocks[lowest(rest)]
                bits |= _seconds_of_day(clock.minutes, clock.seconds) if self._a_day == _DAY else clock.minutes
                rest &= rest - 1
            self._masks[kind] = bits
        return self._masks[kind]


def times_of(clocks: Iterable[WallClock]) -> Pieces | Overlapping:
    """Return the times of any of the clocks."""
    joined = _joined(clocks)
    pieces: tuple[WallClock, ...] = ()
    looks = _FEW_LOOKS
    for clock in joined:
        looks -= len(pieces)
        rest = _without((clock,), pieces, looks)
        if rest is None:
            return Overlapping(tuple(joined))
        pieces += rest
    return Pieces(pieces)


def minus(pieces: Iterable[WallClock], taken: Iterable[WallClock]) -> tuple[WallClock, ...]:
    """Return the times of the pieces that are not in `taken`. Raises `InvalidSchedule` where they overlap in too many
    ways.
    """
    left = _without(tuple(pieces), _joined(taken), _MOST_LOOKS)
    if left is None:
        message = "schedule: its members overlap in too many ways"
        allowed = "fewer members with days or hours of their own; or several jobs"
        raise InvalidSchedule(message, field="schedule", allowed=allowed)
    return left


def _joined(clocks: Iterable[WallClock]) -> list[WallClock]:
    """Return the same times in fewer clocks: those that differ in their minutes alone, or their seconds alone, are
    one.
    """
    minutes: dict[tuple[Days, int], int] = {}
    for clock in clocks:
        minutes[clock.days, clock.seconds] = minutes.get((clock.days, clock.seconds), 0) | clock.minutes
    seconds: dict[tuple[Days, int], int] = {}
    for (days, second), minute in minutes.items():
        seconds[days, minute] = seconds.get((days, minute), 0) | second
    return [WallClock(days, minute, second) for (days, minute), second in seconds.items()]


def _without(pieces: tuple[WallClock, ...], taken: Sequence[WallClock], looks: int) -> tuple[WallClock, ...] | None:
    """Return what is left, which may grow with each pair that is compared; None if more than `looks` pairs would be."""
    for clock in taken:
        looks -= len(pieces)
        if looks < 0:
            return None
        pieces = tuple(rest for piece in pieces for rest in _minus_one(piece, clock))
    return pieces


def _minus_one(piece: WallClock, taken: WallClock) -> list[WallClock]:
    """Return what is left of a piece: its other days; on common days its other minutes; in these its other seconds."""
    if not (piece.minutes & taken.minutes and piece.seconds & taken.seconds):
        return [piece]
    both = in_both(piece.days, taken.days)
    if both.is_empty():
        return [piece]
    rest = [WallClock(days, piece.minutes, piece.seconds) for days in in_first_only(piece.days, taken.days)]
    rest.append(WallClock(both, piece.minutes & ~taken.minutes, piece.seconds))
    rest.append(WallClock(both, piece.minutes & taken.minutes, piece.seconds & ~taken.seconds))
    return [clock for clock in rest if clock.minutes and clock.seconds and not clock.days.is_empty()]


@lru_cache(maxsize=256)
def _seconds_of_day(minutes: int, seconds: int) -> int:
    """Return the seconds of a day, eight minutes (60 bytes) at a time."""
    known: dict[int, bytes] = {}
    parts = []
    for eight in minutes.to_bytes(180, "little"):
        if eight not in known:
            bits = sum(seconds << 60 * n for n in range(8) if eight >> n & 1)
            known[eight] = bits.to_bytes(60, "little")
        parts.append(known[eight])
    return int.from_bytes(b"".join(parts), "little")
