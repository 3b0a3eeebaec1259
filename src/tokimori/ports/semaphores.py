"""Named semaphores: units that runs and programs hold. Every method is one transaction, as in `tokimori.ports.store`.

A run gets the units of all its semaphores with its claim, or none of them, and holds them while it is `running`: any
end of the attempt releases them. A program registers as a node with concurrency 0, ticks, and leaves: its permits and
its places in line end with it. A semaphore that was never made has one unit; it is made at the first request. The held
weights never add up to more than the limit, except for units held when the limit was lowered.

A semaphore has one line for each lane: the lane's blocked runs and all waiting programs, by (rank, id), a program
before a run of the same rank. The first in a line waits for units only, and none behind it may pass. A freed unit goes,
in the transaction that frees it, to the programs that are before every blocked run; then, in every lane, as many runs
from the head of the line are made ready as fit together into the free units. As no run of a paused queue is claimed,
programs pass its blocked runs when they ask again.

A semaphore may have a rate: a unit that is taken counts for a period, whatever becomes of its run
(`tokimori.model.claim_rate`). The store's clock counts, read behind the lock. A run that the rate refuses waits in the
line too: when units fit again, as many heads are woken as there are units, one lane after the other
(`tokimori.stores.rules.rates`). That moment is part of `Survey.next_due`; `promote` wakes them, or a tick.
"""

from typing import Protocol

from msgspec import Struct

from tokimori.clock import Moment
from tokimori.model.claim_rate import ClaimRate
from tokimori.model.ids import NodeId, PermitId, RunId

MOST_COUNTED = 1000
"""Waiters are counted up to this number."""
MOST_HOLDERS = 100
"""The most holders that are shown."""


class Permit(Struct, frozen=True, kw_only=True):
    """Units of a semaphore that a run (`run_id`) or a program holds, or a program's place in line (`token` None).

    The `token` of a program grows with every grant of the semaphore; that of a run is the token of its claim. `rank`
    orders the line, smaller first. `since` is when the run was claimed, or when the program first asked.
    """

    id: PermitId
    semaphore: str
    node: NodeId
    run_id: RunId | None
    weight: int
    rank: int
    token: int | None
    since: Moment


class Semaphore(Struct, frozen=True, kw_only=True):
    """A semaphore of `limit` units, of which `used` are held.

    `waiting` is the number of runs and programs in line, counted up to `MOST_COUNTED`. `holders` are the first
    `MOST_HOLDERS` held permits, by (since, id). With a rate, `taken` units count now, and the line continues at
    `wakes`.
    """

    name: str
    limit: int
    used: int
    waiting: int
    holders: tuple[Permit, ...] = ()
    rate: ClaimRate | None = None
    taken: int = 0
    wakes: Moment | None = None


class UnitRequest(Struct, frozen=True, kw_only=True):
    """A program's request for units. The caller makes the id, a new UUIDv7 for each request.

    `limit` is the limit that the semaphore must have; a new one is made with it. None: any limit; a new one gets 1.
    """

    id: PermitId
    node: NodeId
    semaphore: str
    weight: int = 1
    limit: int | None = None
    rank: int


class Grant(Struct, frozen=True, kw_only=True):
    """The program holds its units; `token` is greater than that of each earlier grant to a program.

    That also holds if the semaphore was deleted and made again since.
    """

    token: int


class InLine(Struct, frozen=True, kw_only=True):
    """The program waits. `ahead`: how many programs and runs (of all lanes) are before it, up to `MOST_COUNTED`."""

    ahead: int


class NodeGone(Struct, frozen=True, kw_only=True):
    """The program's node is dead: it has lost all that it held."""


Answer = Grant | InLine | NodeGone


def permit_of(run_id: RunId, semaphore: str) -> PermitId:
    """Return the id of a run's permit."""
    return PermitId(f"{run_id}/{semaphore}")


class SemaphoreTable(Protocol):
    """Units of named semaphores, for people and for programs; runs get theirs by `Working.claim`."""

    async def put_semaphore(self, name: str, limit: int, now: Moment, rate: ClaimRate | None = None) -> None:
        """Make the semaphore, or change its limit (at least 1) and its rate; a larger one serves the line at once.

        Held units stay held, and what was taken counts for the new rate. Raises `Refused` if a waiter in its line wants
        more units than the new limit or rate.
        """
        ...

    async def list_semaphores(self, *, after: str = "", limit: int = 1000) -> list[Semaphore]:
        """Return semaphores whose names are greater than `after`, in order of names (by their bytes)."""
        ...

    async def get_semaphore(self, name: str) -> Semaphore:
        """Return the semaphore of that name. Raises `NotFound` if it was never made or requested."""
        ...

    async def delete_semaphore(self, name: str) -> None:
        """Delete the semaphore; do nothing if there is none. Raises `Refused` while units are held or waited for."""
        ...

    async def acquire(self, request: UnitRequest, now: Moment) -> Answer:
        """Join the line; granted at once if first in it (no blocked run has a smaller rank) and the units fit.

        A repeated call with the same id returns the same grant, or the place in line; it is granted if its turn has
        come. Raises `Refused` if the weight is above the limit, or `limit` is not that of the semaphore.
        """
        ...

    async def release(self, permit: PermitId, node: NodeId, now: Moment) -> bool:
        """Release the units, or leave the line, and serve the line. False: this node's program has no such permit.

        It was lost with the node, or released before, perhaps by the same call, whose reply was lost.
        """
        ...
