"""Named semaphores: units that runs and programs hold. Every method is one transaction, as in `tokimori.ports.store`.

A run gets the units of all its semaphores with its claim, or none of them, and holds them while it is `running`:
whatever ends the attempt gives them back. A program registers as a node with concurrency 0, ticks, and leaves: its
permits and its places in line end with its life. A semaphore that nobody made has one unit, and comes to be when it is
first asked for. The sum of the weights that are held exceeds the limit at no moment (but what was held already when the
limit was lowered stays held).

In each lane there is one line for a semaphore: the lane's blocked runs and all the programs that wait, by (rank, id), a
program before a run of its rank. Who is first in a line waits for units only, and lets nobody behind pass. A unit that
becomes free goes, in the transaction that frees it, to the programs that are before every blocked run, and makes ready
in every lane as many runs from the head of the line as fit together into what is free then. Of a paused queue nothing
is claimed: programs pass its blocked runs, as soon as they ask again.
"""

from typing import Protocol

from msgspec import Struct

from tokimori.clock import Moment
from tokimori.model.ids import NodeId, PermitId, RunId

MOST_COUNTED = 1000
"""So far are waiters counted."""
MOST_HOLDERS = 100
"""So many holders are shown."""


class Permit(Struct, frozen=True, kw_only=True):
    """Units of a semaphore that a run (`run_id`) or a program holds, or a program's place in line (`token` None).

    `token` of a program grows with every grant of the semaphore; that of a run is the token of its claim. `rank` orders
    the line, smaller first. `since` is when the run was claimed, or the program first asked.
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

    `waiting`: runs and programs in line, counted up to `MOST_COUNTED`. `holders`: the first `MOST_HOLDERS` permits that
    are held, by (since, id).
    """

    name: str
    limit: int
    used: int
    waiting: int
    holders: tuple[Permit, ...] = ()


class Wish(Struct, frozen=True, kw_only=True):
    """A program asks for units. The id is made by the caller, new for each wish, as a UUIDv7.

    `limit` is what the semaphore is to have: it is made with so many units. None: whatever it has, one if it is new.
    """

    id: PermitId
    node: NodeId
    semaphore: str
    weight: int = 1
    limit: int | None = None
    rank: int


class Grant(Struct, frozen=True, kw_only=True):
    """The program holds its units; `token` is greater than that of each earlier grant to a program.

    So too where the semaphore was deleted since, and made anew.
    """

    token: int


class InLine(Struct, frozen=True, kw_only=True):
    """The program waits; `ahead`: programs and runs of all lanes before it in line, counted up to `MOST_COUNTED`."""

    ahead: int


class NodeGone(Struct, frozen=True, kw_only=True):
    """The program's node does not live: it has lost all that it held."""


Answer = Grant | InLine | NodeGone


def permit_of(run_id: RunId, semaphore: str) -> PermitId:
    """The id of a run's permit."""
    return PermitId(f"{run_id}/{semaphore}")


class Semaphores(Protocol):
    """Units of named semaphores, for people and for programs; runs get theirs by `Working.claim`."""

    async def put_semaphore(self, name: str, limit: int, now: Moment) -> None:
        """Make it, or change its limit (at least 1); a larger one serves the line at once.

        What is held stays held. Raises `Refused` where something in its line wants more units than that.
        """
        ...

    async def list_semaphores(self, *, after: str = "", limit: int = 1000) -> list[Semaphore]:
        """By name (in the order of their bytes), those greater than `after`."""
        ...

    async def get_semaphore(self, name: str) -> Semaphore:
        """Raises `NotFound`: nobody has made it or asked for it yet."""
        ...

    async def delete_semaphore(self, name: str) -> None:
        """Forget it; none of that name is no error. Raises `Refused` while units are held, or something waits."""
        ...

    async def acquire(self, wish: Wish, now: Moment) -> Answer:
        """Join the line, and be granted if first in it (before or level with every blocked run) and the units fit.

        Asked again by the same id: the same grant, or the place in line, where it is served if its turn has come.
        Raises `Refused` where the weight is above the limit, or `limit` is not that of the semaphore.
        """
        ...

    async def release(self, permit: PermitId, node: NodeId, now: Moment) -> bool:
        """Give the units back, or leave the line, and serve the line. False: this node's program had no such permit.

        It was lost with the node, or given back before: perhaps by the same call, whose reply was lost.
        """
        ...
