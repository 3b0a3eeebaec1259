"""The moments of a day as bits, one for each second: how dense schedules of several kinds are counted together."""

from collections.abc import Callable
from functools import lru_cache

from tokimori.clock import SECOND, Moment
from tokimori.schedules.grid import ExactSteps, Grid
from tokimori.schedules.schedule import Schedule
from tokimori.schedules.wall_sets import Overlapping, Pieces, shown
from tokimori.schedules.wallclock import WallClock
from tokimori.schedules.zoned import Zoned, ZonedSchedule
from tokimori.schedules.zones import stretch_at

_DAY = 86_400  # seconds

Mask = Callable[[int], int]
"""The moments of a day of UTC (its number since 1970-01-01) as bits: bit 0 is its first second."""


def mask_of(schedule: Schedule) -> Mask | None:
    """The mask of a schedule whose moments are all whole seconds; None for kinds that have others, or few."""
    zoned = schedule.moments if isinstance(schedule, ZonedSchedule) else schedule
    if not isinstance(zoned, Zoned):
        return None
    match zoned.times:
        case Pieces(pieces) | Overlapping(pieces):
            return lambda day: _wall_mask(zoned, pieces, day)
        case WallClock() as clock:
            return lambda day: _wall_mask(zoned, (clock,), day)
        case Grid(steps=ExactSteps(anchor, period)) as grid if anchor % SECOND == period % SECOND == 0:
            return lambda day: _grid_mask(grid, period // SECOND, day)
        case _:
            return None


def count_masks(mask: Mask, after: Moment, through: Moment) -> int:
    """How many whole seconds t of the masks there are with after < t <= through."""
    first, stop = after // SECOND + 1, through // SECOND + 1
    total = 0
    for day in range(first // _DAY, -(-stop // _DAY)):
        low, high = max(first - day * _DAY, 0), min(stop - day * _DAY, _DAY)
        total += (mask(day) & (1 << high) - (1 << low)).bit_count()
    return total


def _grid_mask(grid: Grid, period: int, day: int) -> int:
    start, stop = day * _DAY * SECOND, (day + 1) * _DAY * SECOND
    found = grid.at_or_after(start)
    if found is None or found >= stop:
        return 0
    return _pattern(period, grid.count(start, stop)) << (found - start) // SECOND


@lru_cache(maxsize=256)
def _pattern(period: int, count: int) -> int:
    """A number with `count` bits set, one every `period`."""
    return ((1 << period * count) - 1) // ((1 << period) - 1)


def _wall_mask(zoned: Zoned, pieces: tuple[WallClock, ...], day: int) -> int:
    at, stop = day * _DAY, (day + 1) * _DAY
    mask = 0
    while at < stop:
        stretch = stretch_at(zoned.zone, at * SECOND)
        start, end, offset, before = (each // SECOND for each in stretch)
        upper = min(end, stop)
        if at == start and zoned.shifts(stretch):
            mask |= 1 << at - day * _DAY
        low = max(at, start + before - offset) if before > offset and zoned.once else at
        if low < upper:
            mask |= shown(pieces, low + offset, upper + offset) << low - day * _DAY
        at = upper
    return mask
