"""Questions of a worker: take part, find runs, report outcomes."""

from collections.abc import Callable, Sequence
from typing import Protocol

from tokimori.clock import Moment
from tokimori.model.ids import NodeId, RunId
from tokimori.model.run import Output, Run
from tokimori.ports.nodes import Beat, NodeRecord, Pulse, Survey
from tokimori.ports.working import Change, Claim, Claimed, Verdict


class WorkSource(Protocol):
    """The store, or a source in front of it. The worker of a node calls nothing else.

    Every method except `watch` raises `StoreUnavailable` if a retry can help, and may be called again then.
    """

    async def register(self, node: NodeRecord) -> None:
        """See `Nodes.register`."""
        ...

    async def tick(self, beat: Beat, now: Moment) -> Pulse | None:
        """See `Nodes.tick`."""
        ...

    async def survey(self, now: Moment, *, past: Moment | None = None) -> Survey:
        """See `Nodes.survey`."""
        ...

    async def claim(self, claim: Claim, now: Moment) -> list[Claimed] | None:
        """See `Working.claim`. None: the store was not asked, as units are needed first."""
        ...

    async def get_run(self, run_id: RunId) -> Run:
        """See `Runs.get_run`."""
        ...

    async def settle(self, changes: Sequence[Change], by: NodeId, now: Moment) -> list[Verdict]:
        """See `Working.settle`."""
        ...

    async def save_outputs(self, outputs: Sequence[Output]) -> None:
        """See `Working.save_outputs`."""
        ...

    async def leave(self, node: NodeId, now: Moment) -> bool:
        """See `Nodes.leave`."""
        ...

    def watch(self, wake: Callable[[], None]) -> None:
        """See `Schema.watch`."""
        ...
