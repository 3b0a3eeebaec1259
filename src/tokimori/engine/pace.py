"""Pace of a node: the rate at which it ends runs, and how many to claim ahead. Pure."""

from collections.abc import Iterable

from tokimori.clock import MILLISECOND, SECOND, Moment
from tokimori.model.encoding import encode_definition
from tokimori.model.job import Job
from tokimori.ports.working import LARGE

FIRST, GROWTH = 50, 10
"""Jobs read at first, as their size is unknown, and the factor by which this grows if they are small."""


class PageSize:
    """Number of jobs to read at once: more of small ones, `most` at most; of large ones what brings `LARGE` bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.limit = min(FIRST, most)

    def note(self, jobs: Iterable[Job]) -> None:
        """Note the jobs that were read."""
        size = number = 0
        for number, job in enumerate(jobs, 1):
            size += len(encode_definition(job.definition))
            if size >= LARGE:
                self.limit = number
                return
        if number >= self.limit:
            self.limit = min(self._most, GROWTH * self.limit)


PREFETCH_SECONDS = 0.1
"""A node claims at most what it can start within about this time, or within four lingers if these are longer."""
LINGER, LONGEST_LINGER = 0.025, 0.05
"""Seconds for which ends wait for more on a busy node, so that they share one transaction: at least, at most."""
SEVERAL = 2
"""Number of ends within `LINGER` worth waiting for."""
MANY_ENDS = 8
"""Number of ends, about, for which a node waits longer than `LINGER`."""
MANY = 32
"""Number of ends since a claim that predict the next ones, if half of the places were used: a few may be quick."""
_SMOOTHING = 0.3


class Pace:
    """Rate at which this node ends runs while it is busy, smoothed."""

    def __init__(self, places: int) -> None:
        self.rate = 0.0
        self.places = places
        self._since = 0.0
        self._ended = 0
        self._claimed_at = self._ended_at = Moment(0)

    def begin(self, at: float) -> None:
        """Begin to measure, with nothing in hand: the next ends count from this time (monotonic seconds)."""
        self._since = at

    def note(self, ended: int, at: float) -> None:
        """Note the number of runs that have ended since the last note.

        A rise counts at once if every place was used: a few ends that fall together make no pace.
        """
        if ended and at > self._since:
            measured = ended / (at - self._since)
            weight = 1.0 if ended >= self.places and measured > self.rate else _SMOOTHING
            self.rate += weight * (measured - self.rate)
            self._since = at

    def linger(self) -> float:
        """Return the seconds for which ends are worth waiting for; 0 if few come."""
        if self.rate * LINGER < SEVERAL:
            return 0.0
        return min(LONGEST_LINGER, max(LINGER, MANY_ENDS / self.rate))

    def ahead(self) -> int:
        """Return how many runs to claim beyond free places, so that these stay used while the node lingers."""
        return int(self.rate * max(PREFETCH_SECONDS, 4 * self.linger()))

    def claimed(self, at: Moment) -> None:
        """Count ends from here on, as a claim was answered."""
        self._ended, self._claimed_at = 0, at

    def slow_down(self, rate: float, now: Moment) -> None:
        """Lower the rate to this one, whatever ended before."""
        self.rate = min(self.rate, rate)
        self.claimed(now)

    def end(self, at: Moment) -> None:
        """Count the end of a run."""
        self._ended += 1
        self._ended_at = at

    def burst(self) -> int:
        """Return how many more would end in `PREFETCH_SECONDS` as fast as those since the last claim was answered.

        0 if they used neither every place nor half of them and `MANY`; at most twice their number, as the next runs may
        be slow.

        With no-ops `rate` is the pace of the store, as they mostly wait for a claim. So this counts if none waits.
        """
        if self._ended < min(self.places, max(MANY, self.places // 2)):
            return 0
        rate = self._ended * SECOND / max(MILLISECOND, self._ended_at - self._claimed_at)
        return min(2 * self._ended, int(rate * PREFETCH_SECONDS))
