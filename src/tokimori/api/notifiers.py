"""The paths under `/api/v2/notifiers`: jobs that notify people of what happens to other jobs."""

from collections.abc import Sequence

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from tokimori.api.answers import answer
from tokimori.api.operation import Fields, Operation, Routes
from tokimori.api.requests import NamedDeleted, NoRequest, requested
from tokimori.model.ids import JobId
from tokimori.model.notifier import PREFIX, name_of
from tokimori.service.definitions.definitions import JobFields
from tokimori.service.notifiers import id_of, notifier_fields, trial_payload
from tokimori.service.views.jobs import Job
from tokimori.service.views.runs import Run


class NewNotifier(JobFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A notifier: the fields of a job without a schedule, and its `name`. Its id is `notifier:NAME`."""

    name: str


class DeleteNotifierQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`force`: delete it even if jobs name it, which then notify nobody."""

    force: bool = False


class Notifiers(Routes):
    """The part of the API for notifiers."""

    def operations(self) -> Sequence[Operation]:
        """Return the operations of this part."""
        every, one = "/api/v2/notifiers", "/api/v2/notifiers/{name}"
        return [
            Operation("notifier_list", "GET", every, self.list, list[Job]),
            Operation(
                "notifier_add",
                "POST",
                every,
                self.add,
                Job,
                sent=NewNotifier,
                status=201,
                answered=("Location",),
                example={"name": "ops", "url": "https://example.org/hook", "notifier": {"bundle": 60}},
            ),
            Operation("notifier_show", "GET", one, self.show, Job),
            Operation("notifier_delete", "DELETE", one, self.delete, NamedDeleted),
            Operation(
                "notifier_test",
                "POST",
                f"{one}/test",
                self.test,
                Run,
                status=201,
                answered=("Location",),
                example={},
            ),
        ]

    async def list(self, request: Request) -> Response:
        """List notifiers by id, at most 1,000."""
        found = await self._service(request).jobs.list(prefix=PREFIX)
        return answer([Job.made(each) for each in found])

    async def add(self, request: Request, body: Fields) -> Response:
        """Add a notifier: its `name`, its target (`url`, `email`, `command`, `function`), and `notifier`."""
        job_id = id_of(body.pop("name", None))
        added = await self._service(request).jobs.add(job_id, **notifier_fields(body))
        return answer(Job.made(added), 201, location=f"/api/v2/notifiers/{name_of(job_id)}")

    async def show(self, request: Request) -> Response:
        """Return a notifier, as the job that it is."""
        return answer(Job.made(await self._service(request).jobs.get(_id(request))))

    async def delete(self, request: Request, query: DeleteNotifierQuery) -> Response:
        """Delete a notifier that no job names, or any with `force`: jobs that name it then no longer notify by it."""
        job_id = _id(request)
        await self._service(request).jobs.delete(job_id, force=query.force)
        return answer(NamedDeleted(name=name_of(job_id), deleted=True))

    async def test(self, request: Request, body: NoRequest) -> Response:
        """Send a trial notification by the notifier."""
        service, job_id = self._service(request), _id(request)
        job, now = await service.jobs.get(job_id), await service.db.now()
        payload = trial_payload(job, name_of(job_id), now)
        return requested(await service.jobs.request(job_id, payload=payload))


def _id(request: Request) -> JobId:
    """Return the id of the notifier that the path names."""
    return id_of(request.path_params["name"])
