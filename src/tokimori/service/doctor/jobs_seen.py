"""Jobs as a doctor sees them on its walk: a few ids of each kind, however many jobs there are."""

from collections.abc import Collection, Iterable

from msgspec import Struct, field

from tokimori.model.ids import JobId, Lane
from tokimori.model.job import Job, JobState, limit_of
from tokimori.model.lanes import lane_of
from tokimori.model.notifier import notifier_id, notifiers_in

NAMED = 3
"""So many are named; the others are counted."""
MOST_KINDS = 10_000
"""So many lanes, and so many notifiers, are told apart."""


class Few(Struct):
    """First ids of jobs that have something in common, and their number."""

    first: list[str] = []
    count: int = 0

    def add(self, job_id: str) -> None:
        """Count one more job; the first few are named."""
        if self.count < NAMED:
            self.first.append(job_id)
        self.count += 1

    def join(self, other: "Few") -> None:
        """Count the jobs of the other one too."""
        self.first += other.first[: NAMED - len(self.first)]
        self.count += other.count

    def __str__(self) -> str:
        """Return the first names and the number of the others."""
        others = self.count - len(self.first)
        return ", ".join(self.first) + (f" and {others} more" if others else "")


class JobsSeen(Struct):
    """Summary of the jobs that were read. `places`: the number of runs that the jobs of `wanted` may have at a time.

    `lanes` are those of enabled jobs, `notifiers` those that jobs name. `ahead`: jobs whose occurrences are decided
    beyond now. `more`: further jobs were not read.
    """

    wanted: Collection[JobId] = ()
    count: int = 0
    more: bool = False
    places: dict[JobId, int] = {}
    parked: Few = field(default_factory=Few)
    lanes: dict[Lane, Few] = {}
    notifiers: dict[JobId, Few] = {}
    known_notifiers: set[JobId] = set()
    ahead: list[JobId] = []

    def add(self, jobs: Iterable[Job]) -> None:
        """Look at these jobs, too."""
        for job in jobs:
            self.count += 1
            if job.state is JobState.ENABLED:
                _add(self.lanes, lane_of(job.definition), job.id)
                if job.id in self.wanted:
                    self.places[job.id] = limit_of(job.definition) or 0
            elif job.state is JobState.PARKED:
                self.parked.add(job.id)
            if job.id.startswith(notifier_id("")) and len(self.known_notifiers) < MOST_KINDS:
                self.known_notifiers.add(job.id)
            for name in notifiers_in(job.definition.notify):
                _add(self.notifiers, notifier_id(name), job.id)


def _add(kinds: dict[Lane, Few] | dict[JobId, Few], kind: str, job_id: JobId) -> None:
    known: dict[str, Few] = kinds  # type: ignore[assignment]
    if kind in known or len(known) < MOST_KINDS:
        known.setdefault(kind, Few()).add(job_id)
