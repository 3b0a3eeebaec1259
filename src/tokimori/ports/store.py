"""What the inside asks of the shared database, cut by who asks.

One method is one transaction, and every method may be called again after an ambiguous error (`StoreUnavailable`): ids
are made by the caller, so that the second call finds what the first one did. No method calls back, none leaves a lock
behind. The store compares and writes finished values and says which took effect; the rules are in `tokimori.model`.
`now` is the caller's corrected clock. Every method raises `StoreUnavailable` where trying again can help.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol

from msgspec import Struct, field

from tokimori.clock import Moment
from tokimori.model.decide import Due
from tokimori.model.dependents import Edge
from tokimori.model.ids import ClaimId, Incarnation, JobId, Lane, NodeId, RunId, Token
from tokimori.model.job import Definition, Job
from tokimori.model.request import PLAIN, Manner
from tokimori.model.run import Attempt, Output, Run, Skip
from tokimori.model.transitions import RunState
from tokimori.ports.calendars import Calendars
from tokimori.ports.copying import Copying
from tokimori.ports.pausing import Pausing
from tokimori.ports.planning import Planning
from tokimori.ports.pruning import Pruning
from tokimori.ports.semaphores import Semaphores


class SchemaStatus(Struct, frozen=True, kw_only=True):
    """The store's schema (`version`, None: none yet) and the newest that this program knows.

    `oldest`: the store's migrations leave it usable by programs that know this schema, and by newer ones.
    """

    version: int | None
    newest: int
    pending: tuple[str, ...]
    oldest: int

    @property
    def too_new(self) -> bool:
        """Whether this program must keep away from the store."""
        return self.oldest > self.newest


class Schema(Protocol):
    """Opening a store, and its tables."""

    async def open(self) -> None:
        """Connect. Raises `StoreError`; creates no tables."""
        ...

    async def close(self) -> None:
        """Finish what was asked and free everything."""
        ...

    async def schema(self) -> SchemaStatus:
        """Which migrations have been applied. Raises `SchemaMismatch` where one of them was changed since."""
        ...

    async def migrate(self) -> SchemaStatus:
        """Apply what is pending; safe with several nodes at once. Raises `SchemaMismatch` for one that is too new."""
        ...

    async def script(self, *, whole: bool) -> str:
        """What `migrate` would do, or (`whole`) would do on an empty store, as statements for a database's own tool.

        Empty where nothing is pending. Raises `Refused` where the store knows no SQL.
        """
        ...

    async def differences(self) -> list[str]:
        """How the tables differ from what this program's migrations make, a sentence each. Raises `Refused`."""
        ...

    def faults(self) -> Sequence[str]:
        """What this store can't promise, one sentence each, for people."""
        ...

    def watch(self, wake: Callable[[], None]) -> None:
        """Call `wake`, on the loop, after somebody else may have changed something.

        A hint only: it may be lost, or idle.
        """
        ...


class Family(Struct, frozen=True, kw_only=True):
    """Which jobs run after which. `version` grows with every change of it."""

    version: int
    edges: tuple[Edge, ...] = ()


class Jobs(Protocol):
    """Definitions, as the service asks for them.

    Where a definition brings or drops edges, `family` is the version of the family against which its caller checked
    them: cycles are found by looking at all of it. Raises `FamilyChanged` where it has changed since.
    """

    async def add_jobs(self, jobs: Sequence[Job], family: int | None = None) -> None:
        """Keep all or none. Raises `Conflict` naming an id that exists; the same incarnation again is no conflict."""
        ...

    async def family(self) -> Family:
        """The edges of all jobs, in order."""
        ...

    async def get_job(self, job_id: JobId) -> Job:
        """Raises `NotFound`."""
        ...

    async def list_jobs(self, *, after: JobId | None = None, limit: int = 1000, idle: bool = False) -> list[Job]:
        """By id, those greater than `after`. `idle`: only enabled ones without a next moment."""
        ...

    async def replace_job(self, old: Job, new: Job, skips: Sequence[Skip] = (), family: int | None = None) -> None:
        """Put `new` in place of `old` if incarnation, version, state and `fired_through` still are those of `old`.

        When this returns, nothing of the old definition is claimed any more: runs of a paused or parked job lose their
        lane, runs of an enabled or finished one get the lane of the new definition, runs blocked by its limit are woken
        as far as there is room, and those in the line of a key or a semaphore are ready again: they find their line by
        claim. What the old definition wanted serves its line. An edit of a stopped job gives its forced runs, which
        have a lane, the new one. Raises `Conflict` (it changed meanwhile) and `NotFound`.
        """
        ...

    async def delete_job(self, job_id: JobId, now: Moment) -> None:
        """Forget the job; its runs that have not started are cancelled, those that run go on to their end.

        Until the last of them has ended the job is `deleted_job`; the id is free at once. The family's version grows,
        so that nobody adds a child to what is gone. Raises `NotFound`, and `Refused` where other jobs say that they run
        after it.
        """
        ...

    async def deleted_job(self, job_id: JobId) -> Job:
        """The job that had this id and was deleted last, in state `deleted`, while runs of it run. Raises `NotFound`.

        Updated is when it was deleted; what only a job that fires needs is not kept.
        """
        ...

    async def get_due(self, job_id: JobId) -> Due:
        """The job as `due` gives it, whenever its next moment is. Raises `NotFound`."""
        ...

    async def skips(self, job_id: JobId, *, limit: int = 100) -> list[Skip]:
        """The newest rows of the ledger that are skips, newest first."""
        ...


