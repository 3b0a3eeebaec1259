"""What whoever runs runs asks of the shared database. One method is one transaction, as in `ports.store`."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from tokimori.clock import Moment
from tokimori.model.ids import ClaimId, Incarnation, JobId, Lane, NodeId, RunId, Token
from tokimori.model.job import Definition
from tokimori.model.run import Attempt, Output, Run
from tokimori.model.transitions import RunState


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
