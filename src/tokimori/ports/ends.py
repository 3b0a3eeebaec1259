"""Ends of runs in the order in which they were written: the source of events.

If the store was away, a settle comes long after the attempt has ended: a reader can't follow the order of `ended`. So
each end has the moment, by the store's clock, at which it was written.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from tokimori.clock import SECOND, Moment
from tokimori.model.ids import Incarnation, JobId, Lane, NodeId, RunId
from tokimori.model.transitions import RunState

LATEST = 10 * SECOND
"""Microseconds after its moment within which an end appears: transactions are cut after 4 seconds."""


class EndPlace(Struct, frozen=True, order=True):
    """Place behind the end written at this moment that is `tie` among those of the moment; "": before all.

    A position may come from a store of another kind, whose ties count as "".
    """

    written: Moment
    tie: str = ""


class EndedRun(Struct, frozen=True, kw_only=True, gc=False):
    """End of a run as reported. The fields are those of the run; `origin` says who requested it."""

    written: Moment
    id: RunId
    job_id: JobId
    incarnation: Incarnation
    state: RunState
    origin: str
    nominal: Moment
    attempt: int
    node_id: NodeId | None = None
    started: Moment | None = None
    ended: Moment | None = None
    exit_code: int | None = None
    signal: int | None = None
    error: str | None = None
    parent_id: RunId | None = None
    lane: Lane | None = None
    cpu: int | None = None
    memory: int | None = None


class Ends(Struct, frozen=True, kw_only=True):
    """Some ends in order, and the next place; `rest` is None at the end."""

    found: Sequence[EndedRun]
    rest: EndPlace | None


class Endings(Protocol):
    """Ends of runs, for events and notifications."""

    async def ended_since(self, place: EndPlace, limit: int) -> Ends:
        """Return about `limit` ends from this place on, in the order of their moments.

        An end from an open transaction may appear later, before ends that were read: within `LATEST`. Pruned and copied
        runs are left out.
        """
        ...

    async def ended_among(self, run_ids: Sequence[RunId]) -> list[RunId]:
        """Return the ended ones of these runs, at most 500."""
        ...

    def expect(self, run_ids: Sequence[RunId], on_ends: Callable[[Sequence[RunId]], None]) -> bool:
        """Have `on_ends` called, on the loop, when some of these runs end; return False if the store has no notices.

        It is a hint that holds for half a minute: an end may be missing, or be reported twice.
        """
        ...
