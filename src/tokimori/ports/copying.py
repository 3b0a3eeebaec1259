"""What a copy from store to store asks of both, besides what `tokimori.ports.store` has: rows exactly as they are."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol, assert_never

from msgspec import Struct

from tokimori.clock import Moment
from tokimori.model.calendar import Calendar
from tokimori.model.ids import Incarnation, JobId
from tokimori.model.job import Job
from tokimori.model.pause import Pause
from tokimori.model.run import Attempt, Output, Run, Skip


class Kind(StrEnum):
    """The kinds of rows, in the order in which they are copied: some stores find a row by its job or run alone."""

    JOBS = "jobs"
    """With their edges. Read by `Jobs.list_jobs`, written by `Jobs.add_jobs`."""
    CALENDARS = "calendars"
    """Read and written by `Calendars`."""
    SEMAPHORES = "semaphores"
    """Without permits: no node works, so that nobody holds any."""
    PAUSES = "pauses"
    """Read and written by `Pausing`."""
    SKIPS = "skips"
    """Of jobs that exist."""
    DELETED_JOBS = "deleted_jobs"
    """Those that may have left rows behind: by them counts and retention find these."""
    DELETED_SKIPS = "deleted_skips"
    """Of deleted jobs."""
    HISTORY = "history"
    """Finished runs."""
    RUNS = "runs"
    """Runs that have not ended."""
    ATTEMPTS = "attempts"
    OUTPUTS = "outputs"
    ARRIVALS = "arrivals"
    COUNTS = "counts"
    """What pruned rows became."""


class JobSkip(Struct, frozen=True, kw_only=True):
    """A row of the ledger, and whose it is."""

    job_id: JobId
    incarnation: Incarnation
    skip: Skip


class BareSemaphore(Struct, frozen=True, kw_only=True):
    """A semaphore that nobody holds, and how often it was granted: tokens go on from there."""

    name: str
    limit: int
    granted: int


class DeletedJob(Struct, frozen=True, kw_only=True):
    """A job that is gone, and the id that it had."""

    incarnation: Incarnation
    job_id: JobId


class DeletedSkip(Struct, frozen=True, kw_only=True):
    """A row of the ledger of a job that is gone."""

    incarnation: Incarnation
    skip: Skip


class Arrival(Struct, frozen=True, kw_only=True):
    """For a child that waits for all of its parents, and a root: the parents that have ended as asked, by id."""

    incarnation: Incarnation
    root: str
    parents: tuple[str, ...]


class PrunedCount(Struct, frozen=True, kw_only=True):
    """How many pruned rows of one life of a job ended so on one day; `day` as in `DailyCount`."""

    job_id: JobId
    incarnation: Incarnation
    day: Moment
    outcome: str
    count: int


Copied = BareSemaphore | JobSkip | DeletedJob | DeletedSkip | Run | Attempt | Output | Arrival | PrunedCount
Key = tuple[str | int, ...]


def key_of(row: Job | Calendar | Pause | Copied) -> Key:
    """What no two rows of a kind have in common. Texts are in the order of their bytes, in every store."""
    match row:
        case Job() | Run():
            return (row.id,)
        case Calendar() | BareSemaphore():
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
    """Rows from a store where no node works, to one where none works yet. Not for jobs, calendars and pauses."""

    async def export_rows(self, kind: Kind, after: Key | None, limit: int) -> list[Copied]:
        """At most so many rows by key, those greater than `after`; none: there are no more."""
        ...

    async def import_rows(self, kind: Kind, rows: Sequence[Copied]) -> None:
        """Keep all rows as they are, or none; one whose key exists stays as it is there."""
        ...
