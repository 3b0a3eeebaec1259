"""Runs in scope: each is judged by its own job id and queue."""

from contextlib import suppress

from tokimori.errors import NotFound
from tokimori.model.access_token import Scope
from tokimori.model.ids import JobId
from tokimori.model.job import Job
from tokimori.model.lanes import queue_of
from tokimori.model.retention import first_id_at
from tokimori.model.run import Run
from tokimori.model.transitions import ENDS
from tokimori.ports.ends import EndedRun
from tokimori.service.finding import JobOf, SeesRun


def sight_of_runs(scope: Scope, job_of: JobOf) -> SeesRun:
    """Return the judge of runs by their own job ids and queues. It asks for a job only of a run without a lane."""
    known: dict[JobId, Job | None] = {}

    async def known_job(job_id: JobId) -> Job | None:
        if job_id not in known:
            known[job_id] = None
            with suppress(NotFound):
                known[job_id] = await job_of(job_id)
        return known[job_id]

    async def sees(run: Run | EndedRun) -> bool:
        if run.lane is not None or not scope.queues or not scope.has_id(run.job_id):
            return scope.has(run.job_id, None if run.lane is None else queue_of(run.lane))
        job = await known_job(run.job_id)  # it is stopped, so that its runs have no lane
        return job is not None and scope.has(run.job_id, _queue_without_lane(run, job))

    return sees


def jobs_within(scope: Scope, job_of: JobOf) -> JobOf:
    """Return what finds jobs within the scope: what another one says now decides nothing about runs of its id."""

    async def seen(job_id: str) -> Job:
        job = await job_of(job_id)
        if not scope.has(job.id, job.definition.queue):
            raise NotFound(f"there is no job {job_id!r}", field="id", value=job_id)
        return job

    return seen


def _queue_without_lane(run: Run | EndedRun, job: Job) -> str | None:
    """Return the queue of a run of a stopped job: that of the job, unless the run had ended in another one before."""
    moved = job.definition.moved
    is_of_it = run.incarnation == job.incarnation and (
        moved is None or run.state not in ENDS or run.id >= first_id_at(moved)
    )
    return job.definition.queue if is_of_it else None
