"""The paths under `/api/v2/jobs`: jobs are added, edited, stopped and deleted."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated
from urllib.parse import quote

from msgspec import Meta, Struct, json
from msgspec.structs import asdict
from starlette.requests import Request
from starlette.responses import Response

from tokimori.api.acting import ServiceFor
from tokimori.api.answers import answer, page_of, written
from tokimori.api.operation import Fields, Handler, Operation
from tokimori.api.requests import NoRequest, PauseRequest, TriggerRequest, ask
from tokimori.errors import InvalidInput
from tokimori.service.asking import MOST_LISTED, checked
from tokimori.service.definitions import JobFields
from tokimori.service.shown import MOST_KEPT, Shown
from tokimori.service.views.jobs import JobView, job_view
from tokimori.service.views.runs import RunView

SHOWN_TIMES = 5
"""How many next moments are shown with a job."""
EXAMPLE = {"id": "nightly-report", "schedule": "0 3 * * *", "command": "make report", "owner": "ada"}


class JobQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Jobs by id, from the first one behind `after`; `last_runs`: with how many of its newest runs each is shown."""

    after: str | None = None
    limit: Annotated[int, Meta(ge=1, le=MOST_LISTED)] = 100
    last_runs: Annotated[int, Meta(ge=0, le=MOST_LISTED)] = 0


class DeleteQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`cascade`: whether jobs that run only after it are deleted too; `now`: whether its running runs are cancelled."""

    cascade: bool = False
    now: bool = False


class NewJob(JobFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job: its `id` (else it gets a UUID), what it does, when, and its policies. Of `command`, `function`, `url` and
    `noop` it has one.
    """

    id: str | None = None


class JobChanges(JobFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What changes of a job: a JSON merge patch. A null brings the default of a field back."""


class JobDeleted(Struct, frozen=True, kw_only=True):
    """The job that was deleted."""

    id: str
    deleted: bool


class Jobs:
    """The part of the API for jobs."""

    def __init__(self, service: ServiceFor) -> None:
        self._service = service

    def operations(self) -> Sequence[Operation]:
        """The operations of this part."""
        return [*self._of_jobs(), *self._of_states()]

    def _of_jobs(self) -> Sequence[Operation]:
        every, job = "/api/v2/jobs", "/api/v2/jobs/{job_id}"
        return [
            Operation("job_list", "GET", every, self.list, list[JobView], asked={"limit": 20}),
            Operation("job_add", "POST", every, self.add, JobView, sent=NewJob, status=201, example=EXAMPLE),
            Operation("job_show", "GET", job, self.show, JobView),
            Operation(
                "job_update",
                "PATCH",
                job,
                self.update,
                JobView,
                sent=JobChanges,
                example={"schedule": "0 4 * * *", "owner": None},
            ),
            Operation("job_delete", "DELETE", job, self.delete, JobDeleted),
        ]

    def _of_states(self) -> Sequence[Operation]:
        job, why = "/api/v2/jobs/{job_id}", {"reason": "repairs"}
        orders: Sequence[tuple[str, Handler, Mapping[str, object]]] = (
            ("pause", self.pause, why),
            ("disable", self.pause, why),
            ("resume", self.resume, {}),
            ("enable", self.resume, {}),
            ("resolve", self.resolve, {}),
        )
        return [
            *(
                Operation(f"job_{name}", "POST", f"{job}/{name}", handler, JobView, example=example)
                for name, handler, example in orders
            ),
            Operation(
                "job_trigger",
                "POST",
                f"{job}/trigger",
                self.trigger,
                RunView,
                status=201,
                others={200: "a run that was there already answers"},
                example={"key": "order-17", "payload": "17"},
            ),
        ]

    async def list(self, request: Request, query: JobQuery) -> Response:
        """Jobs by id, a page at a time."""
        if query.last_runs:
            checked("last_runs", query.last_runs, MOST_LISTED // query.limit)
        service = self._service(request)
        jobs = await service.list(query.after, query.limit)
        last = await service.last_runs([job.id for job in jobs], query.last_runs) if query.last_runs else {}
        views = [job_view(job, last_runs=last.get(job.id)) for job in jobs]
        return page_of(request, views, more=len(jobs) == query.limit, after=jobs[-1].id if jobs else None)

    async def add(self, request: Request, body: Fields) -> Response:
        """Add a job: the fields of `JobFields`, and an `id` (else it gets a UUID)."""
        job_id = body.pop("id", None)
        if not isinstance(job_id, str | None):
            raise InvalidInput(f"id: {job_id!r} is not a job id", field="id", value=job_id, allowed="a text")
        job = await self._service(request).add(job_id, **body)
        return answer(job_view(job), 201, location=f"/api/v2/jobs/{quote(job.id, safe='')}")

    async def show(self, request: Request) -> Response:
        """A job, its next moments (none while it is stopped), its edges, and what keeps its runs from starting."""
        return written(_shown(await self._service(request).shown(job_id_of(request), SHOWN_TIMES)))

    async def update(self, request: Request, body: Fields) -> Response:
        """Change fields of a job: a JSON merge patch (RFC 7396); a null brings the default of a field back."""
        return answer(job_view(await self._service(request).update(job_id_of(request), **body)))

    async def delete(self, request: Request, query: DeleteQuery) -> Response:
        """Delete a job. Its runs that have not started are cancelled."""
        job_id = job_id_of(request)
        await self._service(request).delete(job_id, **asdict(query))
        return answer(JobDeleted(id=job_id, deleted=True))

    async def pause(self, request: Request, body: PauseRequest) -> Response:
        """Pause a job: none of its runs starts until it is resumed."""
        return answer(job_view(await self._service(request).pause(job_id_of(request), body.reason, now=body.now)))

    async def resume(self, request: Request, body: NoRequest) -> Response:
        """Resume a job, without making up for what it missed."""
        return answer(job_view(await self._service(request).resume(job_id_of(request))))

    async def resolve(self, request: Request, body: NoRequest) -> Response:
        """Enable a job that a failure has parked."""
        return answer(job_view(await self._service(request).resolve(job_id_of(request))))

    async def trigger(self, request: Request, body: TriggerRequest) -> Response:
        """Ask for a run, now or at a moment."""
        return await ask(request, self._service(request), job_id_of(request), body)


def job_id_of(request: Request) -> str:
    """The id of the job that the path names."""
    job_id: str = request.path_params["job_id"]
    return job_id


@lru_cache(maxsize=MOST_KEPT)
def _shown(found: Shown) -> bytes:
    """Its JSON: the service gives the same object as long as it is the same."""
    facts = found.facts
    return json.encode(job_view(facts.job, found.moments, facts.edges, facts.pauses, facts.too_heavy))
