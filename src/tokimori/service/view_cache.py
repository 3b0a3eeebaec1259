"""Cache of views of jobs for doors: a view is made again after a change, or after some time."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from tokimori.clock import Moment
from tokimori.model.dependents import Edge
from tokimori.model.ids import JobId
from tokimori.model.job import Job
from tokimori.model.lanes import Pause

MOST_KEPT = 1_000
"""Jobs whose last answer is remembered."""
FRESH, _MOST_KEPT = 30.0, 5_000
"""Seconds for which durations are used again, and of how many jobs: many look at the same running ones."""


class Facts(Struct, frozen=True, kw_only=True):
    """A job, its edges, and what keeps its runs from starting: the pauses of its queue and of everything, and a
    sentence for each weight above its limit.
    """

    job: Job
    edges: Sequence[Edge]
    pauses: Sequence[Pause]
    too_heavy: Sequence[str]


class Shown(Struct, frozen=True, kw_only=True, eq=False):
    """A job in the store, and its next moments: none while it is stopped.

    It stays the same object until the job changes or its next moment comes.
    """

    facts: Facts
    moments: Sequence[Moment]


class _KnownJob(Struct, frozen=True):
    """A shown job: since when, how many moments were asked for, and the store's mark from before."""

    since: Moment
    number: int
    shown: Shown
    mark: object

    def serves(self, now: Moment, n: int) -> bool:
        """Return whether its moments are the next `n`: the first is not over, and time did not go back."""
        moments = self.shown.moments
        return self.number == n and now >= self.since and (not moments or now < moments[0])


class Foreseen:
    """Jobs that were shown. As long as the store has the same mark, nothing is asked of it.

    If it has another one, or none, it is asked, and only what follows from the same facts is not computed again.
    """

    def __init__(self, mark: Callable[[], object]) -> None:
        self._known: dict[str, _KnownJob] = {}
        self._look = mark
        self._mark: object = None
        self._has_looked = False

    def mark(self) -> object:
        """Return the store's mark of change, read once in each step of the loop.

        Requests and notices that arrive after it are handled after `_forget`.
        """
        if not self._has_looked:
            self._mark, self._has_looked = self._look(), True
            asyncio.get_running_loop().call_soon(self._forget)
        return self._mark

    def _forget(self) -> None:
        self._mark, self._has_looked = None, False

    def unchanged(self, job_id: str, mark: object, now: Moment, n: int) -> Shown | None:
        """Return the cached view of the job, if nothing was written since."""
        known = self._known.get(job_id)
        if known is None or mark is None or known.mark != mark or not known.serves(now, n):
            return None
        return known.shown

    def find(self, facts: Facts, now: Moment, n: int) -> Shown | None:
        """Return the cached view of the job, if it follows from these facts."""
        known = self._known.get(facts.job.id)
        return known.shown if known is not None and known.serves(now, n) and known.shown.facts == facts else None

    def put(self, shown: Shown, mark: object, now: Moment, n: int) -> None:
        """Cache a view; `mark` was read before the store was asked."""
        if len(self._known) >= MOST_KEPT:
            self._known.clear()
        self._known[shown.facts.job.id] = _KnownJob(now, n, shown, mark)


class Durations(Struct, frozen=True, kw_only=True):
    """Median and 95th percentile, in seconds, of the newest successful attempts of a job.

    `runs` is their number; without a recent success it is 0, and both are None. `succeeded` and `failed` are its
    runs of the last 7 days that ended so, of the newest 2,000.
    """

    p50: float | None
    p95: float | None
    runs: int
    succeeded: int
    failed: int


class KnownDurations:
    """Durations that were found lately."""

    def __init__(self) -> None:
        self._found: dict[JobId, tuple[float, Durations]] = {}

    def of(self, job_id: JobId, now: float) -> Durations | None:
        """Return the cached durations of a job; None if they are too old."""
        at, found = self._found.get(job_id, (float("-inf"), None))
        return found if now < at + FRESH else None

    def put(self, found: Mapping[JobId, Durations], now: float) -> None:
        """Cache these durations."""
        if len(self._found) + len(found) > _MOST_KEPT:
            self._found.clear()
        self._found |= {job_id: (now, each) for job_id, each in found.items()}
