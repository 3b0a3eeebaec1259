"""Definitions: calls of scripts on jobs and skips."""

from asyncio import gather
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from itertools import chain, count

from tokimori.clock import Moment
from tokimori.errors import FamilyChanged
from tokimori.model.decide import Due
from tokimori.model.dependents import Edge, On
from tokimori.model.ids import Incarnation, JobId
from tokimori.model.job import Job, JobState
from tokimori.model.run import Skip
from tokimori.ports.store import Family
from tokimori.stores.redis.connections import RedisConnections
from tokimori.stores.redis.hashes import due_of, job_hash, job_of, skip_pairs, skips_of
from tokimori.stores.rows import tombstone_of
from tokimori.stores.rules.edits import Edges, edges_by_job, replace
from tokimori.stores.rules.errors import FAMILY_CHANGED, NOT_DELETED, existing, no_job, taken
from tokimori.stores.rules.lines import MOST_STEPS, lane_for, lane_of_forced, priority_before
from tokimori.stores.rules.settling import JOB_DELETED


async def add_jobs(db: RedisConnections, jobs: Sequence[Job], family: int | None = None) -> None:
    edges, terms = _edges(edges_by_job(*jobs)), list(map(_terms, jobs))
    answer, value = await db.run("add_jobs", edges=edges, family=family, jobs=terms)
    if answer == "other family":
        raise FamilyChanged(FAMILY_CHANGED, field="parents")
    if answer == "taken":
        raise taken(value)


def _terms(job: Job) -> dict[str, object]:
    """Return a job as the scripts store it, and what they index it by."""
    index = {"state": job.state, "next_due": job.next_due, "tzdata": job.tzdata, "queue": job.definition.queue}
    return {"id": job.id, "inc": str(job.incarnation), "row": job_hash(job), **index}


def _edges(edges: Edges) -> list[tuple[str, ...]]:
    """Return the edges as the scripts store them."""
    return [tuple(map(str, edge)) for edge in chain(*edges.values())]


async def family(db: RedisConnections) -> Family:
    version, texts = await db.run("family")
    return Family(version=version, edges=tuple(sorted(map(_edge_of, texts))))


def _edge_of(text: str) -> Edge:
    parent, child, on, joins, declared_by = text.split(" ")
    return Edge(JobId(parent), JobId(child), On(on), int(joins), JobId(declared_by))


async def get_job(db: RedisConnections, job_id: JobId) -> Job:
    return job_of(existing(await db.run("get_job", id=job_id), no_job(job_id)))


async def get_jobs(db: RedisConnections, job_ids: Sequence[JobId]) -> list[Job]:
    found = await gather(*(db.run("get_job", id=job_id) for job_id in job_ids))
    return [job_of(flat) for flat in found if flat]


async def list_jobs(
    db: RedisConnections,
    *,
    after: JobId | None = None,
    limit: int = 1000,
    idle: bool = False,
    like: Sequence[str] = (),
    states: Collection[JobState] = (),
) -> list[Job]:
    """See `Jobs.list_jobs`. The hints save nothing here."""
    found = await db.run("list_jobs", index="idle" if idle else "jobs", after=after, limit=limit)
    return [job_of(flat) for flat in found]


async def list_queues(db: RedisConnections, first: str, limit: int) -> list[tuple[str, int]]:
    return [(queue, jobs) for queue, jobs in await db.run("list_queues", first=first, limit=limit)]


async def replace_job(
    db: RedisConnections, old: Job, new: Job, skips: Sequence[Skip] = (), family: int | None = None
) -> None:
    async def write(edges: Edges | None) -> str:
        answer = await db.run(
            "replace_job",
            old_version=old.version,
            old_state=old.state,
            old_fired_through=old.fired_through,
            lane=lane_for(new),
            forced_lane=lane_of_forced(old, new),
            priority_was=priority_before(old, new),
            **_terms(new),
            put_off=new.updated if new.fired_through < old.fired_through else None,
            fired_through=new.fired_through,
            skips=skip_pairs(skips),
            edges=None if edges is None else _edges(edges),
            family=family if edges else None,
        )
        return str(answer)

    move = partial(move_runs, db, old.incarnation)
    await replace(old, new, family, read=lambda job_id: get_job(db, job_id), write=write, move=move)


async def delete_job(db: RedisConnections, job_id: JobId, now: Moment, known: Job | None = None) -> None:
    stamp = None if known is None else known.stamp
    answer, *incarnation = await db.run("delete_job", id=job_id, reason=JOB_DELETED, now=now, known=stamp)
    if answer in NOT_DELETED:
        raise NOT_DELETED[answer](job_id)
    if answer == "begun":
        await move_runs(db, incarnation[0], range(MOST_STEPS))


async def move_runs(db: RedisConnections, incarnation: int | str, steps: Iterable[int]) -> None:
    """Move the runs of a job after its change, some at a time: others get their turn between, ticks do the rest."""
    for _ in steps:
        if await db.run("move_runs", inc=str(incarnation)):
            return


async def finish_moves(db: RedisConnections) -> None:
    for incarnation in await db.do("HKEYS", f"{db.address.prefix}moves"):
        await move_runs(db, incarnation, count())


async def deleted_job(db: RedisConnections, job_id: JobId) -> Job:
    found = existing(await db.run("deleted_job", id=job_id), no_job(job_id))
    incarnation, version, definition, created, deleted = found
    return tombstone_of(job_id, (Incarnation(int(incarnation)), int(version), definition, int(created), int(deleted)))


async def get_due(db: RedisConnections, job_id: JobId) -> Due:
    return due_of(existing(await db.run("get_due", id=job_id), no_job(job_id)))


async def skips(db: RedisConnections, job_id: JobId, *, limit: int = 100) -> list[Skip]:
    return skips_of(existing(await db.run("skips", id=job_id, limit=limit), no_job(job_id)))
