"""The paths of Kala's API, with and without a slash at the end; all else below it is not found, as Kala says it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from uuid import uuid4

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from tokimori.errors import Forbidden, InvalidInput, NotFound, Refused, StoreError, TokimoriError
from tokimori.foreign.kala.answers import STOPPED, KnownJob, job_stats, kala_job, kala_stats
from tokimori.foreign.kala.shapes import (
    PREFIX,
    Created,
    JobAnswer,
    JobsAnswer,
    KalaFault,
    KalaJob,
    KalaStatsAnswer,
    StatsAnswer,
)
from tokimori.foreign.kala.translator import line_of_children, makes_up, new_job, read_job_request
from tokimori.model.ids import JobId
from tokimori.model.job import Job, JobState
from tokimori.model.retention import DailyCount
from tokimori.model.run import Run
from tokimori.service.jobs.deleting import CONFIRMED
from tokimori.service.search.jobs import every_job
from tokimori.service.service import Service
from tokimori.service.validation import MOST_LISTED

log = logging.getLogger(__name__)

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
SHOWN_RUNS = 20
"""Number of its newest runs with which a job is shown in the list of all."""
MOST_JOBS = 10_000
"""Number of jobs listed in one answer; Kala's API has no pages."""
_AT_ONCE = 50
_POLL = 0.1
"""Seconds between two looks at a job whose line is full."""
_JSON = "application/json;charset=UTF-8"


def kala_routes(service_for: Callable[[Request], Service], default_owner: str | None = None) -> Sequence[BaseRoute]:
    """Return the paths: one for the API, because Kala answers 404 to unknown paths and methods alike, and its page.

    `service_for` gives the service as the sender of a request may use it.
    """

    async def answered(request: Request) -> Response:
        return await Kala(service_for(request), default_owner).answer(request)

    return [
        Route(PREFIX + "{path:path}", answered, methods=METHODS),
        Route("/webui", to_the_page, methods=["GET"]),
        Route("/webui/", to_the_page, methods=["GET"]),
    ]


