"""Due jobs, plans and promotions, in memory."""

import heapq
from collections.abc import Sequence

from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.model.decide import REPLACED, Due, Plan
from tokimori.model.ids import RunId
from tokimori.model.job import Job, JobState
from tokimori.model.transitions import ACTIVE, RunMove, RunState, move
from tokimori.ports.planning import ALL, MOST_MAKING_WAY, Share
from tokimori.stores.memory.jobs import due_of
from tokimori.stores.memory.lines import cancel, go_on
from tokimori.stores.memory.tables import Tables
from tokimori.stores.rules.births import planned_runs
from tokimori.stores.rules.plans import Cursor, is_readable, may_apply, was_applied


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
