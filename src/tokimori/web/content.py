"""The content of the page: it is read from the service, and becomes texts for the templates."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tokimori.clock import Clock, Moment
from tokimori.errors import InvalidInput, NotFound, StoreUnavailable
from tokimori.model.job import Job, JobState
from tokimori.model.lanes import Pause
from tokimori.model.transitions import STANDING_STILL
from tokimori.service.graph import tree
from tokimori.service.reasons import AT_REST, Reason
from tokimori.service.service import Service
from tokimori.service.views.alarms import sentence
from tokimori.web.job_rows import JobRow, Preview, job_row, preview
from tokimori.web.node_rows import NodeRow, PauseRow, SemaphoreRow, node_row, pause_row, semaphore_row
from tokimori.web.run_rows import RunPanel, RunRow, panel_of, run_row
from tokimori.web.view import View

JOBS_SHOWN = 50
RUNS_SHOWN = 30
LAST_RUNS_SHOWN = 8
MOMENTS_SHOWN = 10
SEMAPHORES_SHOWN = 50
ALARMS_SHOWN = 10


class PageContent(NamedTuple):
    """All that the page shows. `more_jobs` and `more_runs` are the addresses of the next page of each."""

    view: View
    pauses: Sequence[PauseRow]
    alarms: Sequence[str]
    """What should have ended well by now: a sentence for each."""
    jobs: Sequence[JobRow]
    more_jobs: str | None
    runs: Sequence[RunRow]
    more_runs: str | None
    panel: RunPanel | None
    nodes: Sequence[NodeRow]
    semaphores: Sequence[SemaphoreRow]
    of_job: Preview | None
    """The schedule of the job whose runs are listed."""
    why: Sequence[Reason]
    """What keeps that job from starting."""
    graph: Sequence[str]
    """The jobs above and below that job, as a tree; empty if there are none."""
    of_text: Preview | None
    """The schedule that somebody typed."""
    zone: str
    """The time zone for a typed schedule, unless somebody says otherwise."""


async def content(service: Service, clock: Clock, view: View) -> PageContent:
    """Return the content of the page for this view. Raises `InvalidInput`, `NotFound` and `StoreError`."""
    now = clock.now()
    jobs = await service.jobs.list(after=view.after, limit=JOBS_SHOWN)
    chosen = await _chosen(service, view.job, jobs)
    found = await service.runs.list(job_id=view.job, before=view.before, limit=RUNS_SHOWN, longest=0)
    runs = await service.runs.summaries(found.runs)
    nodes = [node for node in await service.nodes.list() if node.runs_jobs]
    pauses = await service.queues.pauses()
    return PageContent(
        view=view,
        pauses=[pause_row(pause, service.time_zone, now) for pause in pauses],
        alarms=[sentence(alarm) for alarm in await service.expectations.alarms(limit=ALARMS_SHOWN)],
        jobs=await _jobs(service, [*chosen, *jobs], pauses, now),
        more_jobs=None if jobs.next is None else view.link(after=jobs.next),
        runs=[run_row(each.run, each.time_zone, now, is_job_deleted=each.is_job_deleted) for each in runs],
        more_runs=None if found.next is None else view.link(before=found.next),
        panel=None if view.run is None else await _panel(service, view.run, view.attempt, now),
        nodes=[node_row(node, service.time_zone, now) for node in nodes],
        semaphores=await _semaphores(service),
        of_job=await _of_job(service, view.job, now),
        why=await _why(service, view.job),
        graph=await _graph(service, view.job),
        of_text=None if view.schedule is None else await _of_text(service, view.schedule, view.zone, now),
        zone=service.time_zone,
    )


async def _chosen(service: Service, job_id: str | None, jobs: Iterable[Job]) -> Sequence[Job]:
    """Return the job whose runs are listed, where it is not among those of this page: it comes first."""
    if job_id is None or any(job.id == job_id for job in jobs):
        return ()
    try:
        job = await service.jobs.get(job_id)
    except NotFound:
        return ()
    return () if job.state is JobState.DELETED else (job,)


async def _jobs(service: Service, jobs: Sequence[Job], pauses: Sequence[Pause], now: Moment) -> Sequence[JobRow]:
    last = await service.runs.last([job.id for job in jobs], LAST_RUNS_SHOWN, longest=0)
    return [job_row(job, last[job.id], pauses, now) for job in jobs]


async def _semaphores(service: Service) -> Sequence[SemaphoreRow]:
    """Return the semaphores; none if they have a store of their own that does not answer, so that all else is shown."""
    try:
        return [semaphore_row(each) for each in await service.semaphores.list(limit=SEMAPHORES_SHOWN)]
    except StoreUnavailable:
        return []


async def _of_job(service: Service, job_id: str | None, now: Moment) -> Preview | None:
    """Return the schedule of the job; None if there is no such job, of which runs may still be listed."""
    try:
        return None if job_id is None else preview(await service.jobs.explain(job_id, MOMENTS_SHOWN), now)
    except NotFound:
        return None
    except InvalidInput as fault:
        return _unread(service.time_zone, fault)


async def _why(service: Service, job_id: str | None) -> Sequence[Reason]:
    try:
        reasons = () if job_id is None else (await service.jobs.why(job_id)).reasons
    except (NotFound, InvalidInput):  # the latter stands in place of its schedule
        return ()
    return [reason for reason in reasons if reason.cause not in AT_REST]


async def _graph(service: Service, job_id: str | None) -> Sequence[str]:
    try:
        return () if job_id is None else tree(await service.jobs.graph(job_id))
    except NotFound:
        return ()


async def _of_text(service: Service, text: str, zone: str | None, now: Moment) -> Preview:
    try:
        return preview(await service.schedules.explain(text, zone, MOMENTS_SHOWN), now)
    except InvalidInput as fault:
        return _unread(zone or service.time_zone, fault)


def _unread(zone: str, fault: InvalidInput) -> Preview:
    return Preview(zone, "", (), (), fault.message, fault.allowed)


async def _panel(service: Service, run_id: str, attempt: str | None, now: Moment) -> RunPanel:
    details = await service.runs.get(run_id)
    why = (await service.runs.why(run_id)).reasons if details.run.state in STANDING_STILL else ()
    number = int(attempt) if attempt and attempt.isdecimal() and len(attempt) < 10 else details.run.attempt
    return panel_of(details, why, number, await service.runs.output(run_id, number), now)
