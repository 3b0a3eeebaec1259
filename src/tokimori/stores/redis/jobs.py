"""Definitions: what is asked of the scripts on jobs and skips."""

from collections.abc import Sequence

from msgspec import structs

from tokimori.clock import Moment
from tokimori.errors import Conflict, NotFound
from tokimori.model.decide import Due
from tokimori.model.ids import JobId
from tokimori.model.job import Job
from tokimori.model.run import Skip
from tokimori.stores.redis.connections import Connections
from tokimori.stores.redis.hashes import due_of, job_hash, job_of, skip_pairs, skips_of
from tokimori.stores.rules import JOB_DELETED, lane_for, may_replace, was_replaced


async def add_jobs(db: Connections, jobs: Sequence[Job]) -> None:
    """See `Jobs.add_jobs`."""
    taken = await db.run(
        "add_jobs",
        jobs=[
            {
                "id": job.id,
                "inc": str(job.incarnation),
                "state": job.state,
                "next_due": job.next_due,
                "tzdata": job.tzdata,
                "row": job_hash(job),
            }
            for job in jobs
        ],
    )
    if taken is not None:
        raise Conflict(f"there is a job {taken!r} already", field="id", value=taken)


def unknown(job_id: str) -> NotFound:
    """The error for an id that no job has."""
    return NotFound(f"there is no job {job_id!r}", field="id", value=job_id)


async def get_job(db: Connections, job_id: JobId) -> Job:
    """See `Jobs.get_job`."""
    found = await db.run("get_job", id=job_id)
    if found is None:
        raise unknown(job_id)
    return job_of(found)


async def list_jobs(db: Connections, after: JobId | None, limit: int, *, idle: bool) -> list[Job]:
    """See `Jobs.list_jobs`."""
    found = await db.run("list_jobs", index="idle" if idle else "jobs", after=after, limit=limit)
    return [job_of(flat) for flat in found]


async def replace_job(db: Connections, old: Job, new: Job, skips: Sequence[Skip]) -> None:
    """See `Jobs.replace_job`. What was read is compared again where it is written; a loser reads again."""
    while True:
        stored = await get_job(db, old.id)
        if was_replaced(stored, new):
            return
        if not may_replace(stored, old):
            raise Conflict(f"the job {old.id!r} was changed meanwhile: read it again", field="id", value=old.id)
        if await _replaced(db, old, new, skips):
            return


async def _replaced(db: Connections, old: Job, new: Job, skips: Sequence[Skip]) -> bool:
    new = structs.replace(new, fired_through=Moment(max(old.fired_through, new.fired_through)))
    answer = await db.run(
        "replace_job",
        id=old.id,
        inc=str(old.incarnation),
        old_version=old.version,
        old_state=old.state,
        old_fired_through=old.fired_through,
        state=new.state,
        next_due=new.next_due,
        tzdata=new.tzdata,
        lane=lane_for(new),
        row=job_hash(new),
        skips=skip_pairs(skips),
    )
    return bool(answer)


async def delete_job(db: Connections, job_id: JobId, now: Moment) -> None:
    """See `Jobs.delete_job`."""
    if not await db.run("delete_job", id=job_id, reason=JOB_DELETED, now=now):
        raise unknown(job_id)


async def get_due(db: Connections, job_id: JobId) -> Due:
    """See `Jobs.get_due`."""
    found = await db.run("get_due", id=job_id)
    if found is None:
        raise unknown(job_id)
    return due_of(found)


async def list_skips(db: Connections, job_id: JobId, limit: int) -> list[Skip]:
    """See `Jobs.skips`."""
    found = await db.run("skips", id=job_id, limit=limit)
    if found is None:
        raise unknown(job_id)
    return skips_of(found)
