"""Definitions and plans of jobs, in memory."""

import heapq
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import islice

from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.model.decide import REPLACED, Due, Plan
from tokimori.model.encoding import encode_definition
from tokimori.model.ids import JobId, RunId
from tokimori.model.job import Job, JobState
from tokimori.model.lanes import head_start
from tokimori.model.run import Skip
from tokimori.model.transitions import ACTIVE, RunMove, RunState, move
from tokimori.ports.planning import ALL, MOST_MAKING_WAY, Share
from tokimori.ports.store import Family
from tokimori.stores.memory.lines import cancel, go_on, names_of, rejoin, serve
from tokimori.stores.memory.tables import Tables
from tokimori.stores.rows import tombstone_of
from tokimori.stores.rules.edits import edges_by_job, not_there_yet, was_replaced
from tokimori.stores.rules.errors import is_parent, job_changed, no_job
from tokimori.stores.rules.lines import Freed, lane_for, lane_of_forced, priority_before
from tokimori.stores.rules.new_runs import Cursor, is_readable, may_apply, planned_runs, was_applied
from tokimori.stores.rules.settling import JOB_DELETED


def add_jobs(tables: Tables, jobs: Sequence[Job], family: int | None = None) -> None:
    added = not_there_yet(jobs, {job.id: tables.jobs[job.id].incarnation for job in jobs if job.id in tables.jobs})
    tables.change_edges({}, edges_by_job(*added), family)
    tables.jobs.update((job.id, job) for job in added)
    tables.job_ids.update((job.incarnation, job.id) for job in added)


def family(tables: Tables) -> Family:
    edges = sorted(edge for known in tables.edges.values() for edge in known)
    return Family(version=tables.family_version, edges=tuple(edges))


def get_job(tables: Tables, job_id: JobId) -> Job:
    return tables.job(job_id)


def get_jobs(tables: Tables, job_ids: Sequence[JobId]) -> list[Job]:
    return [job for job_id in job_ids if (job := tables.jobs.get(job_id)) is not None]


def list_jobs(
    tables: Tables,
    *,
    after: JobId | None = None,
    limit: int = 1000,
    idle: bool = False,
    like: Sequence[str] = (),
    states: Collection[JobState] = (),
) -> list[Job]:
    ids = sorted(job_id for job_id in tables.jobs if after is None or job_id > after)
    jobs = (tables.jobs[job_id] for job_id in ids)
    wanted = (job for job in jobs if not idle or (job.state is JobState.ENABLED and job.next_due is None))
    if states:
        wanted = (job for job in wanted if job.state in states)
    if like:
        texts = ((job, encode_definition(job.definition).decode()) for job in wanted)
        wanted = (job for job, text in texts if all(each in text for each in like))
    return list(islice(wanted, limit))


def list_queues(tables: Tables, first: str, limit: int) -> list[tuple[str, int]]:
    queues = Counter(job.definition.queue for job in tables.jobs.values() if job.definition.queue >= first)
    return sorted(queues.items())[:limit]


def replace_job(tables: Tables, old: Job, new: Job, skips: Sequence[Skip] = (), family: int | None = None) -> None:
    stored = tables.job(old.id)
    if was_replaced(stored, old, new):
        return
    tables.change_edges(edges_by_job(stored), edges_by_job(new), family)
    tables.jobs[old.id] = new
    if new.fired_through < stored.fired_through:
        _rewind(tables, new)
    tables.keep_skips(new.incarnation, skips)
    lane, forced_lane, was = lane_for(new), lane_of_forced(old, new), priority_before(old, new)
    runs = tables.by_job.get(new.incarnation, set())
    for run_id in runs:
        row = tables.live[run_id]
        run = replace(row.run, lane=lane if row.run.lane is None or forced_lane is None else forced_lane)
        if run.priority == was and run.state is not RunState.RUNNING:
            rank = run.rank + head_start(was) - head_start(new.definition.priority)
            run = replace(run, priority=new.definition.priority, rank=rank)
        tables.put(row, run)
    rejoin(tables, new)
    freed = Freed(semaphores=set(names_of(stored)))
    freed.places[new.incarnation] = len(runs)
    serve(tables, freed)


def _rewind(tables: Tables, job: Job) -> None:
    known = tables.skips.get(job.incarnation, {})
    tables.skips[job.incarnation] = {first: skip for first, skip in known.items() if first <= job.fired_through}
    for row in tables.runs_of(job.incarnation, RunState.READY):
        of_now = row.run.due <= row.run.created and not row.run.origin.startswith("s:")
        if row.run.due > job.updated and not row.run.origin.startswith("c:") and not of_now:
            tables.put(row, replace(row.run, state=move(row.run.state, RunMove.PUT_OFF)))


