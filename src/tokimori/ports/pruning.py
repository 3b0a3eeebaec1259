"""Interface of retention to the store. Every method is one transaction, as in `tokimori.ports.store`."""

from collections.abc import Sequence
from typing import Protocol

from tokimori.clock import Moment
from tokimori.model.ids import Incarnation, JobId
from tokimori.model.retention import DailyCount, Expiry


class Pruning(Protocol):
    """Old rows become counts, so that totals stay right for ever."""

    async def prune(self, expiries: Sequence[Expiry], limit: int) -> Sequence[Expiry]:
        """Look at `limit` runs and skips at most, and turn those that have expired into counts of their day.

        Returns the expiries that remain for the next call; empty: none. A run goes with its attempts and outputs; live
        runs are not touched. A deleted job without rows is forgotten. A repeated call after a lost reply counts nothing
        twice, as deleted rows are not found again.
        """
        ...

    async def deleted_jobs(self, after: Incarnation | None, limit: int) -> list[tuple[Incarnation, JobId]]:
        """Return deleted jobs that may have left rows behind, in order of incarnation, those greater than `after`."""
        ...

    async def prune_nodes(self, before: Moment, limit: int) -> int:
        """Forget at most `limit` nodes that left or died before that moment and own nothing; returns how many."""
        ...

    async def counts(self, job_id: JobId) -> list[DailyCount]:
        """Return the number of ended runs and skipped occurrences, by day and outcome, the oldest first.

        Kept and pruned rows are counted together, of all jobs that ever had this id; empty if none had. Of the kept
        rows the newest `MOST_COUNTED` are counted.
        """
        ...
