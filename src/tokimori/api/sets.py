"""The paths under `/api/v2/sets`: jobs, and what they need, that files declare together."""

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from tokimori.api.answers import answer
from tokimori.api.calendars import CalendarChanges
from tokimori.api.jobs import EXAMPLE, NewJob
from tokimori.api.operation import Operation, Routes
from tokimori.api.semaphores import LimitRequest
from tokimori.errors import InvalidInput
from tokimori.service.sets.work import Applied
from tokimori.service.validation import MOST_LISTED
from tokimori.service.views.resources import SetState

_Said = Annotated[dict[str, dict[str, Any]], Meta(max_length=MOST_LISTED)]


class DeclaredQueue(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Declaration of a queue: whether it is paused, and the reason, which counts when the pause begins."""

    paused: bool
    reason: str | None = None


class SetRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The jobs of a set, each as `job_add` takes it, with an `id`; the rest as `tokimori apply` has it.

    `calendars`, `queues` and `semaphores` are by name; the pause of everything is that of the queue `*`. `prune`
    deletes things of the set that are not given. `take_over` also changes things of other sets, and those edited by
    hand. With `dry_run` nothing is changed.
    """

    jobs: Annotated[tuple[dict[str, Any], ...], Meta(max_length=MOST_LISTED)]
    calendars: _Said = {}
    queues: _Said = {}
    semaphores: _Said = {}
    prune: bool = False
    take_over: bool = False
    dry_run: bool = False


class WholeSet(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Content of a set: jobs, each with an `id`, and calendars, queues and semaphores by name."""

    jobs: Annotated[tuple[NewJob, ...], Meta(max_length=MOST_LISTED)]
    calendars: Annotated[dict[str, CalendarChanges], Meta(max_length=MOST_LISTED)] = {}
    queues: Annotated[dict[str, DeclaredQueue], Meta(max_length=MOST_LISTED)] = {}
    semaphores: Annotated[dict[str, LimitRequest], Meta(max_length=MOST_LISTED)] = {}
    prune: bool = False
    take_over: bool = False
    dry_run: bool = False


class Sets(Routes):
    """The part of the API for sets of jobs."""

    def operations(self) -> Sequence[Operation]:
        """Return the operations of this part."""
        example = {"semaphores": {"printer": {"limit": 2}}, "jobs": [EXAMPLE], "dry_run": True}
        path, one = "/api/v2/sets", "/api/v2/sets/{name}"
        return [
            Operation("set_list", "GET", path, self.list, list[SetState]),
            Operation("set_show", "GET", one, self.show, SetState),
            Operation("set_apply", "PUT", one, self.apply, Applied, sent=WholeSet, example=example),
        ]

    async def list(self, request: Request) -> Response:
        """Return the sets and the apps that declare jobs, with the author of the last apply and if it was finished."""
        return answer([SetState.made(each) for each in await self._service(request).sets.list()])

    async def show(self, request: Request, name: str) -> Response:
        """Return one set."""
        (found,) = await self._service(request).sets.list(name)
        return answer(SetState.made(found))

    async def apply(self, request: Request, name: str, body: SetRequest) -> Response:
        """Make a set equal to the body: jobs, calendars, pauses, limits. All is checked before the first change."""
        jobs: dict[str, Any] = {}
        for place, fields in enumerate(body.jobs):
            job_id, field = fields.get("id"), f"jobs[{place}].id"
            if not isinstance(job_id, str) or job_id in jobs:
                message = f"{field}: each job needs an id of its own"
                raise InvalidInput(message, field=field, value=job_id, allowed="a text that no other job has")
            jobs[job_id] = {name: value for name, value in fields.items() if name != "id"}
        rest: dict[str, Any] = {each: getattr(body, each) for each in SetRequest.__struct_fields__ if each != "jobs"}
        return answer(await self._service(request).sets.apply(name, jobs, **rest))
