"""Reading of a store for its findings. Pure."""

from collections.abc import Collection, Iterable

from msgspec import Struct, field
from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.model.access_token import AccessToken
from tokimori.model.expectation import Alarm
from tokimori.model.ids import JobId, Lane, RunId
from tokimori.model.job import Job, JobState, limit_of
from tokimori.model.lanes import Pause, lane_of
from tokimori.model.notifier import notifier_id, notifiers_in
from tokimori.model.run import Run
from tokimori.ports.nodes import NodeRecord
from tokimori.ports.semaphores import Semaphore
from tokimori.ports.store import SchemaStatus

NAMED = 3
"""Number of things named; the others are counted."""
MOST_KINDS = 10_000
"""Number of lanes, and of notifiers, that are distinguished."""


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


MOST_DUE = 1_000
"""Number of due jobs looked at, the longest due."""
MOST_RUNS = 300
"""Number of the newest runs of a state looked at: each may bring a payload of a megabyte."""
MOST_SEMAPHORES = 100


class DoctorReading(Struct, frozen=True, kw_only=True):
    """State of a store at `now`; if its schema is not this program's, only `schema` means anything.

    `machine_now` is the clock of the machine that asks, and `took` the seconds that the answer to it took. `due` are
    enabled jobs whose next moment passed `LATE` ago, `running`, `blocked` and `held` runs of that state, `lanes` those
    with ready runs, `lost_notifiers` those that jobs name and that there are not. `lively` are runs that ran in any of
    the readings, `busy` their jobs, and `queued` lanes that had ready runs in any of them. `semaphores_fault`: why the
    store of the semaphores could not be read. `listened`: how long nodes were listened to; `silent` those that did not
    beat.
    """

    now: Moment
    machine_now: Moment
    took: float
    schema: SchemaStatus
    promises: tuple[str, ...] = ()
    nodes: tuple[NodeRecord, ...] = ()
    due: tuple[Job, ...] = ()
    running: tuple[Run, ...] = ()
    blocked: tuple[Run, ...] = ()
    held: tuple[Run, ...] = ()
    lively: frozenset[RunId] = frozenset()
    busy: frozenset[JobId] = frozenset()
    queued: frozenset[Lane] = frozenset()
    semaphores: tuple[Semaphore, ...] = ()
    programs: tuple[NodeRecord, ...] = ()
    apart: bool = False
    semaphores_fault: str | None = None
    lanes: tuple[Lane, ...] = ()
    jobs: JobsSeen = field(default_factory=JobsSeen)
    pauses: tuple[Pause, ...] = ()
    tokens: tuple[AccessToken, ...] = ()
    alarms: tuple[Alarm, ...] = ()
    lost_notifiers: frozenset[JobId] = frozenset()
    ahead: tuple[JobId, ...] = ()
    most_runs: int = MOST_RUNS
    listened: float = 0.0
    silent: tuple[NodeRecord, ...] = ()

    @property
    def alive(self) -> tuple[NodeRecord, ...]:
        """Return the nodes that run jobs."""
        return tuple(node for node in self.nodes if node.runs_jobs)


def confirmed(first: DoctorReading, second: DoctorReading, listened: float) -> DoctorReading:
    """Return the findings that both readings show. The store changes between them, and a passing state is no fault."""
    due = {(job.id, job.next_due) for job in first.due}
    running = {(run.id, run.token) for run in first.running}
    blocked = {run.id for run in first.blocked}
    beats = {node.id: node.beat for node in first.nodes if node.runs_jobs}
    before = {each.name: each for each in first.semaphores}
    return replace(
        second,
        due=tuple(job for job in second.due if (job.id, job.next_due) in due),
        running=tuple(run for run in second.running if (run.id, run.token) in running),
        blocked=tuple(run for run in second.blocked if run.id in blocked),
        lively=first.lively | second.lively,
        busy=frozenset(run.job_id for run in (*first.running, *second.running)),
        queued=frozenset(first.lanes + second.lanes),
        semaphores=tuple(_both(before[each.name], each) for each in second.semaphores if each.name in before),
        lanes=tuple(lane for lane in second.lanes if lane in first.lanes),
        listened=listened,
        silent=tuple(node for node in second.alive if listened and beats.get(node.id) == node.beat),
    )


def _both(first: Semaphore, second: Semaphore) -> Semaphore:
    held = {(each.id, each.since) for each in first.holders}
    return Semaphore(
        name=second.name,
        limit=second.limit,
        used=max(first.used, second.used),
        waiting=min(first.waiting, second.waiting),
        holders=tuple(each for each in second.holders if (each.id, each.since) in held),
        rate=second.rate,
        wakes=second.wakes,
    )
