"""The paths under `/api/v2/jobs`: jobs are added, edited, stopped and deleted."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Annotated
from urllib.parse import quote

from msgspec import Meta, Struct
from msgspec.structs import asdict
from starlette.requests import Request
from starlette.responses import Response

from tokimori.api.answers import answer, page_of, written
from tokimori.api.operation import Fields, Handler, Operation, Routes
from tokimori.api.queries import filters_of, members_of
from tokimori.api.requests import NoRequest, PauseRequest, TriggerRequest, ask, made_once
from tokimori.api.turns import in_steps
from tokimori.clock import format_moment
from tokimori.errors import AlreadyExists, Conflict, InvalidInput, NotFound, Outdated
from tokimori.model.ids import JobId
from tokimori.model.job import Job, JobState
from tokimori.model.run import Run
from tokimori.ports.store import RunFilter
from tokimori.service.definitions.arguments import JobFilters
from tokimori.service.definitions.definitions import JobFields, is_said
from tokimori.service.definitions.edits import check_tag, tag_of
from tokimori.service.jobs.deleting import MOST_DELETED
from tokimori.service.search.runs import LONGEST, all_whole
from tokimori.service.service import Service
from tokimori.service.store_calls import MOST_TRIES
from tokimori.service.validation import MOST_LISTED, checked
from tokimori.service.view_cache import MOST_KEPT, Shown
from tokimori.service.views.jobs import Job as JobView
from tokimori.service.views.outside import as_json
from tokimori.service.views.runs import Run as RunView

SHOWN_TIMES = 5
"""How many next moments are shown with a job."""
EXAMPLE = {"id": "nightly-report", "schedule": "0 3 * * *", "command": "make report", "owner": "ada"}


_KEY, _MATCH, _TAG = ("Idempotency-Key",), ("If-Match",), ("ETag",)


class JobQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Jobs by id, from the first one behind `after`: in some states, of ids that begin with `prefix`.

    A `label` is `KEY=VALUE`, or `KEY` for any value; each one that is said must be there. `last_runs`: with how many of
    its newest runs each is shown. `fields`: the members of the answer that are wanted; all by default.
    """

    state: tuple[JobState, ...] = ()
    prefix: str | None = None
    label: tuple[str, ...] = ()
    owner: str | None = None
    queue: str | None = None
    fields: tuple[str, ...] = ()
    after: str | None = None
    limit: Annotated[int, Meta(ge=1, le=MOST_LISTED)] = 100
    last_runs: Annotated[int, Meta(ge=0, le=MOST_LISTED)] = 0


class DeleteQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`cascade`: whether jobs that run only after it are deleted too; `now`: whether its running runs are cancelled.

    `force`: whether a notifier goes that jobs name.
    """

    cascade: bool = False
    now: bool = False
    force: bool = False


class DeleteAllQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Query of a deletion: of jobs added up to `until` (now by default) the first `limit` by id behind `after`.

    `confirm` has to be `all`, unless it is a `dry_run`, which only names them. `now`: running runs are cancelled.
    """

    confirm: str | None = None
    until: str | None = None
    after: str | None = None
    limit: Annotated[int, Meta(ge=1, le=MOST_DELETED)] = MOST_DELETED
    now: bool = False
    dry_run: bool = False


