"""Protocols of the shared database, one for each caller.

One method is one transaction, and every method may be called again after an ambiguous error (`StoreUnavailable`): ids
are made by the caller, so that the second call finds what the first one did. No method calls back, and none leaves a
lock behind. The store compares and writes finished values and says which took effect; the rules are in
`tokimori.model`. `now` is the caller's corrected clock. Every method raises `StoreUnavailable` if trying again can
help.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol, Self, runtime_checkable

from msgspec import Struct

from tokimori.clock import Moment
from tokimori.errors import StoreError
from tokimori.model.decide import Due
from tokimori.model.dependents import Edge
from tokimori.model.document import Document
from tokimori.model.ids import Incarnation, JobId, RunId
from tokimori.model.job import Job, JobState
from tokimori.model.request import PLAIN, Manner
from tokimori.model.run import Attempt, Details, Output, Run, Skip
from tokimori.model.transitions import RunState
from tokimori.ports.copying import Copying
from tokimori.ports.documents import Documents
from tokimori.ports.ends import Endings
from tokimori.ports.nodes import Nodes
from tokimori.ports.planning import Pausing, Planning
from tokimori.ports.pruning import Pruning
from tokimori.ports.semaphores import SemaphoreTable
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
        """Return if this program must not use the store."""
        return self.oldest > self.newest

    @property
    def too_old(self) -> bool:
        """Return if migrations are pending, apart from functions that each program adds for itself."""
        return self.version is not None and self.version < self.newest


class Schema(Protocol):
    """Opening a store, and its tables."""

    async def open(self) -> None:
        """Connect. Raises `StoreError`; creates no tables."""
        ...

    async def for_doors(self) -> Self:
        """Return the same open store for requests through doors: nodes never wait for them.

        It is closed with this one. Its reads have a time limit of seconds: `StoreTooSlow`.
        """
        ...

    async def close(self) -> None:
        """Finish pending requests and free all resources."""
        ...

    async def schema(self) -> SchemaStatus:
        """Return the applied migrations. Raises `SchemaMismatch` if the text of one has changed since."""
        ...

    async def migrate(self) -> SchemaStatus:
        """Apply pending migrations; several nodes may do so at once. Raises `SchemaMismatch` for a schema too new."""
        ...

    async def script(self, *, whole: bool) -> str:
        """Return the statements that `migrate` would run, or (`whole`) would run on an empty store.

        They are for the database's own tool; empty if none are pending. Raises `Refused` if the store has no SQL.
        """
        ...

    async def differences(self) -> list[str]:
        """Return the differences to the tables of this program's migrations, a sentence each. Raises `Refused`."""
        ...

    def faults(self) -> Sequence[str]:
        """Return the promises that this store can't keep, a sentence each, for people."""
        ...

    def watch(self, wake: Callable[[], None]) -> None:
        """Call `wake`, on the loop, when another program may have changed something.

        It is only a hint: one may be missing, or come without a change.
        """
        ...


class Family(Struct, frozen=True, kw_only=True):
    """Edges between jobs. `version` grows with every change."""

    version: int
    edges: tuple[Edge, ...] = ()


