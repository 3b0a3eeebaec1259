"""Promote: make waiting runs ready whose moment has come."""

import logging

from tokimori.clock import SECOND, Moment
from tokimori.engine.refusals import blames_the_asked, tell
from tokimori.engine.refused_runs import RefusedRuns
from tokimori.model.ids import Lane
from tokimori.ports.planning import Planning

log = logging.getLogger(__name__)

_DUE = (Lane("those that are due"),)
"""They wait in one line for all lanes."""


class Promoter:
    """Makes runs ready, but for those that the store refuses: they wait."""

    def __init__(self, store: Planning) -> None:
        self._store = store
        self._refused = RefusedRuns("to make a waiting run ready (see `tokimori run list --state waiting`)")

    async def promote(self, now: Moment, limit: int) -> bool:
        """Make up to `limit` runs ready. Whether there may be more: there were any, or some of them were refused."""
        at = now / SECOND
        asked = self._refused.next(_DUE, limit, at)
        try:
            promoted = await self._store.promote(now, asked.limit, asked.skip)
        except Exception as fault:
            if not blames_the_asked(fault):
                raise
            seems_ill = self._refused.all_refused
            tell(log, self._refused.refuse(asked, fault, at), fault)
            if seems_ill:
                raise
            return True
        self._refused.took(asked)
        return promoted > 0
