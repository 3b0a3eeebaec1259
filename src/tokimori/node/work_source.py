"""Where a node finds work, and whom it tells what became of it."""

from collections.abc import Sequence
from typing import Protocol

from tokimori.clock import Moment
from tokimori.model.ids import NodeId
from tokimori.ports.nodes import Survey
from tokimori.ports.working import Change, Claim, Claimed, Verdict


class WorkSource(Protocol):
    """The store; or, where semaphores are in another one, what asks there first (`tokimori.node.apart`)."""

    async def survey(self, now: Moment, *, past: Moment | None = None) -> Survey:
        """See `Nodes.survey`."""
        ...

    async def claim(self, claim: Claim, now: Moment) -> list[Claimed]:
        """See `Working.claim`."""
        ...

    async def settle(self, changes: Sequence[Change], by: NodeId, now: Moment) -> list[Verdict]:
        """See `Working.settle`."""
        ...