class Jobs(Protocol):
    """Definitions, for the service.

    If a definition adds or drops edges, `family` is the version of the family against which its caller checked them: a
    search for cycles needs all of it. Raises `FamilyChanged` if it has changed since.
    """

    async def add_jobs(self, jobs: Sequence[Job], family: int | None = None) -> None:
        """Store all jobs or none. Raises `Conflict` with an id that is taken, unless by the same incarnation."""
        ...

    async def family(self) -> Family:
        """Return the edges of all jobs, in order, and their version."""
        ...

    async def get_job(self, job_id: JobId) -> Job:
        """Return the job of that id. Raises `NotFound`."""
        ...

    async def get_jobs(self, job_ids: Sequence[JobId]) -> list[Job]:
        """Return the jobs that exist of these, in any order."""
        ...

    async def list_jobs(
        self,
        *,
        after: JobId | None = None,
        limit: int = 1000,
        idle: bool = False,
        like: Sequence[str] = (),
        states: Collection[JobState] = (),
    ) -> list[Job]:
        """Return jobs with ids greater than `after`, in order of ids. `idle`: only enabled ones without a next
        moment. `like` and `states` are hints: those may be left out whose stored definition lacks one of these texts,
        or that are in none of these states.
        """
        ...

    async def list_queues(self, first: str, limit: int) -> list[tuple[str, int]]:
        """Return queues with jobs, in order of their names from `first` on, each with the number of its jobs."""
        ...

    async def replace_job(self, old: Job, new: Job, skips: Sequence[Skip] = (), family: int | None = None) -> None:
        """Put `new` in place of `old` if incarnation, version, state and `fired_through` still are those of `old`.

        If the cursor goes back (`model.rewind`), skips that begin after it are deleted before `skips` are written, and
        ready runs that are due after `new.updated` wait again, except children. Runs that wait for another attempt, and
        began the last one after `new.updated`, are due then.

        When this returns, no run of the old definition is claimed any more, though some of many runs move later, a
        bounded number with each beat of a node. Runs of a paused or parked job lose their lane; runs of an enabled or
        finished one get the lane of the new definition. Runs blocked by the job's limit are woken as far as there is
        room; those in the line of a key or a semaphore become ready again, and find their line when they are claimed.
        The lines that they left are served. Runs that have not begun and have the old priority take the new one; those
        requested with another one keep it. After an edit of a stopped job its forced runs, which have a lane, get the
        new one. Raises `Conflict` (the job changed meanwhile) and `NotFound`.
        """
        ...

    async def delete_job(self, job_id: JobId, now: Moment, known: Job | None = None) -> None:
        """Delete the job. Its runs that have not started are cancelled; running ones go on to their end.

        Of many runs some end later, a bounded number with each beat of a node; none of them is claimed meanwhile.

        Until the last of them has ended `deleted_job` finds the job; the id is free at once. The family's version
        grows, so that nobody adds a child to a deleted job. Raises `NotFound`, `Refused` if other jobs say that they
        run after it, and `Conflict` if its stamp is not that of `known` any more.
        """
        ...

    async def deleted_job(self, job_id: JobId) -> Job:
        """Return the job of this id that was deleted last, in state `deleted`, as long as one of its runs runs.

        `updated` is when it was deleted; fields for firing alone are not kept. Raises `NotFound`.
        """
        ...

    async def get_due(self, job_id: JobId) -> Due:
        """Return the job as `due` gives it, whenever its next moment is. Raises `NotFound`."""
        ...

    async def skips(self, job_id: JobId, *, limit: int = 100) -> list[Skip]:
        """Return the job's newest skips, newest first."""
        ...


Most = int | None
"""Bytes of texts in a list of runs; longer ones are left out: see `RunFilter.longest`."""


OCCURRENCES: Most = -1
"""As `RunFilter.longest`, if only the existence of runs matters: no text is read, and perhaps only id, job,
incarnation, origin, nominal time, state, and creation time. All else may be missing.
"""


class RunFilter(Struct, frozen=True, kw_only=True):
    """Filter of a list of runs: the newest ones whose ids are smaller than `before`.

    Each may have a payload of a megabyte. `longest`: payloads, results, errors and details of more bytes are not read
    (`tokimori.model.run.LONG` stands for them); 0: none are read, and all are None; None: all are read.
    """

    job_id: JobId | None = None
    states: frozenset[RunState] = frozenset()
    before: RunId | None = None
    limit: int = 100
    longest: Most = None


MOST_TALLIED = 2_000
"""Number of the newest runs of a job whose ends are counted: those of a week with a run each five minutes."""


class Tally(NamedTuple):
    """Numbers of runs of a job that have succeeded and failed."""

    job_id: JobId
    succeeded: int
    failed: int


