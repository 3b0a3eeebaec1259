"""Questions of a worker to the store about runs. Every method is one transaction, as in `ports.store`."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from tokimori.clock import Moment
from tokimori.model.ids import ClaimId, Incarnation, JobId, Lane, NodeId, RunId, Token
from tokimori.model.job import Definition
from tokimori.model.run import Attempt, Details, Output, Run, Step
from tokimori.model.transitions import RunState

LARGE = 4_000_000
"""Characters of payload after which a transaction takes no more runs: some stores rewrite the whole row with each
change."""


class Claim(Struct, frozen=True, kw_only=True):
    """A request for work: at most `limit` ready runs of these lanes. Each request has a new id.

    `skip`: pass this number of runs at the head of its only lane.
    """

    id: ClaimId
    node: NodeId
    lanes: tuple[Lane, ...]
    limit: int
    skip: int = 0


# Without `gc`, here and in what else each run makes: a node holds thousands, which can't refer to each other. To look
# through them again and again took 0.7 µs a run, a fifth of what the engine itself does for it.
class Claimed(Struct, frozen=True, kw_only=True, gc=False):
    """A run that a node owns, with its job's current definition; None if the job was deleted."""

    run: Run
    definition: Definition | None


def is_cut(claimed: Sequence[Claimed]) -> bool:
    """Return whether the size of payloads may have cut a claim short."""
    return sum(len(each.run.payload or "") for each in claimed) >= LARGE


class Verdict(StrEnum):
    """The store's answer to a change."""

    APPLIED = "applied"
    ALREADY_APPLIED = "already applied"
    LOST = "lost"
    """The run is no longer this node's with this token; nothing was changed."""


class Change(Struct, frozen=True, gc=False, omit_defaults=True):
    """The next state of a running run as finished values, which `settle` writes if (run, owner, token) still hold.

    `attempt` is None for an attempt that needs no row of its own (a first success, or one that never began). `result`
    goes to the run's children. `details` replace the run's; None: these stay. Of a success `due`, `rank`, `failures`
    and `lost` are those of the run. `parks`: if the run ends as failed, its job is parked with the run's error.
    `childless`: its end brings no children, because the store refused it with them. A store may send it encoded,
    without fields that are as in most changes. `then` are the steps that were requested to follow an end, or those for
    which the run waits from now on (`spawns`). `later` are job and payload of further ones, which are kept in documents
    before (`Families.settling`): no store gets them. `resumes`: it ends such a wait, or goes on with it. `family` is
    the run that waits for the end of this one.
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
    details: Details | None = None
    parks: bool = False
    childless: bool = False
    then: tuple[Step, ...] = ()
    cpu: int | None = None
    memory: int | None = None
    resumes: bool = False
    family: RunId | None = None
    later: tuple[tuple[JobId, str | None], ...] = ()

    @property
    def spawns(self) -> bool:
        """Return if its steps are to be made although its run goes on: it waits for them from now on."""
        return self.state is RunState.WAITING and bool(self.then) and not self.childless


class Working(Protocol):
    """Claims and settles of runs."""

    async def claim(self, claim: Claim, now: Moment) -> list[Claimed]:
        """Give the node ready runs by (rank, id): running, token + 1, attempt + 1. Asked again, the same ones.

        A run is claimed only if all its constraints have room: the job's limit, then its concurrency key, then its
        semaphores by name. Otherwise it takes nothing, joins the line of the first one that refuses it as blocked, and
        passes its turn on in the lines of the others. A paused or parked job or a paused queue yields nothing; a dead
        node gets nothing. Limits are exact, also while others claim. One call sends a bounded number of runs to the
        lines, and gives no more once `LARGE` payloads are among them, so it may give fewer; the next call goes on.
        """
        ...

    async def settle(self, changes: Sequence[Change], by: NodeId, now: Moment) -> list[Verdict]:
        """Write each change that still holds; returns a verdict for each, in order. A refused one hinders no other.

        A living owner settles its own runs; any living node (`by`) may settle those of a dead one. In the same
        transaction ended runs move to the history, freed places and units serve their lines, and the children of ended
        runs get their runs (`tokimori.stores.rules.new_runs.child_run`), or a skip if it is paused, parked or full.
        """
        ...

    async def save_outputs(self, outputs: Sequence[Output]) -> None:
        """Store the output of running attempts so far; a newer output replaces an older one, never a settled one."""
        ...
