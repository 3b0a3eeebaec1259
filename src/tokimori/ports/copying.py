"""Interface of copying to both stores, besides `tokimori.ports.store`: rows exactly as they are."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Protocol, Self, assert_never

from msgspec import Struct

from tokimori.clock import Moment
from tokimori.model.document import Document
from tokimori.model.ids import Incarnation, JobId
from tokimori.model.job import Job
from tokimori.model.lanes import Pause
from tokimori.model.run import Attempt, Output, Run, Skip


class Kind(StrEnum):
    """The kinds of rows, in the order in which they are copied: some stores find a row only through its job or run."""

    JOBS = "jobs"
    """With their edges. Read by `Jobs.list_jobs`, written by `Jobs.add_jobs`."""
    DOCUMENTS = "documents"
    """Documents of every kind."""
    SEMAPHORES = "semaphores"
    """Semaphores without permits: as no node works, none are held."""
    PAUSES = "pauses"
    """Read and written by `Pausing`."""
    SKIPS = "skips"
    """Skips of jobs that exist."""
    DELETED_JOBS = "deleted_jobs"
    """Deleted jobs that may have left rows behind: counts and retention find these rows through them."""
    DELETED_SKIPS = "deleted_skips"
    """Skips of deleted jobs."""
    HISTORY = "history"
    """Finished runs."""
    RUNS = "runs"
    """Runs that have not ended."""
    ATTEMPTS = "attempts"
    OUTPUTS = "outputs"
    ARRIVALS = "arrivals"
    COUNTS = "counts"
    """The counts that pruned rows became."""


class JobSkip(Struct, frozen=True, kw_only=True):
    """A skip, and the job that it belongs to."""

    job_id: JobId
    incarnation: Incarnation
    skip: Skip


class BareSemaphore(Struct, frozen=True, kw_only=True):
    """A semaphore without holders. `granted` is how often it was granted: later tokens are greater.

    `rate` is its rate as stores keep it; units that were taken are not copied.
    """

    name: str
    limit: int
    granted: int
    rate: str | None = None


class DeletedJob(Struct, frozen=True, kw_only=True):
    """A deleted job, and the id that it had."""

    incarnation: Incarnation
    job_id: JobId


class DeletedSkip(Struct, frozen=True, kw_only=True):
    """A skip of a deleted job."""

    incarnation: Incarnation
    skip: Skip


class Arrival(Struct, frozen=True, kw_only=True):
    """The parents (by id) that have ended as asked, for a child that waits for all of its parents, and a root.

    `latest` is when the latest of them ended. Once all have, `parents` is `ALL_ARRIVED`.
    """

    incarnation: Incarnation
    root: str
    parents: tuple[str, ...]
    latest: Moment


ALL_ARRIVED = ("*",)
"""Mark, which is no id of a job, by which later ends complete nothing again."""


class PrunedCount(Struct, frozen=True, kw_only=True):
    """Number of pruned rows of one incarnation with this outcome on one day; `day` as in `DailyCount`."""

    job_id: JobId
    incarnation: Incarnation
    day: Moment
    outcome: str
    count: int


Copied = Document | BareSemaphore | JobSkip | DeletedJob | DeletedSkip | Run | Attempt | Output | Arrival | PrunedCount
Key = tuple[str | int, ...]


def key_of(row: Job | Pause | Copied) -> Key:
    """Return the key of a row, unique within its kind. In every store texts are in the order of their bytes."""
    match row:
        case Job() | Run():
            return (row.id,)
        case Document():
            return row.kind, row.name
        case BareSemaphore():
            return (row.name,)
        case Pause():
            return (row.queue,)
        case JobSkip():
            return row.job_id, row.skip.first
        case DeletedJob():
            return (row.incarnation,)
        case DeletedSkip():
            return row.incarnation, row.skip.first
        case Attempt():
            return row.run_id, row.number
        case Output():
            return row.run_id, row.attempt
        case Arrival():
            return row.incarnation, row.root
        case PrunedCount():
            return row.job_id, row.incarnation, row.day, row.outcome
        case _:
            assert_never(row)


class Copying(Protocol):
    """Copy of rows from a store without working nodes to another one; jobs and pauses go other ways."""

    def snapshot(self) -> AbstractAsyncContextManager[Self | None]:
        """Return this store as it is at one moment, only to be read, while nodes work; None if it has no snapshots."""
        ...

    async def finish_moves(self) -> None:
        """Move all runs after changes of their jobs, as beats would do: a copy does not hold pending moves."""
        ...

    async def export_rows(self, kind: Kind, after: Key | None, limit: int) -> list[Copied]:
        """Return at most `limit` rows whose key is greater than `after`, in order of keys; empty at the end."""
        ...

    async def import_rows(self, kind: Kind, rows: Sequence[Copied]) -> None:
        """Store all rows as they are, or none of them. A row whose key exists is ignored."""
        ...
