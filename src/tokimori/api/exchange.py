"""The paths by which many jobs come and go at once: `/api/v2/jobs/bulk` and `/api/v2/export`."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict
from starlette.requests import Request
from starlette.responses import Response

from tokimori.api.answers import answer, page_of
from tokimori.api.jobs import EXAMPLE, NewJob
from tokimori.api.operation import Operation
from tokimori.api.request_service import ServiceFor
from tokimori.errors import InvalidInput
from tokimori.model.job import Definition, Job, set_of
from tokimori.model.target import Unreadable
from tokimori.schedules.zones import check_zone
from tokimori.service.definitions.definitions import definition_from, job_fields_of, runs_remaining_in
from tokimori.service.definitions.toml import write_toml
from tokimori.service.search.jobs import FoundJobs
from tokimori.service.service import Service
from tokimori.service.validation import MOST_LISTED


class BulkRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The jobs to add, each as `job_add` takes it, with an `id`."""

    jobs: Annotated[tuple[dict[str, Any], ...], Meta(max_length=MOST_LISTED)]


class NewJobs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The jobs to add, each with an `id`."""

    jobs: Annotated[tuple[NewJob, ...], Meta(max_length=MOST_LISTED)]


class AddedJobs(Struct, frozen=True, kw_only=True):
    """The ids of the jobs that were added, and of those that were there already and stayed as they were."""

    added: tuple[str, ...]
    unchanged: tuple[str, ...]


class ExportQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Query of an export: jobs with these ids (`id` may be repeated), or all from the first one behind `after`."""

    id: Annotated[tuple[str, ...], Meta(max_length=100)] = ()
    after: str | None = None
    limit: Annotated[int, Meta(ge=1, le=MOST_LISTED)] = 100


class DefinitionQuery(ExportQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """With `set` only what this set declares; a page may then have fewer jobs, or none."""

    set: str | None = None


class CrontabQuery(ExportQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`time_zone` is that of the machine that runs cron; `system`: each line names a user."""

    time_zone: str = "UTC"
    system: bool = False


class ExportedJobs(Struct, frozen=True, kw_only=True):
    """Jobs without their state, each as `job_add` takes it, and what there is beside them, by name: see `set_apply`.

    The latter is on the first page, where no jobs are named.
    """

    jobs: tuple[dict[str, Any], ...]
    calendars: dict[str, dict[str, Any]] | UnsetType = UNSET
    semaphores: dict[str, dict[str, Any]] | UnsetType = UNSET
    queues: dict[str, dict[str, Any]] | UnsetType = UNSET


class TomlText(Struct, frozen=True, kw_only=True):
    """The same as a text of TOML, which `tokimori apply` reads."""

    toml: str


class CrontabText(Struct, frozen=True, kw_only=True):
    """Jobs as a crontab. Jobs that cron can't run are comments there; `left_out` has the reasons by id."""

    crontab: str
    left_out: Mapping[str, str]


class Formats(NamedTuple):
    """Writers of foreign formats, and the operations that read them."""

    write_crontab: Callable[[Sequence[Job], str, bool], tuple[str, Mapping[str, str]]]
    imports: Callable[[ServiceFor], Sequence[Operation]]


class Exchange:
    """The part of the API for many jobs at once. What takes long is done in a thread, one at a time."""

    def __init__(self, service: ServiceFor, formats: Formats) -> None:
        self._service = service
        self._formats = formats
        self._turn = asyncio.Lock()

    def operations(self) -> Sequence[Operation]:
        """Return the operations of this part."""
        bulk, out = "/api/v2/jobs/bulk", "/api/v2/export"
        return [
            Operation("job_import_all", "POST", bulk, self.bulk, AddedJobs, sent=NewJobs, example={"jobs": [EXAMPLE]}),
            Operation("export_json", "GET", f"{out}/json", self.as_json, ExportedJobs, large=True),
            Operation("export_toml", "GET", f"{out}/toml", self.as_toml, TomlText, large=True),
            Operation("export_crontab", "GET", f"{out}/crontab", self.as_crontab, CrontabText, large=True),
        ]

    async def bulk(self, request: Request, body: BulkRequest) -> Response:
        """Add many jobs, all or none. Those whose ids are taken stay as they are."""
        service = self._service(request)
        async with self._turn:
            jobs = [(await _definition(service, place, fields)) for place, fields in enumerate(body.jobs)]
            limits = {str(each["id"]): limit for each in body.jobs if (limit := runs_remaining_in(each)) is not None}
            done = await service.jobs.import_all(jobs, runs_remaining=limits)
        return answer(AddedJobs(added=done.added, unchanged=done.unchanged))

    async def as_json(self, request: Request, query: DefinitionQuery) -> Response:
        """Export as JSON what `set_apply` takes. Jobs whose definition this version can't read are left out."""
        found, beside = await self._jobs(request, query), await self._other_resources(request, query)
        return _page(request, found, ExportedJobs(jobs=tuple(_fields(found.jobs, query.set)), **beside))

    async def as_toml(self, request: Request, query: DefinitionQuery) -> Response:
        """Return the same as TOML."""
        found, beside = await self._jobs(request, query), await self._other_resources(request, query)
        async with self._turn:
            top = None if query.after else query.set
            text = await asyncio.to_thread(write_toml, _fields(found.jobs, query.set), top, beside)
        return _page(request, found, TomlText(toml=text))

    async def _other_resources(self, request: Request, query: DefinitionQuery) -> dict[str, Any]:
        """Return the other resources; only the first page of jobs has them."""
        if query.id or query.after is not None:
            return {}
        return asdict(await self._service(request).sets.resources(query.set))

    async def as_crontab(self, request: Request, query: CrontabQuery) -> Response:
        """Return jobs as a crontab. A job that cron can't run becomes a comment, with the reason."""
        zone, found = check_zone(query.time_zone, field="time_zone"), await self._jobs(request, query)
        async with self._turn:
            text, left_out = await asyncio.to_thread(self._formats.write_crontab, found.jobs, zone, query.system)
        return _page(request, found, CrontabText(crontab=text, left_out=left_out))

    async def _jobs(self, request: Request, query: ExportQuery) -> FoundJobs:
        service = self._service(request)
        if query.id:
            return FoundJobs(jobs=[await service.jobs.get(job_id) for job_id in query.id])
        return await service.jobs.list(after=query.after, limit=query.limit)


async def _definition(service: Service, place: int, fields: Mapping[str, Any]) -> tuple[str, Definition]:
    await asyncio.sleep(0)  # others have their turn: a thousand jobs take longer than a run may be late
    job_id = fields.get("id")
    if not isinstance(job_id, str):
        field = f"jobs[{place}].id"
        raise InvalidInput(f"{field}: each job needs an id", field=field, value=job_id, allowed="a text")
    terms = {name: value for name, value in fields.items() if name != "id"}
    try:
        return job_id, definition_from(terms, time_zone=service.time_zone)
    except InvalidInput as fault:
        raise fault.below(f"jobs[{place}]") from None


def _fields(jobs: Sequence[Job], set_name: str | None) -> list[dict[str, Any]]:
    readable = [job for job in jobs if not isinstance(job.definition.target, Unreadable)]
    wanted = [job for job in readable if set_name in (None, set_of(job.definition))]
    return [{"id": job.id, **job_fields_of(job)} for job in wanted]


def _page(request: Request, found: FoundJobs, view: Struct) -> Response:
    """Return the jobs as they are written; a `Link` names the next page, if there may be more."""
    return page_of(request, view, more=found.next is not None, after=found.next)