class RunFilter(Struct, frozen=True, kw_only=True):
    """Which runs: newest first, ids smaller than `before`."""

    job_id: JobId | None = None
    states: frozenset[RunState] = frozenset()
    before: RunId | None = None
    limit: int = 100


class Runs(Protocol):
    """Runs, as the service asks for them."""

    async def add_run(self, run: Run, now: Moment, manner: Manner = PLAIN) -> Run:
        """Keep a requested run, `waiting` or `ready`; where its origin exists already, return that run instead.

        Where its manner lets another run of its key answer, or take over what it asks for, that run is returned; a
        request asked again within `REMEMBERED` gets the same answer. Raises `NotFound` (no such job, or another
        incarnation) and `Refused` (the job is paused or parked, unless it is forced; or as many wait as may).
        """
        ...

    async def get_run(self, run_id: RunId) -> Run:
        """Live or finished. Raises `NotFound`."""
        ...

    async def list_runs(self, wanted: RunFilter) -> list[Run]:
        """Live and finished, newest first (by id)."""
        ...

    async def attempts(self, run_id: RunId) -> list[Attempt]:
        """The kept attempts by number. The newest one of a running run, and a first success, are in the run itself."""
        ...

    async def output(self, run_id: RunId, attempt: int) -> Output | None:
        """What the attempt wrote, as far as it is known."""
        ...

    async def cancel_run(self, run_id: RunId, reason: str, now: Moment) -> Run:
        """End a run that has not started; leave the order (`cancel`) with one that runs.

        Its turn in the lines of its constraints is passed on. An ended one stays as it is. Raises `NotFound`.
        """
        ...

    async def hold_run(self, run_id: RunId, reason: str) -> Run:
        """Keep a run that has not started from starting. Raises `NotFound`, and `Refused` for one that runs or ended.

        A held one stays as it is. A turn is passed on as by `cancel_run`.
        """
        ...

    async def resume_run(self, run_id: RunId) -> Run:
        """Make a held run ready. Others that have not ended stay as they are. Raises `NotFound`, `Refused` (ended)."""
        ...


class NodeRecord(Struct, frozen=True, kw_only=True):
    """A node's row. `beat` grows while it lives; `left` is when it went, by itself or declared dead.

    One whose `concurrency` is 0 is a program: it runs no jobs, but holds permits of semaphores or waits for them.
    """

    id: NodeId
    host: str
    boot_id: str
    pid: int
    labels: dict[str, str] = field(default_factory=dict)
    concurrency: int
    version: str
    started: Moment
    beat: int = 0
    state: "NodeState"
    left: Moment | None = None

    @property
    def is_program(self) -> bool:
        """Whether it runs no jobs."""
        return self.concurrency == 0

    @property
    def runs_jobs(self) -> bool:
        """Whether it lives, and is no program."""
        return self.state is NodeState.ALIVE and not self.is_program


class NodeState(StrEnum):
    """Death is final: a dead node's row never lives again."""

    ALIVE = "alive"
    LEFT = "left"
    """It went by itself, owning nothing."""
    DEAD = "dead"
    """Another node saw no beat for too long."""


class Beat(Struct, frozen=True, kw_only=True):
    """What a node tells with each tick: that it lives, and which processes began since."""

    node: NodeId
    started: tuple["StartedRun", ...] = ()


class StartedRun(Struct, frozen=True, kw_only=True):
    """A run whose process began; kept with the run while (node, token) still hold it."""

    run_id: RunId
    token: Token
    pid: int
    at: Moment


class Pulse(Struct, frozen=True, kw_only=True):
    """What a node hears with each tick, all read in the tick's own transaction.

    `now` is the store's time. `owned` are the runs that the store gives this node; `cancels` those of them that are to
    end, with the reason. `peers` are the other living nodes with their beat counters. `orphans`: dead nodes own runs.
    """

    now: Moment
    owned: frozenset[tuple[RunId, Token]]
    cancels: tuple[tuple[RunId, Token, str], ...]
    peers: tuple[tuple[NodeId, int], ...]
    orphans: bool
    survey: "Survey"


