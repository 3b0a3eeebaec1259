"""A histogram of seconds that costs a fraction of a microsecond for each value: plain numbers, no locks, no labels."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate

LATENESS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
DURATIONS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0, 21_600.0, 86_400.0)
CALLS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Buckets:
    """Counts of values that were at most each bound; `total` is their sum. Everything happens on one loop."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count a value. One below zero, by clocks that differ, counts as zero."""
        value = max(0.0, value)
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def cumulated(self) -> Iterator[tuple[str, int]]:
        """For each bound how many values it covers; the last bound has no end."""
        names = [*map(str, self._bounds), "+Inf"]
        yield from zip(names, accumulate(self._counts), strict=True)