class Runs(Protocol):
    """Runs, for the service."""

    async def add_run(self, run: Run, now: Moment, manner: Manner = PLAIN) -> Run:
        """Store a requested run, `waiting` or `ready`; if its origin exists already, return that run instead.

        If the manner lets another run of the same key answer, or take over the request, that run is returned. A request
        repeated within `REMEMBERED` gets the same answer. Raises `NotFound` (no such job, or another incarnation) and
        `Refused` (the job is paused or parked and the run not forced, or no more runs may wait).
        """
        ...

    async def add_runs(self, runs: Sequence[Run], now: Moment) -> list[Run]:
        """Store plainly requested runs of one job, with different origins: all of them, or none.

        If an origin exists already, that run is returned: only new runs need room. At least one run, and at most some
        hundred. Raises what `add_run` does.
        """
        ...

    async def get_run(self, run_id: RunId) -> Run:
        """Return the run of that id, live or ended. Raises `NotFound`."""
        ...

    async def list_runs(self, wanted: RunFilter) -> list[Run]:
        """Return live and ended runs, newest first (by id)."""
        ...

    async def last_runs(self, job_ids: Sequence[JobId], limit: int, longest: Most = None) -> list[Run]:
        """Return the newest runs of each of these jobs, live and ended, at most `limit` each, newest first (by id).

        `longest`: as in `RunFilter`.
        """
        ...

    async def tallies(self, job_ids: Sequence[JobId], since: RunId) -> list[Tally]:
        """Return the number of successes and failures of each of these jobs, among runs whose ids are `since` or above.

        The newest `MOST_TALLIED` runs of each job count. On Redis no run counts that is older than the newest
        `MOST_TALLIED` of all jobs that did not succeed. A job without ended runs is left out.
        """
        ...

    async def runs_of(self, incarnation: Incarnation, origins: Sequence[str], longest: Most = None) -> list[Run]:
        """Return the runs of a job's life that have these origins; scheduled ones may be missing once they have ended.

        `longest`: as in `RunFilter`.
        """
        ...

    async def attempts(self, run_id: RunId) -> list[Attempt]:
        """Return kept attempts by number. The current attempt of a running run, and a first success are in the run."""
        ...

    async def output(self, run_id: RunId, attempt: int) -> Output | None:
        """Return the output of the attempt, as far as it is known."""
        ...

    async def outputs_with(self, text: bytes, attempts: Mapping[RunId, int]) -> list[RunId]:
        """Return the runs whose kept output of this attempt contains these bytes, at most some hundred."""
        ...

    async def cancel_run(self, run_id: RunId, reason: str, now: Moment, unbegun: int | None = None) -> Run:
        """End a run that has not started; order a running one to end (`cancel`).

        The turn of one that has not started is passed on in the lines of its constraints. A run that has ended stays
        as it is. With `unbegun` it ends as skipped, and only if it does not run and has had so many attempts. Raises
        `NotFound`.
        """
        ...

    async def hold_run(self, run_id: RunId, reason: str) -> Run:
        """Keep a run that has not started from starting; a held run stays as it is.

        Its turn is passed on as by `cancel_run`. Raises `NotFound`, and `Refused` for a run that runs or has ended.
        """
        ...

    async def resume_run(self, run_id: RunId, details: tuple[Details, Details] | None = None) -> Run:
        """Make a held run ready; other live runs stay as they are. Raises `NotFound`, and `Refused` if it has ended.

        With `details`, only a run with the first of these details changes, and gets the second.
        """
        ...


class Store(
    Schema,
    Jobs,
    Documents,
    Pausing,
    Runs,
    Endings,
    Planning,
    Nodes,
    Working,
    SemaphoreTable,
    Copying,
    Pruning,
    Protocol,
):
    """The shared database, and the only truth."""

    def under(self, guard: Document) -> Self:
        """Return the same open store, whose methods make changes only while it holds this version of the document.

        It is compared in the transaction of each method, and stays until its end. Else `Overtaken` is raised. It is
        closed with this one.
        """
        ...

    def shut_while(self, document: Document, error: Callable[[], StoreError]) -> None:
        """Raise this error at changes while the document exists. Stores notice it within `looks_every` seconds.

        It is noticed after `looks_every` seconds at the latest.
        """
        ...

    @property
    def looks_every(self) -> float:
        """See `shut_while`."""
        ...

    def mark(self) -> object:
        """Return a value that differs after any write by any program; None: this store can't say without waiting.

        Rows read after it was taken are current as long as it stays the same.
        """
        ...


class Outside(Struct, frozen=True, kw_only=True):
    """Statements for the program's own connection, with `?` for each value.

    `driver` is `sqlite`, `postgresql` or `mysql`. `where` identifies the database; the store's own connection answers
    `here`. `add` stores a run: it waits without a lane, so that no lock on its job is needed, and gets the job's lane
    when it is due (`Planning.promote`). If it `checks`, it refuses runs of a stopped or deleted job, and returns a row
    if it stored one; else the caller checks before. `known` finds the run of an incarnation and an origin. `notice`
    wakes nodes after the commit; None if they notice without it.
    """

    driver: str
    where: str
    here: tuple[object, ...]
    add: str
    known: str
    checks: bool = True
    notice: tuple[str, tuple[object, ...]] | None = None


@runtime_checkable
class HasOutside(Protocol):
    """A store whose database takes part in transactions of other programs."""

    async def outside(self) -> Outside:
        """Return the statements, for the database that this store is in."""
        ...
