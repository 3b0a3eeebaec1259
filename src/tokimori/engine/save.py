"""Save: write the output of running attempts to the store."""

import logging
from collections.abc import Sequence
from math import inf

from tokimori.clock import Moment
from tokimori.engine.refusals import log_refusal, refuses_for_good
from tokimori.engine.work import Work
from tokimori.model.ids import NodeId
from tokimori.model.run import Output
from tokimori.ports.work_source import WorkSource

log = logging.getLogger(__name__)


class Saver:
    """Duty to save the outputs and notes of running attempts, whenever there are new ones.

    Output lost by a failure comes with the next report; notes are saved again.
    """

    def __init__(self, source: WorkSource, work: Work) -> None:
        self._source = source
        self._work = work

    @property
    def next_at(self) -> float:
        """See `Duty`."""
        return -inf if self._work.has_outputs else inf

    async def step(self, by: NodeId, now: Moment, at: float) -> bool:
        """See `Duty`."""
        if outputs := self._work.take_outputs():
            try:
                await self._save(outputs)
            except Exception:
                self._work.not_saved()
                raise
        return False

    async def _save(self, outputs: Sequence[Output]) -> None:
        """Save the outputs, by halves if the store refuses. A refused output is saved with the end of its attempt."""
        try:
            await self._source.save_outputs(outputs)
        except Exception as fault:
            if not refuses_for_good(fault):
                raise
            if len(outputs) == 1:
                log_refusal(log, f"the store refused what run {outputs[0].run_id} has written so far: {fault}", fault)
                return
            half = len(outputs) // 2
            for some in (outputs[:half], outputs[half:]):
                await self._save(some)
