"""Tables of the memory store, and the moves that several of its methods share."""

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice

from tokimori.clock import Moment
from tokimori.model.claim_rate import ClaimRate, Taken
from tokimori.model.dependents import Edge
from tokimori.model.document import Document
from tokimori.model.ids import ClaimId, Incarnation, JobId, Lane, NodeId, PermitId, RunId, Token
from tokimori.model.job import Job, most_active
from tokimori.model.lanes import Pause
from tokimori.model.run import NEVER, Attempt, Output, Run, Skip
from tokimori.model.semaphores import DEFAULT_LIMIT
from tokimori.model.transitions import ACTIVE, ENDS, RunState
from tokimori.ports.copying import Arrival
from tokimori.ports.nodes import NodeRecord
from tokimori.ports.semaphores import Permit
from tokimori.stores.rules.edits import Edges
from tokimori.stores.rules.errors import check_family, document_changed, existing, no_document, no_job, no_run
from tokimori.stores.rules.lines import has_room
from tokimori.stores.rules.rates import Turns


@dataclass(slots=True)
class RunRow:
    """A run, its claim, the node and token of its last settle, and when its end was written."""

    run: Run
    claim_id: ClaimId | None = None
    settled_by: NodeId | None = None
    settled_token: Token | None = None
    written: int = 0


@dataclass(slots=True)
class OutputRow:
    """Output of an attempt; `settled`: it came with the attempt's end."""

    output: Output
    settled: bool


@dataclass(slots=True)
class SemaphoreRow:
    """Units of a semaphore, and the number of grants to programs; its rate, and the turns at it."""

    limit: int = DEFAULT_LIMIT
    granted: int = 0
    rate: ClaimRate | None = None
    turns: Turns = field(default_factory=Turns)


