"""What the inside asks of the shared database, cut by who asks.

One method is one transaction, and every method may be called again after an ambiguous error (`StoreUnavailable`): ids
are made by the caller, so that the second call finds what the first one did. No method calls back, none leaves a lock
behind. The store compares and writes finished values and says which took effect; the rules are in `tokimori.model`.
`now` is the caller's corrected clock. Every method raises `StoreUnavailable` where trying again can help.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from tokimori.clock import Moment
from tokimori.model.decide import Due
from tokimori.model.dependents import Edge
from tokimori.model.ids import JobId, RunId
from tokimori.model.job import Job
from tokimori.model.request import PLAIN, Manner
from tokimori.model.run import Attempt, Output, Run, Skip
from tokimori.model.transitions import RunState
from tokimori.ports.calendars import Calendars
from tokimori.ports.copying import Copying
from tokimori.ports.nodes import Nodes
from tokimori.ports.pausing import Pausing
from tokimori.ports.planning import Planning
from tokimori.ports.pruning import Pruning
from tokimori.ports.semaphores import Semaphores
from tokimori.ports.working import Working


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


class Store(Schema, Jobs, Calendars, Pausing, Runs, Planning, Nodes, Working, Semaphores, Copying, Pruning, Protocol):
    """The shared database, and the only truth."""
