"""Sets of wall-clock times built from others, as pieces that have no time in common, so that they can be counted."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tokimori.clock import SECOND
from tokimori.errors import InvalidSchedule
from tokimori.schedules.days import ALL_MONTHS, ALL_WEEKDAYS, EVERY_DAY, Days, in_both, in_first_only, lowest
from tokimori.schedules.wallclock import WallClock

EVERY_SECOND = WallClock(
    Days(EVERY_DAY, ALL_MONTHS, years=-1, weekdays=ALL_WEEKDAYS), minutes=(1 << 1440) - 1, seconds=(1 << 60) - 1
)
_DAY = 86_400  # seconds
_FEW_LOOKS, _MOST_LOOKS = 300, 3_000
"""So many pairs of clocks are compared for one set of pieces, some 5 µs each: few where there is another way to count.
"""


@dataclass(frozen=True, slots=True)
class Pieces:
    """The times of all the pieces (a `WallTimes`); no two have one in common."""

    pieces: tuple[WallClock, ...]

    def at_or_after(self, wall: int) -> int | None:
        """The first time at or after the given one."""
        return min((at for piece in self.pieces if (at := piece.at_or_after(wall)) is not None), default=None)

    def at_or_before(self, wall: int) -> int | None:
        """The last time at or before the given one."""
        return max((at for piece in self.pieces if (at := piece.at_or_before(wall)) is not None), default=None)

    def count(self, low: int, high: int) -> int:
        """How many times t there are with low <= t < high."""
        return sum(piece.count(low, high) for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Overlapping:
    """The times of any of the clocks (a `WallTimes`), which have times in common in so many ways that days are counted
    one by one.
    """

    clocks: tuple[WallClock, ...]

    def at_or_after(self, wall: int) -> int | None:
        """The first time at or after the given one."""
        return min((at for clock in self.clocks if (at := clock.at_or_after(wall)) is not None), default=None)

    def at_or_before(self, wall: int) -> int | None:
        """The last time at or before the given one."""
        return max((at for clock in self.clocks if (at := clock.at_or_before(wall)) is not None), default=None)

    def count(self, low: int, high: int) -> int:
        """How many times t there are with low <= t < high."""
        first, stop = -(-low // SECOND), -(-high // SECOND)
        known: dict[tuple[WallClock, ...], int] = {}
        total = 0
        for day in range(first // _DAY, -(-stop // _DAY)):
            start, end = day * _DAY, (day + 1) * _DAY
            clocks = tuple(clock for clock in self.clocks if clock.days.count(day, day + 1))
            if start < first or end > stop:
                total += shown(clocks, max(first, start), min(stop, end)).bit_count()
            elif clocks in known:
                total += known[clocks]
            else:
                total += known.setdefault(clocks, shown(clocks, start, end).bit_count())
        return total


def times_of(clocks: Iterable[WallClock]) -> Pieces | Overlapping:
    """The times of any of the clocks."""
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
    """The times of the pieces that are not in `taken`. Raises `InvalidSchedule` where they overlap in too many ways."""
    left = _without(tuple(pieces), _joined(taken), _MOST_LOOKS)
    if left is None:
        message = "schedule: its members overlap in too many ways"
        allowed = "fewer members with days or hours of their own; or several jobs"
        raise InvalidSchedule(message, field="schedule", allowed=allowed)
    return left


def _joined(clocks: Iterable[WallClock]) -> list[WallClock]:
    """The same times in fewer clocks: those that differ in their minutes alone, or their seconds alone, are one."""
    minutes: dict[tuple[Days, int], int] = {}
    for clock in clocks:
        minutes[clock.days, clock.seconds] = minutes.get((clock.days, clock.seconds), 0) | clock.minutes
    seconds: dict[tuple[Days, int], int] = {}
    for (days, second), minute in minutes.items():
        seconds[days, minute] = seconds.get((days, minute), 0) | second
    return [WallClock(days, minute, second) for (days, minute), second in seconds.items()]


def _without(pieces: tuple[WallClock, ...], taken: Sequence[WallClock], looks: int) -> tuple[WallClock, ...] | None:
    """What is left, which may grow with each pair that is compared; None where more than `looks` pairs would be."""
    for clock in taken:
        looks -= len(pieces)
        if looks < 0:
            return None
        pieces = tuple(rest for piece in pieces for rest in _minus_one(piece, clock))
    return pieces


def _minus_one(piece: WallClock, taken: WallClock) -> list[WallClock]:
    """What is left of a piece: its other days; on the days of both, its other minutes; in these, its other seconds."""
    both = in_both(piece.days, taken.days)
    if both.is_empty():
        return [piece]
    rest = [WallClock(days, piece.minutes, piece.seconds) for days in in_first_only(piece.days, taken.days)]
    rest.append(WallClock(both, piece.minutes & ~taken.minutes, piece.seconds))
    rest.append(WallClock(both, piece.minutes & taken.minutes, piece.seconds & ~taken.seconds))
    return [clock for clock in rest if clock.minutes and clock.seconds and not clock.days.is_empty()]


def shown(pieces: tuple[WallClock, ...], low: int, high: int) -> int:
    """The seconds t with low <= t < high that any of the pieces names, as bits; bit 0 is low."""
    bits = 0
    for day in range(low // _DAY, (high - 1) // _DAY + 1):
        for piece in pieces:
            if piece.days.count(day, day + 1):
                seconds, shift = _seconds_of_day(piece.minutes, piece.seconds), day * _DAY - low
                bits |= seconds << shift if shift >= 0 else seconds >> -shift
    return bits & (1 << high - low) - 1


@lru_cache(maxsize=256)
def _seconds_of_day(minutes: int, seconds: int) -> int:
    bits = 0
    while minutes:
        bits |= seconds << 60 * lowest(minutes)
        minutes &= minutes - 1
    return bits
