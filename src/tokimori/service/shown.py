"""A job with all that doors show with it, made anew only where something of it has changed."""

from collections.abc import Sequence
from dataclasses import dataclass

from tokimori.clock import Moment
from tokimori.model.dependents import Edge
from tokimori.model.ids import JobId
from tokimori.model.job import Job
from tokimori.model.pause import Pause

MOST_KEPT = 1_000
"""Jobs whose last answer is remembered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A job, the edges from and to it, and what keeps its runs from starting.

    That are the pauses of its queue and of everything, and a sentence for each weight that no limit lets in.
    """

    job: Job
    edges: Sequence[Edge]
    pauses: Sequence[Pause]
    too_heavy: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shown:
    """What the store says of a job, and its next moments: none while it is stopped.

    As long as it says the same and the next moment has not come, it is the same object.
    """

    facts: Facts
    moments: Sequence[Moment]


class Foreseen:
    """The next moments of jobs: computed anew where the job has changed, the first of them is over, or time went back.

    What is asked of the store is asked each time: this only saves the computing.
    """

    def __init__(self) -> None:
        self._known: dict[JobId, tuple[Moment, int, Shown]] = {}

    def find(self, facts: Facts, now: Moment, n: int) -> Shown | None:
        """What was kept of this job, if that is still so."""
        since, number, shown = self._known.get(facts.job.id, (now, -1, None))
        if shown is None or number != n or now < since or shown.facts != facts:
            return None
        return shown if not shown.moments or now < shown.moments[0] else None

    def keep(self, facts: Facts, now: Moment, n: int, moments: Sequence[Moment]) -> Shown:
        """Remember it for the next who asks."""
        if len(self._known) >= MOST_KEPT:
            self._known.clear()
        shown = Shown(facts=facts, moments=moments)
        self._known[facts.job.id] = now, n, shown
        return shown
