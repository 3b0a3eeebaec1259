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
        """Count one more."""
        if self.count < NAMED:
            self.first.append(job_id)
        self.count += 1

    def join(self, other: "Few") -> None:
        """Count those, too."""
        self.first += other.first[: NAMED - len(self.first)]
        self.count += other.count

    def __str__(self) -> str:
        """Return the first ones, and how many others there are."""
        others = self.count - len(self.first)
        return ", ".join(self.first) + (f" and {others} more" if others else "")


class JobsSeen(Struct):
    """Jobs as far as they were looked at. `places`: how many runs at a time those of `wanted` may have.

    `lanes` are those of enabled jobs, `notifiers` what jobs name to be told. `ahead`: jobs that are ahead of the time.
    `more`: there are jobs behind them.
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