class Survey(Struct, frozen=True, kw_only=True):
    """What there is to do: the next moment at which a job or a waiting run is due, and the lanes with ready runs, but
    those of paused queues.
    """

    next_due: Moment | None
    lanes: tuple[Lane, ...]


class Nodes(Protocol):
    """Who takes part, and who is alive. No wall clocks are compared."""

    async def register(self, node: NodeRecord) -> None:
        """Add a living node."""
        ...

    async def tick(self, beat: Beat, now: Moment) -> Pulse | None:
        """Raise the node's counter and tell it what concerns it. None: it is dead, for good.

        A few lines of semaphores with free units are served, in lanes where nothing is ready: imported runs need it.
        """
        ...

    async def survey(self, now: Moment, *, past: Moment | None = None) -> Survey:
        """What there is to do, without a beat. `past`: jobs that were due by then are left out."""
        ...

    async def bury(self, dead: NodeId, beat: int, by: NodeId, now: Moment) -> bool:
        """Declare a node dead if its counter still is `beat` and `by` lives. Whether it is dead now.

        What its programs hold is free, and their places in line are gone; its runs keep their permits until settled.
        """
        ...

    async def leave(self, node: NodeId, now: Moment) -> bool:
        """The node goes, with what its programs hold; refused (False) while it owns runs. A program's row goes too."""
        ...

    async def orphans(self, limit: int) -> list["Claimed"]:
        """Running runs of dead nodes, oldest rank first."""
        ...

    async def list_nodes(self, *, limit: int = 1000) -> list[NodeRecord]:
        """Living ones first, then those that went, newest first."""
        ...


class Claim(Struct, frozen=True, kw_only=True):
    """A request for work: at most `limit` ready runs of these lanes. The id is new for each request."""

    id: ClaimId
    node: NodeId
    lanes: tuple[Lane, ...]
    limit: int


class Claimed(Struct, frozen=True, kw_only=True):
    """A run that a node owns, with its job's definition of now; None where the job is gone."""

    run: Run
    definition: Definition | None


class Verdict(StrEnum):
    """What became of a change."""

    APPLIED = "applied"
    ALREADY_APPLIED = "already applied"
    LOST = "lost"
    """The run is no longer this node's with this token; nothing was changed."""


class Change(Struct, frozen=True, kw_only=True):
    """A running run's next state, finished: what `settle` writes if (run, owner, token) still hold.

    `attempt` is None for an attempt that needs no row of its own (a first success, or one that never began). `result`
    goes to the run's children. `parks`: if the run ends as failed, its job is parked with the run's error.
    """

    run_id: RunId
    job_id: JobId
    incarnation: Incarnation
    owner: NodeId
    token: Token
    state: RunState
    due: Moment
    rank: int
    failures: int
    lost: int
    ended: Moment
    started: Moment | None = None
    pid: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    error: str | None = None
    attempt: Attempt | None = None
    output: Output | None = None
    result: str | None = None
    parks: bool = False


class Working(Protocol):
    """From ready runs to ended ones."""

    async def claim(self, claim: Claim, now: Moment) -> list[Claimed]:
        """Give the node ready runs by (rank, id): running, token + 1, attempt + 1. Asked again, the same ones.

        A run that a constraint refuses joins its line as blocked instead, and passes its turn on in the lines of its
        other constraints: the job's limit, then its concurrency key, then the semaphores by name; the first one that
        refuses counts, and none is taken unless all are. A paused or parked job or a paused queue yields nothing; a
        dead node gets nothing. Limits are exact, whatever claims at the same time. One call sends a bounded number of
        runs to the lines: it may give fewer than there are, and goes on when it is asked anew.
        """
        ...

    async def settle(self, changes: Sequence[Change], by: NodeId, now: Moment) -> list[Verdict]:
        """Write each change that still holds; a verdict for each, in order. A refused one hinders no other.

        The owner settles its own runs while it lives; those of a dead owner any living node (`by`) may settle. What
        ends moves to the history; a freed place or unit serves its line, and the children of what ended get their runs
        (`tokimori.stores.rules.births.child_run`; a paused, parked or full child a skip), in this transaction.
        """
        ...

    async def save_outputs(self, outputs: Sequence[Output]) -> None:
        """Keep what running attempts have written so far; the newest wins, and nothing overwrites a settled output."""
        ...


class Store(Schema, Jobs, Calendars, Pausing, Runs, Planning, Nodes, Working, Semaphores, Copying, Pruning, Protocol):
    """The shared database, and the only truth."""
