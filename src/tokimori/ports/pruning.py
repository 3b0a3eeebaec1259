"""What retention asks of the shared database. Every method is one transaction, as in `tokimori.ports.store`."""

from collections.abc import Sequence
from typing import Protocol

from tokimori.clock import Moment
from tokimori.model.ids import Incarnation, JobId
from tokimori.model.retention import DailyCount, Expiry


class Pruning(Protocol):
    """Old rows become counts; counts balance for ever."""

    async def prune(self, expiries: Sequence[Expiry], limit: int) -> int:
        """Turn at most `limit` runs and skips that may go into counts of their day; how many. Fewer: no more may go.

        With a run go its attempts and outputs. Live runs are not touched. A deleted job of which nothing is left is
        forgotten. Asked again after a lost reply it counts nothing twice: what is gone is not found.
        """
        ...

    async def deleted_jobs(self, after: Incarnation | None, limit: int) -> list[tuple[Incarnation, JobId]]:
        """Jobs that are gone and may have left rows behind, by incarnation, those greater than `after`."""
        ...

    async def prune_nodes(self, before: Moment, limit: int) -> int:
        """Forget at most `limit` nodes that went before, and own nothing; how many."""
        ...

    async def counts(self, job_id: JobId) -> list[DailyCount]:
        """What ended or was skipped, kept rows and pruned ones together, by day and outcome, the oldest first.

        All that ever had this id; none where nothing had.
        """
        ...
