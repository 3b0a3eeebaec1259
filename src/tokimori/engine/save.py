"""Save: keep in the store what running attempts have written so far."""

from math import inf

from tokimori.clock import Moment
from tokimori.engine.work import Work
from tokimori.model.ids import NodeId
from tokimori.ports.nodes import Pulse
from tokimori.ports.work_source import WorkSource


class Saver:
    """Saves what attempts in hand wrote, whenever there is anything. What a failure lost comes with the next report."""

    def __init__(self, source: WorkSource, work: Work) -> None:
        self._source = source
        self._work = work

    @property
    def next_at(self) -> float:
        """See `Duty`."""
        return -inf if self._work.has_outputs else inf

    def hear(self, pulse: Pulse) -> None:
        """See `Duty`. Nothing concerns it."""

    async def step(self, by: NodeId, now: Moment, at: float) -> bool:
        """See `Duty`."""
        if outputs := self._work.take_outputs():
            await self._source.save_outputs(outputs)
        return False
