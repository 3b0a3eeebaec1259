"""Deleting all jobs, some at a time: each deletion is a transaction of its own, and nothing is lost by stopping."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.errors import InvalidInput, NotFound, Refused
from tokimori.model.dependents import Edge
from tokimori.model.ids import JobId, check_job_id
from tokimori.model.job import Job
from tokimori.service.jobs.writer import JobWriter
from tokimori.service.validation import When, checked, flag_of, moment_of

CONFIRMED: Final = "all"
"""Word that confirms the deletion of all jobs, so that nobody does it by leaving out an id."""
MOST_DELETED: Final = 100
"""Number of jobs deleted by one request: a node has runs to start, too."""


class DeletedJobs(Struct, frozen=True, kw_only=True):
    """The `jobs` that were deleted, as they were (on a `dry_run`: that would be), in that order.

    `kept` says by id why a job was not deleted. Ask again with the same `until` and with `next` as `after` to go on
    (an empty text: from the first one again); None: that was all.
    """

    jobs: tuple[Job, ...]
    kept: dict[str, str]
    until: Moment
    next: str | None


async def delete_some(
    writer: JobWriter,
    confirm: str | None = None,
    *,
    after: str | None = None,
    until: When | None = None,
    limit: int = MOST_DELETED,
    now: bool = False,
    foreign: bool = False,
    dry_run: bool = False,
) -> DeletedJobs:
    """Delete the first jobs by id: see `Jobs.delete_some`."""
    first = None if after in (None, "") else check_job_id(after, field="after")
    most = checked("limit", limit, MOST_DELETED)
    begun = await writer.now() if until is None else moment_of("until", until, writer.time_zone)
    deletion = _Deletion(until=begun, now=flag_of("now", now), foreign=flag_of("foreign", foreign))
    dry = flag_of("dry_run", dry_run)
    if not dry and confirm != CONFIRMED:
        message = f"confirm: {confirm!r} does not say that all jobs are to be deleted"
        raise InvalidInput(message, field="confirm", value=confirm, allowed=f"the text {CONFIRMED}")
    page = await writer.store.list_jobs(after=first, limit=most)
    wanted = [job for job in page if deletion.means(job)]
    done = DeletedJobs(jobs=tuple(wanted), kept={}, until=begun, next=page[-1].id if len(page) == most else None)
    return done if dry else await _delete_these(writer, done, deletion, first, most)


async def _delete_these(
    writer: JobWriter, asked: DeletedJobs, deletion: "_Deletion", first: JobId | None, most: int
) -> DeletedJobs:
    """Delete these jobs and their descendants, up to a bound. The rest is left to the next call."""
    below = _below((await writer.store.family()).edges)
    jobs: list[Job] = []
    kept: dict[str, str] = {}
    reached = first or ""
    for job in asked.jobs:
        for job_id in _leaves_first(job.id, below):
            if len(jobs) == most:
                return replace(asked, jobs=tuple(jobs), kept=kept, next=reached)
            try:
                jobs += await _delete_one(writer, job_id, deletion)
            except Refused as fault:
                kept[job_id] = fault.message
        reached = job.id
    return replace(asked, jobs=tuple(jobs), kept=kept)


async def _delete_one(writer: JobWriter, job_id: JobId, deletion: "_Deletion") -> Sequence[Job]:
    """Delete a job, if it is meant, and is not gone yet; the job as it was. Raises `Refused`."""
    try:
        job = await writer.store.get_job(job_id)
        if not deletion.means(job):
            return ()
        if deletion.foreign:
            await writer.delete(job_id, cascade=True, now=deletion.now)
        else:
            await writer.delete_alone(job_id, now=deletion.now)
    except NotFound:
        return ()
    return (job,)


class _Deletion(NamedTuple):
    """Jobs to delete, and if their runs are cancelled, too."""

    until: Moment
    now: bool
    foreign: bool

    def means(self, job: Job) -> bool:
        """Return whether this job is one of them."""
        return job.created <= self.until and not (self.foreign and job.definition.foreign is None)


def _below(edges: Sequence[Edge]) -> Mapping[JobId, Sequence[JobId]]:
    """Return the children that declare their edge themselves, by their parent."""
    found: dict[JobId, list[JobId]] = defaultdict(list)
    for edge in edges:
        if edge.declared_by == edge.child:
            found[edge.parent].append(edge.child)
    return found


def _leaves_first(job_id: JobId, below: Mapping[JobId, Sequence[JobId]]) -> Iterator[JobId]:
    """Yield the job and its descendants, each once and after its own descendants."""
    seen, line = {job_id}, [(job_id, iter(below.get(job_id, ())))]
    while line:
        found, children = line[-1]
        child = next(children, None)
        if child is None:
            line.pop()
            yield found
        elif child not in seen:
            seen.add(child)
            line.append((child, iter(below.get(child, ()))))