@dataclass(slots=True)
class Tables:
    """Live runs and finished ones are apart, as in every store; `by_job` finds the live runs of an incarnation.

    Only `put` changes a run in its table.
    """

    now: Callable[[], Moment]
    jobs: dict[JobId, Job] = field(default_factory=dict)
    job_ids: dict[Incarnation, JobId] = field(default_factory=dict)
    live: dict[RunId, RunRow] = field(default_factory=dict)
    ready: defaultdict[Lane, list[tuple[int, RunId]]] = field(default_factory=lambda: defaultdict(list))
    """In order."""
    running: dict[RunId, RunRow] = field(default_factory=dict)
    history: dict[RunId, RunRow] = field(default_factory=dict)
    by_job: dict[Incarnation, set[RunId]] = field(default_factory=dict)
    ids: list[RunId] = field(default_factory=list)
    """Ids of all runs, in order."""
    origins: dict[tuple[Incarnation, str], RunId] = field(default_factory=dict)
    attempts: dict[RunId, dict[int, Attempt]] = field(default_factory=dict)
    outputs: dict[tuple[RunId, int], OutputRow] = field(default_factory=dict)
    skips: dict[Incarnation, dict[Moment, Skip]] = field(default_factory=dict)
    nodes: dict[NodeId, NodeRecord] = field(default_factory=dict)
    documents: dict[tuple[str, str], Document] = field(default_factory=dict)
    """By kind and name."""
    pauses: dict[str, Pause] = field(default_factory=dict)
    edges: dict[JobId, dict[Edge, None]] = field(default_factory=dict)
    """By parent."""
    family_version: int = 0
    arrived: dict[tuple[Incarnation, str], Arrival] = field(default_factory=dict)
    requests: dict[RunId, tuple[RunId, Moment]] = field(default_factory=dict)
    """Runs that took over a request, and when."""
    deleted: dict[Incarnation, JobId] = field(default_factory=dict)
    tombstones: dict[Incarnation, Job] = field(default_factory=dict)
    """Tombstones of deleted jobs that had running runs."""
    pruned: Counter[tuple[JobId, Incarnation, Moment, str]] = field(default_factory=Counter)
    """Number of pruned rows by job, day and outcome."""
    semaphores: dict[str, SemaphoreRow] = field(default_factory=dict)
    permits: dict[PermitId, Permit] = field(default_factory=dict)
    taken: dict[str, list[Taken]] = field(default_factory=dict)
    """Units of rates, by the name of their ledger; the newest of them, and all that may still count."""
    newest_end: int = 0
    newest_token: int = 0
    """Of programs' grants of semaphores that were deleted."""

    def job(self, job_id: JobId) -> Job:
        """Return the job. Raises `NotFound`."""
        return existing(self.jobs.get(job_id), no_job(job_id))

    def job_of(self, incarnation: Incarnation) -> Job | None:
        """Return the job that a run belongs to; None if it is deleted."""
        job_id = self.job_ids.get(incarnation)
        return None if job_id is None else self.jobs[job_id]

    def row(self, run_id: RunId) -> RunRow:
        """Return the run, live or finished. Raises `NotFound`."""
        return existing(self.live.get(run_id) or self.history.get(run_id), no_run(run_id))

    def newest(self, before: RunId | None) -> Iterator[Run]:
        """Yield all runs with ids before the given one, the newest first."""
        for at in range(len(self.ids) if before is None else bisect_left(self.ids, before), 0, -1):
            yield self.row(self.ids[at - 1]).run

    def runs_of(self, incarnation: Incarnation, *states: RunState) -> list[RunRow]:
        """Return the live runs of a job in these states, next in line first."""
        rows = (self.live[run_id] for run_id in self.by_job.get(incarnation, ()))
        return sorted((row for row in rows if row.run.state in states), key=in_line)

    def active(self, incarnation: Incarnation) -> int:
        """Return how many runs of the job are active: those that wait for what they have spawned are not."""
        return sum(row.run.due != NEVER for row in self.runs_of(incarnation, *ACTIVE))

    def has_room(self, job: Job, coming: int) -> bool:
        """Return whether so many more runs of the job may be active."""
        most = most_active(job.definition)
        return most is None or has_room(self.active(job.incarnation), coming, most)

    def add(self, run: Run) -> None:
        """Store a new run, unless its origin is known."""
        if (run.incarnation, run.origin) not in self.origins:
            self.origins[run.incarnation, run.origin] = run.id
            self.live[run.id] = row = RunRow(run)
            insort(self.ids, run.id)
            self._enter(row)
            self.by_job.setdefault(run.incarnation, set()).add(run.id)

    def put(self, row: RunRow, run: Run) -> None:
        """Write a run's next value; an ended one moves to the history."""
        if row.run.state is RunState.READY and row.run.lane is not None:
            line = self.ready[row.run.lane]
            del line[bisect_left(line, in_line(row))]
        self.running.pop(run.id, None)
        row.run = run
        self._enter(row)
        if run.state in ENDS:
            del self.live[run.id]
            self.by_job[run.incarnation].discard(run.id)
            row.written = self.newest_end = max(self.newest_end + 1, self.now())
            self.history[run.id] = row

    def _enter(self, row: RunRow) -> None:
        if row.run.state is RunState.READY and row.run.lane is not None:
            insort(self.ready[row.run.lane], in_line(row))
        elif row.run.state is RunState.RUNNING:
            self.running[row.run.id] = row

    def change_edges(self, before: Edges, after: Edges, family: int | None = None) -> None:
        """Replace the edges that jobs declared before. Raises `FamilyChanged`."""
        if before == after:
            return
        if after:
            check_family(self.family_version, family)
        self.family_version += 1
        for edge in chain(*before.values()):
            self.edges[edge.parent].pop(edge, None)
        for edge in chain(*after.values()):
            self.edges.setdefault(edge.parent, {})[edge] = None

    def keep_skips(self, incarnation: Incarnation, skips: Iterable[Skip]) -> None:
        """Write rows of the ledger. One with the first moment of a known row replaces it."""
        self.skips.setdefault(incarnation, {}).update({skip.first: skip for skip in skips})


def in_line(row: RunRow) -> tuple[int, RunId]:
    """Smaller is sooner."""
    return row.run.rank, row.run.id


def put_document(tables: Tables, document: Document, replaces: int | None) -> None:
    key = document.kind, document.name
    known = tables.documents.get(key)
    if known == document:
        return
    if (None if known is None else known.version) != replaces:
        raise document_changed(*key)
    tables.documents[key] = document


def get_document(tables: Tables, kind: str, name: str) -> Document:
    return existing(tables.documents.get((kind, name)), no_document(kind, name))


def list_documents(tables: Tables, kind: str, *, prefix: str = "", after: str = "", limit: int = 100) -> list[Document]:
    names = sorted(name for of, name in tables.documents if of == kind and name.startswith(prefix) and name > after)
    return [tables.documents[kind, name] for name in islice(names, limit)]


def delete_document(tables: Tables, kind: str, name: str, version: int) -> None:
    known = tables.documents.get((kind, name))
    if known is not None and known.version != version:
        raise document_changed(kind, name)
    tables.documents.pop((kind, name), None)