class Kala:
    """Kala's API on a service. `default_owner` is the owner of jobs that name none."""

    def __init__(self, service: Service, default_owner: str | None = None) -> None:
        self._service = service
        self._default_owner = default_owner

    async def answer(self, request: Request) -> Response:
        """Answer one request. An unknown job and a missing right are errors with a reason."""
        path: str = request.path_params["path"]
        try:
            return await self._answer(request, path.removesuffix("/").split("/"))
        except TokimoriError as fault:
            return refusal(fault)

    async def _answer(self, request: Request, path: list[str]) -> Response:
        match request.method, path:
            case "POST", ["job"]:
                return await self._create(await request.body())
            case "GET", ["job"]:
                return answer(JobsAnswer(jobs={job.id: job for job in await self._all()}))
            case "DELETE", ["job", "all"]:
                return await self._delete_all()
            case "GET", ["job", job_id]:
                return answer(JobAnswer(job=kala_job(await self._known(job_id))))
            case "DELETE", ["job", job_id]:
                return await self._delete((await self._job(job_id)).id)
            case "GET", ["job", "stats", job_id]:
                return answer(StatsAnswer(job_stats=job_stats((await self._known(job_id)).runs) or None))
            case "POST", ["job", ("start" | "enable" | "disable") as word, job_id]:
                return await self._order(request, word, job_id)
            case "GET", ["stats"]:
                return answer(KalaStatsAnswer(stats=kala_stats(await self._all(), await self._service.db.now())))
            case _:
                return PlainTextResponse("404 page not found\n", 404)

    async def _create(self, body: bytes) -> Response:
        job_id = str(uuid4())
        wanted = new_job(read_job_request(body), job_id, await self._service.db.now(), self._default_owner)
        await self._service.jobs.import_all(
            [(job_id, wanted.definition)],
            {job_id: "added disabled"} if wanted.disabled else {},
            {} if wanted.runs_remaining is None else {job_id: wanted.runs_remaining},
        )
        if wanted.runs_now:
            await self._service.jobs.trigger(job_id, key="added")
        return answer(Created(id=job_id), 201)

    async def _order(self, request: Request, word: str, job_id: str) -> Response:
        job = await self._job(job_id)
        if word == "enable":
            await self._service.jobs.resume(job.id, late=makes_up(job.definition))
        elif word == "disable":
            await self._service.jobs.pause(job.id)
        elif job.state not in STOPPED:
            await _while_it_waits(request, self._run(job.id))
        return Response(status_code=204)

    async def _delete(self, job_id: JobId) -> Response:
        await self._service.jobs.delete(job_id, cascade=True)
        with suppress(NotFound, Refused, Forbidden):  # its children may still run; a scope has no semaphores
            await self._service.semaphores.delete(line_of_children(job_id))
        return Response(status_code=204)

    async def _delete_all(self) -> Response:
        """Delete the jobs that were added here, and those that run after them. A repeated request continues it."""
        done = await self._service.jobs.delete_some(CONFIRMED, foreign=True)
        while done.next is not None:
            done = await self._service.jobs.delete_some(CONFIRMED, foreign=True, after=done.next, until=done.until)
        return Response(status_code=204)

    # What is known of jobs

    async def _job(self, job_id: str) -> Job:
        """Return the job. Raises `NotFound`, also for an impossible id and a deleted job."""
        with suppress(InvalidInput):
            if (job := await self._service.jobs.get(job_id)).state is not JobState.DELETED:
                return job
        raise NotFound(f"there is no job {job_id!r}", field="id", value=job_id)

    async def _known(self, job_id: str) -> KnownJob:
        job = await self._job(job_id)
        runs, counts, edges = await asyncio.gather(
            self._service.runs.list(job_id=job.id, limit=MOST_LISTED, longest=0),
            self._service.jobs.counts(job.id),
            self._service.jobs.graph(job.id),
        )
        below = [edge.child for edge in edges if edge.parent == job.id and edge.declared_by == edge.child]
        children = [await self._service.jobs.get(child) for child in below]
        return KnownJob(job=job, runs=_of(job, runs.runs), counts=counts, children=_in_order(children))

    async def _all(self) -> list[KalaJob]:
        jobs = await self._listed()
        known = {job.id: job for job in jobs}
        children: dict[JobId, list[Job]] = {}
        for edge in await self._service.jobs.graph():
            if edge.declared_by == edge.child and edge.child in known:
                children.setdefault(edge.parent, []).append(known[edge.child])
        found: list[KalaJob] = []
        for first in range(0, len(jobs), _AT_ONCE):
            some = jobs[first : first + _AT_ONCE]
            runs = await self._service.runs.last([job.id for job in some], SHOWN_RUNS, longest=0)
            counts = await asyncio.gather(*(self._counts(job) for job in some))
            found += [
                kala_job(KnownJob(job=job, runs=_of(job, runs[job.id]), counts=each, children=below))
                for job, each in zip(some, counts, strict=True)
                for below in (_in_order(children.get(job.id, ())),)
            ]
        return found

    async def _counts(self, job: Job) -> Sequence[DailyCount]:
        with suppress(NotFound):  # deleted meanwhile
            return await self._service.jobs.counts(job.id)
        return ()

    async def _listed(self) -> list[Job]:
        """Return all jobs. Raises `Refused` if they are too many for one answer."""
        jobs: list[Job] = []
        async for job in every_job(self._service.jobs.list):
            jobs.append(job)
            if len(jobs) > MOST_JOBS:
                raise Refused(
                    f"there are over {MOST_JOBS} jobs, and this API has no pages",
                    allowed="GET /api/v2/jobs, which has pages",
                )
        return jobs

    # Running a job

    async def _run(self, job_id: JobId) -> None:
        """Run the job, and wait for its end and the ends of all runs after it."""
        await self._ended(await self._triggered(job_id))

    async def _triggered(self, job_id: JobId) -> Run:
        """Return a run of the job. It waits while another one waits in line, because Kala runs them one by one."""
        while True:
            try:
                return await self._service.jobs.trigger(job_id)
            except Refused as fault:
                if fault.field != "max_waiting":
                    raise
            await asyncio.sleep(_POLL)

    async def _ended(self, run: Run) -> None:
        await self._service.runs.wait(run.id)
        for child in {edge.child for edge in await self._service.jobs.graph(run.job_id) if edge.parent == run.job_id}:
            for found in await self._service.runs.list(job_id=child, limit=MOST_LISTED, longest=0):
                if found.parent_id == run.id:
                    await self._ended(found)


async def to_the_page(_: Request) -> Response:
    """Redirect Kala's page to ours."""
    return RedirectResponse("/", 303)


def answer(value: object, status: int = 200) -> Response:
    """Return a response with the value as JSON, which ends with a line's end."""
    return Response(msgspec.json.encode(value) + b"\n", status, {"content-type": _JSON})


def refusal(fault: TokimoriError) -> Response:
    """Return the response to an error: 400 for a faulty job. An error of ours is logged."""
    if fault.status >= 500 and not isinstance(fault, StoreError):
        log.error("a request to %s failed", PREFIX, exc_info=fault)
    status = 400 if isinstance(fault, InvalidInput) else fault.status
    body = KalaFault(error=fault.message, code=fault.code, field=fault.field, allowed=fault.allowed)
    return answer(body, status)


def _in_order(jobs: Iterable[Job]) -> list[str]:
    """Return the ids of jobs in the order in which they were added."""
    return [job.id for job in sorted(jobs, key=lambda job: (job.created, job.id))]


def _of(job: Job, runs: Sequence[Run]) -> list[Run]:
    """Return the runs of this job, without those of earlier jobs of the same id."""
    return [run for run in runs if run.incarnation == job.incarnation]


async def _while_it_waits(request: Request, work: Awaitable[None]) -> None:
    """Wait for the work while the client is connected. The work itself goes on without it."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_until_disconnect(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        working.cancel()
        leaving.cancel()


async def _until_disconnect(request: Request) -> None:
    """Wait until the client has disconnected, after its body."""
    await request.body()
    while (await request.receive())["type"] != "http.disconnect":
        pass
