"""Moments at one exact distance: what several such rows have in common, and how many there are in all of them."""

from collections.abc import Iterator, Sequence
from math import gcd

from msgspec import Struct

from tokimori.schedules.grid import FIRST_WALL, LAST_WALL, ExactSteps, Grid
from tokimori.schedules.zones import FOREVER

MOST_DRIFTING = 4
"""So many rows that drift through the parts of a second are counted together: each doubles the work."""


class Progression(Struct, frozen=True):
    """The moments anchor + n × period with low <= t <= high."""

    anchor: int
    period: int
    low: int
    high: int

    def count(self, after: int, through: int) -> int:
        """Count the moments t with after < t <= through."""
        low, high = max(after + 1, self.low), min(through, self.high)
        return max((high - self.anchor) // self.period - (low - 1 - self.anchor) // self.period, 0)

    def within(self, unit: int, fraction: int) -> "Progression | None":
        """Return those that lie so many microseconds behind a whole second, or a whole minute."""
        return common(self, Progression(fraction, unit, -FOREVER, FOREVER))


def progression_of(grid: Grid) -> Progression | None:
    """Return the moments of a grid of exact steps; None for others."""
    return row_of_grid(grid, grid.steps) if isinstance(grid.steps, ExactSteps) else None


def row_of_grid(grid: Grid, steps: ExactSteps) -> Progression:
    """Return the times of a grid, whose steps are these."""
    low = FIRST_WALL if grid.first is None else max(steps.nth(grid.first), FIRST_WALL)
    high = LAST_WALL if grid.last is None else min(steps.nth(grid.last), LAST_WALL)
    return Progression(steps.anchor, steps.period, low, high)


def common(one: Progression, other: Progression) -> Progression | None:
    """Return the moments of both, which are a progression again; None where they have none in common."""
    shared = gcd(one.period, other.period)
    distance = other.anchor - one.anchor
    if distance % shared:
        return None
    steps, modulus = one.period // shared, other.period // shared
    n = distance // shared * pow(steps, -1, modulus) % modulus if modulus > 1 else 0
    found = Progression(
        one.anchor + n * one.period, one.period * modulus, max(one.low, other.low), min(one.high, other.high)
    )
    return found if found.low <= found.high else None


def count_any(several: Sequence[Progression], after: int, through: int) -> int:
    """Count the moments after < t <= through that at least one of them has: those of one, less those of two, …"""
    return sum(sign * found.count(after, through) for sign, found in _met(several))


def _met(several: Sequence[Progression]) -> Iterator[tuple[int, Progression]]:
    """Yield what each subset has in common, with the sign that it counts with."""
    found: list[tuple[int, Progression]] = []
    for one in several:
        met = [(-sign, both) for sign, other in found if (both := common(other, one)) is not None]
        found += [(1, one), *met]
    return iter(found)