def delete_job(tables: Tables, job_id: JobId, now: Moment, known: Job | None = None) -> None:
    job = tables.job(job_id)
    if known is not None and job.stamp != known.stamp:
        raise job_changed(job_id)
    if any(edge.declared_by == edge.child for edge in tables.edges.get(job_id, ())):
        raise is_parent(job_id)
    tables.change_edges({job_id: (), **edges_by_job(job)}, {})
    del tables.jobs[job_id]
    del tables.job_ids[job.incarnation]
    tables.deleted[job.incarnation] = job_id
    rows = [tables.live[run_id] for run_id in tables.by_job.get(job.incarnation, ())]
    if any(row.run.state is RunState.RUNNING for row in rows):
        kept = encode_definition(job.definition).decode()
        tables.tombstones[job.incarnation] = tombstone_of(
            job_id, (job.incarnation, job.version, kept, job.created, now)
        )
    cancel(tables, [row for row in rows if row.run.state is not RunState.RUNNING], JOB_DELETED, now, job)
    serve(tables, Freed(semaphores=set(names_of(job))))


def deleted_job(tables: Tables, job_id: JobId) -> Job:
    kept = [job for job in tables.tombstones.values() if job.id == job_id and tables.by_job.get(job.incarnation)]
    if not kept:
        raise no_job(job_id)
    return max(kept, key=lambda job: (job.updated, job.incarnation))


def get_due(tables: Tables, job_id: JobId) -> Due:
    return due_of(tables, tables.job(job_id))


def due_of(tables: Tables, job: Job) -> Due:
    """Return the job, with the facts of its runs that `decide` needs."""
    skips = tables.skips.get(job.incarnation, {})
    newest = skips[max(skips)] if skips else None
    return Due(
        job=job,
        active=tables.active(job.incarnation),
        tail=newest if newest is not None and newest.last == job.fired_through else None,
    )


def skips(tables: Tables, job_id: JobId, *, limit: int = 100) -> list[Skip]:
    skips = tables.skips.get(tables.job(job_id).incarnation, {})
    return [skips[first] for first in sorted(skips, reverse=True)[:limit]]


def due(tables: Tables, now: Moment, limit: int, share: Share = ALL) -> list[Due]:
    waiting = (
        (job.next_due, job.incarnation, job)
        for job in tables.jobs.values()
        if job.state is JobState.ENABLED and job.next_due is not None and job.next_due <= now and is_readable(job)
        if share.has(job.incarnation)
    )
    return [due_of(tables, job) for _, _, job in heapq.nsmallest(limit, waiting)]


def apply(tables: Tables, plans: Sequence[tuple[Plan, Sequence[RunId]]], now: Moment) -> list[bool]:
    return [_apply(tables, plan, ids, now) for plan, ids in plans]


def _apply(tables: Tables, plan: Plan, ids: Sequence[RunId], now: Moment) -> bool:
    job = tables.job_of(plan.incarnation)
    cursor = None if job is None else Cursor(job.incarnation, job.version, job.fired_through, job.state)
    fits = job is not None and tables.has_room(job, len(plan.runs))
    if job is None or cursor is None or not may_apply(plan, cursor) or not fits:
        exists = any(run_id in tables.live or run_id in tables.history for run_id in ids[:1])
        return was_applied(plan, cursor, first_run_exists=exists)
    if plan.replaces:
        rows = [row for row in tables.runs_of(plan.incarnation, *ACTIVE) if row.run.origin.startswith("s:")]
        cancel(tables, rows[:MOST_MAKING_WAY], REPLACED, now)
    for run in planned_runs(plan, ids, now):
        tables.add(run)
    tables.keep_skips(plan.incarnation, plan.skips)
    tables.jobs[job.id] = _moved(job, plan)
    return True


def _moved(job: Job, plan: Plan) -> Job:
    fired_through = Moment(max(job.fired_through, plan.fired_through))
    return replace(
        job,
        fired_through=fired_through,
        next_due=plan.next_due,
        state=plan.state,
        anchor=plan.anchor,
        runs_remaining=plan.runs_remaining,
        tzdata=plan.tzdata,
    )


def outdated(tables: Tables, tzdata: str, limit: int) -> list[Job]:
    jobs = (
        (job.tzdata, job.incarnation, job)
        for job in tables.jobs.values()
        if job.state is JobState.ENABLED and job.next_due is not None and job.tzdata < tzdata and is_readable(job)
    )
    return [job for _, _, job in heapq.nsmallest(limit, jobs)]


def promote(tables: Tables, now: Moment, limit: int, skip: int = 0) -> int:
    waiting = (
        (row.run.due, row.run.id, row)
        for row in tables.live.values()
        if row.run.state is RunState.WAITING and row.run.due <= now
    )
    ready = heapq.nsmallest(skip + limit, waiting)[skip:]
    for _, _, row in ready:
        tables.put(row, replace(row.run, state=move(row.run.state, RunMove.PROMOTE)))
    return len(ready) + go_on(tables, now)