class NewJob(JobFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job: its `id` (by default a UUID), its target, schedule and policies. It has one of `command`, `function`,
    `url` and `noop`.
    """

    id: str | None = None


class WholeJob(JobFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job: its target, schedule and policies."""


class JobChanges(JobFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes of a job: a JSON merge patch. A null brings the default of a field back."""


class NewId(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The id that a job is to have."""

    id: str


class JobDeleted(Struct, frozen=True, kw_only=True):
    """The job that was deleted."""

    id: str
    deleted: bool


class AllDeleted(Struct, frozen=True, kw_only=True):
    """The deleted jobs (with `dry_run`: those that would be), and by id the reasons of the others.

    With `next` as `after`, and the same `until`, the next request goes on; null: there are no more.
    """

    deleted: tuple[str, ...]
    kept: dict[str, str]
    until: str
    next: str | None


class JobRoutes(Routes):
    """The part of the API for jobs."""

    def operations(self) -> Sequence[Operation]:
        """Return the operations of this part."""
        return [*self._of_jobs(), *self._of_states()]

    def _of_jobs(self) -> Sequence[Operation]:
        every, job = "/api/v2/jobs", "/api/v2/jobs/{job_id}"
        return [
            Operation("job_list", "GET", every, self.list, list[JobView], asked={"limit": 20}),
            Operation("job_add", "POST", every, self.add, JobView, sent=NewJob, status=201, example=EXAMPLE),
            Operation("job_delete_all", "DELETE", every, self.delete_all, AllDeleted, asked={"dry_run": True}),
            Operation("job_show", "GET", job, self.show, JobView, answered=_TAG),
            Operation(
                "job_edit",
                "PUT",
                job,
                self.put,
                JobView,
                sent=WholeJob,
                example={name: value for name, value in EXAMPLE.items() if name != "id"},
                others={201: "there was no such job: it was added"},
                headers=(*_MATCH, "If-None-Match"),
                answered=_TAG,
            ),
            Operation(
                "job_update",
                "PATCH",
                job,
                self.update,
                JobView,
                sent=JobChanges,
                example={"schedule": "0 4 * * *", "owner": None},
                headers=_MATCH,
                answered=_TAG,
            ),
            Operation("job_delete", "DELETE", job, self.delete, JobDeleted, headers=_MATCH),
        ]

    def _of_states(self) -> Sequence[Operation]:
        job, why = "/api/v2/jobs/{job_id}", {"reason": "repairs"}
        orders: Sequence[tuple[str, Handler, Mapping[str, object]]] = (
            ("pause", self.pause, why),
            ("resume", self.resume, {}),
            ("resolve", self.resolve, {}),
            ("rewind", self.rewind, {}),
        )
        return [
            *(
                Operation(f"job_{name}", "POST", f"{job}/{name}", handler, JobView, example=example)
                for name, handler, example in orders
            ),
            *(
                Operation(
                    f"job_{name}",
                    "POST",
                    f"{job}/{name}",
                    handler,
                    JobView,
                    sent=NewId,
                    status=status,
                    answered=(*_TAG, "Location"),
                    example={"id": f"weekly-{name}"},
                )
                for name, handler, status in (("copy", self.copy, 201), ("rename", self.rename, 200))
            ),
            Operation(
                "job_trigger",
                "POST",
                f"{job}/trigger",
                self.trigger,
                RunView,
                status=201,
                others={200: "a run that was there already answers"},
                headers=_KEY,
                answered=("Location",),
                example={"key": "order-17", "payload": "17"},
            ),
        ]

    async def list(self, request: Request, query: JobQuery) -> Response:
        """Return jobs by id, a page at a time. It looks at 20,000 jobs at most, so a short page may have a `next`."""
        if query.last_runs:
            checked("last_runs", query.last_runs, MOST_LISTED // query.limit)
        service = self._service(request)
        found = await service.jobs.list(**filters_of(query, JobFilters))
        jobs = found.jobs
        last = await _last_runs(service, jobs, query.last_runs) if query.last_runs else {}
        views = await in_steps(lambda job: JobView.made(job, last_runs=last.get(job.id)), jobs)
        return page_of(request, members_of(views, JobView, query.fields), more=found.next is not None, after=found.next)

    async def add(self, request: Request, body: Fields) -> Response:
        """Add a job: its fields, and an `id` (else it gets a UUID).

        Sent again with the same `Idempotency-Key` it is answered by the job that is there, if that says the same.
        """
        job_id = body.pop("id", None)
        if not isinstance(job_id, str | None):
            raise InvalidInput(f"id: {job_id!r} is not a job id", field="id", value=job_id, allowed="a text")
        service = self._service(request)
        key = await made_once(request, service, [job_id, body])
        job_id = key if job_id is None else job_id
        try:
            return _tagged(await service.jobs.add(job_id, **body), 201)
        except AlreadyExists:
            with suppress(NotFound):  # it may be one that the sender does not see
                if key is not None and is_said(job := await service.jobs.get(str(job_id)), body, service.time_zone):
                    return _tagged(job)
            raise

    async def show(self, request: Request, job_id: str) -> Response:
        """Return a job, its next moments (none while it is stopped), its edges, and why its runs do not start."""
        found = await self._service(request).jobs.shown(job_id, SHOWN_TIMES)
        return written(_shown(found), _etag(found.facts.job))

    async def update(self, request: Request, job_id: str, body: Fields) -> Response:
        """Change fields of a job: a JSON merge patch (RFC 7396); a null brings the default of a field back."""
        changed = await self._service(request).jobs.edit(job_id, body, tags=_tags(request))
        return _tagged(changed)

    async def put(self, request: Request, job_id: str, body: Fields) -> Response:
        """Define a job: fields that are not said get their defaults, and its runs stay. One that is missing is added.

        With `If-Match` no job is added, and with `If-None-Match: *` none is changed.
        """
        service, tags = self._service(request), _tags(request)
        if _only_new(request):
            return await _added(service, job_id, body, is_known="if-match" in request.headers)
        for _ in range(MOST_TRIES):
            try:
                return _tagged(await service.jobs.edit(job_id, body, whole=True, tags=tags))
            except NotFound:
                if "if-match" in request.headers:  # `*`, too, names a job that is there
                    raise
            with suppress(AlreadyExists):  # somebody else has added it meanwhile
                return _tagged(await service.jobs.add(job_id, **body), 201)
        raise Conflict(f"the job {job_id!r} is added and deleted all the time", field="id", value=job_id)

    async def delete(self, request: Request, job_id: str, query: DeleteQuery) -> Response:
        """Delete a job. Its runs that have not started are cancelled."""
        service, tags = self._service(request), _tags(request)
        if tags is not None:
            check_tag(await service.jobs.get(job_id), tags)
        await service.jobs.delete(job_id, **asdict(query))
        return answer(JobDeleted(id=job_id, deleted=True))

    async def delete_all(self, request: Request, query: DeleteAllQuery) -> Response:
        """Delete all jobs, some at a time, each after those that run after it. Only admins may."""
        done = await self._service(request).jobs.delete_some(**asdict(query))
        deleted = tuple(job.id for job in done.jobs)
        return answer(AllDeleted(deleted=deleted, kept=done.kept, until=format_moment(done.until), next=done.next))

    async def pause(self, request: Request, job_id: str, body: PauseRequest) -> Response:
        """Pause a job: none of its runs starts until it is resumed."""
        return answer(JobView.made(await self._service(request).jobs.pause(job_id, body.reason, now=body.now)))

    async def resume(self, request: Request, job_id: str, body: NoRequest) -> Response:
        """Resume a job. Missed occurrences are skipped."""
        return answer(JobView.made(await self._service(request).jobs.resume(job_id)))

    async def resolve(self, request: Request, job_id: str, body: NoRequest) -> Response:
        """Enable a job that a failure has parked."""
        return answer(JobView.made(await self._service(request).jobs.resolve(job_id)))

    async def rewind(self, request: Request, job_id: str, body: NoRequest) -> Response:
        """Reset a job to now that a fast clock has moved into the future. Moments without a known run come again."""
        return answer(JobView.made(await self._service(request).jobs.rewind(job_id)))

    async def copy(self, request: Request, job_id: str, body: NewId) -> Response:
        """Add a job like this one under another id; it is paused if this one is stopped."""
        return _tagged(await self._service(request).jobs.copy(job_id, body.id), 201)

    async def rename(self, request: Request, job_id: str, body: NewId) -> Response:
        """Give a job another id. Its runs so far keep the old one; jobs that name it name the new one then."""
        return _tagged(await self._service(request).jobs.rename(job_id, body.id))

    async def trigger(self, request: Request, job_id: str, body: TriggerRequest) -> Response:
        """Ask for a run, now or at a moment."""
        return await ask(request, self._service(request), job_id, body)


async def _last_runs(service: Service, jobs: Sequence[Job], limit: int) -> dict[JobId, list[Run]]:
    """Return the last runs of each job, newest first. Raises `Refused` if their payloads are too long together."""
    found = await service.runs.last([job.id for job in jobs], limit, longest=LONGEST)
    last: dict[JobId, list[Run]] = {job.id: [] for job in jobs}

    async def listed(wanted: RunFilter) -> Sequence[Run]:
        return (await service.runs.list(job_id=wanted.job_id, before=wanted.before, limit=wanted.limit)).runs

    for run in await all_whole(listed, [run for runs in found.values() for run in runs]):
        last[run.job_id].append(run)
    return last


def _etag(job: Job) -> str:
    return f'W/"{tag_of(job)}"'


def _tagged(job: Job, status: int = 200) -> Response:
    """Return the job, with its tag, and where it is found."""
    response = answer(JobView.made(job), status, location=f"/api/v2/jobs/{quote(job.id, safe='')}")
    response.headers["etag"] = _etag(job)
    return response


def _only_new(request: Request) -> bool:
    """Check if the client wants to change no job that is there. Raises `InvalidInput` for tags: only `*` will do."""
    given = [each.strip() for header in request.headers.getlist("if-none-match") for each in header.split(",")]
    if given not in ([], ["*"]):
        raise InvalidInput("If-None-Match: it names tags", field="If-None-Match", value=", ".join(given), allowed="*")
    return bool(given)


async def _added(service: Service, job_id: str, body: Fields, *, is_known: bool) -> Response:
    """Return the response to a request that adds a job and changes none. Raises `Outdated` if the job exists."""
    if is_known:
        raise InvalidInput("If-Match: it can't be used beside If-None-Match", field="If-Match", allowed="one of them")
    try:
        return _tagged(await service.jobs.add(job_id, **body), 201)
    except AlreadyExists:
        message = f"there is a job {job_id!r} already"
        raise Outdated(message, field="If-None-Match", value="*", allowed="the id of no job") from None


def _tags(request: Request) -> frozenset[str] | None:
    """Return the tags of the job that the client knows; None: it does not say, or any will do.

    Of the tag of an answer only the beginning is that of the job: the rest is what else was shown with it.
    """
    given = [each.strip() for header in request.headers.getlist("if-match") for each in header.split(",")]
    if not given or "*" in given:
        return None
    return frozenset(each.removeprefix("W/").strip('"').partition("-")[0] for each in given)


@lru_cache(maxsize=MOST_KEPT)
def _shown(found: Shown) -> bytes:
    """Return the job as JSON, cached as long as the service returns the same object."""
    return as_json(JobView.of_shown(found))
