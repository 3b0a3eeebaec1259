"""Sets of wall-clock times built from others, as pieces that have no time in common, so that they can be counted."""

from collections.abc import Iterable
from dataclasses import dataclass

from tokimori.schedules.days import ALL_MONTHS, ALL_WEEKDAYS, EVERY_DAY, Days, in_both, in_first_only
from tokimori.schedules.wallclock import WallClock

EVERY_SECOND = WallClock(
    Days(EVERY_DAY, ALL_MONTHS, years=-1, weekdays=ALL_WEEKDAYS), minutes=(1 << 1440) - 1, seconds=(1 << 60) - 1
)


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


def pieces_of(clocks: Iterable[WallClock]) -> Pieces:
    """The times of any of the clocks."""
    pieces: list[WallClock] = []
    for clock in clocks:
        pieces += minus((clock,), pieces)
    return Pieces(tuple(pieces))


def minus(pieces: Iterable[WallClock], taken: Iterable[WallClock]) -> tuple[WallClock, ...]:
    """The times of the pieces that are not in `taken`."""
    left = tuple(pieces)
    for clock in taken:
        left = tuple(rest for piece in left for rest in _minus_one(piece, clock))
    return left


def _minus_one(piece: WallClock, taken: WallClock) -> list[WallClock]:
    """What is left of a piece: its other days; on the days of both, its other minutes; in these, its other seconds."""
    both = in_both(piece.days, taken.days)
    if both.is_empty():
        return [piece]
    rest = [WallClock(days, piece.minutes, piece.seconds) for days in in_first_only(piece.days, taken.days)]
    rest.append(WallClock(both, piece.minutes & ~taken.minutes, piece.seconds))
    rest.append(WallClock(both, piece.minutes & taken.minutes, piece.seconds & ~taken.seconds))
    return [clock for clock in rest if clock.minutes and clock.seconds and not clock.days.is_empty()]
