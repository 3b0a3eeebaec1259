"""Ends of runs in the order in which they were written: the source of events.

A settle may come long after the attempt has ended, as the store was away: `ended` is no order that a reader could
follow. So each end has the moment of the store's own clock at which it was written.
"""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from tokimori.clock import SECOND, Moment
from tokimori.model.ids import Incarnation, JobId, Lane, NodeId, RunId
from tokimori.model.transitions import RunState

LATEST = 10 * SECOND
"""No end is seen later after the moment that it bears: transactions are cut after 4 seconds (microseconds)."""


class EndPlace(Struct, frozen=True, order=True):
    """Behind the end that was written at this moment and is `tie` among those of the moment; "": before all of them.

    A store of another kind knows other ties, and a position may come from one: those count as "".
    """

    written: Moment
    tie: str = ""


class EndedRun(Struct, frozen=True, kw_only=True, gc=False):
    """End of a run as reported. The fields are those of the run; `origin` says who asked for it."""

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


class Ends(Struct, frozen=True, kw_only=True):
    """Some ends in order, and where to go on; `rest` is None where there were no more."""

    found: Sequence[EndedRun]
    rest: EndPlace | None


class Endings(Protocol):
    """Ends of runs, for who tells of them."""

    async def ended_since(self, place: EndPlace, limit: int) -> Ends:
        """About `limit` ends from behind this place on, in the order of their moments.

        One that was written in a transaction which has not ended may appear before ends that were read: up to `LATEST`
        behind them. Pruned runs, and those that a copy brought, are left out.
        """
        ...
