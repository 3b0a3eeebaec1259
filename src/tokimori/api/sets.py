"""The paths under `/api/v2/sets`: jobs that files declare together."""

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from tokimori.api.acting import ServiceFor
from tokimori.api.answers import answer
from tokimori.api.jobs import EXAMPLE, NewJob
from tokimori.api.operation import Operation
from tokimori.errors import InvalidInput
from tokimori.service.asking import MOST_LISTED
from tokimori.service.sets import Applied


class SetRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The jobs that the set is to have, each as `job_add` takes it, with an `id`; the rest as `tokimori apply` has it.

    `prune` deletes jobs of the set that are not among them; `take_over` changes jobs of others, too, and what was
    edited by hand; with `dry_run` nothing is changed.
    """

    jobs: Annotated[tuple[dict[str, Any], ...], Meta(max_length=MOST_LISTED)]
    prune: bool = False
    take_over: bool = False
    dry_run: bool = False


class WholeSet(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The jobs that the set is to have, each with an `id`."""

    jobs: Annotated[tuple[NewJob, ...], Meta(max_length=MOST_LISTED)]
    prune: bool = False
    take_over: bool = False
    dry_run: bool = False


class Sets:
    """The part of the API for sets of jobs."""

    def __init__(self, service: ServiceFor) -> None:
        self._service = service

    def operations(self) -> Sequence[Operation]:
        """The operations of this part."""
        example = {"jobs": [EXAMPLE], "dry_run": True}
        path = "/api/v2/sets/{name}"
        return [Operation("set_apply", "PUT", path, self.apply, Applied, sent=WholeSet, example=example)]

    async def apply(self, request: Request, body: SetRequest) -> Response:
        """Make the jobs of a set those that are sent; all are checked before any is changed."""
        jobs: dict[str, Any] = {}
        for place, fields in enumerate(body.jobs):
            job_id, field = fields.get("id"), f"jobs[{place}].id"
            if not isinstance(job_id, str) or job_id in jobs:
                message = f"{field}: each job needs an id of its own"
                raise InvalidInput(message, field=field, value=job_id, allowed="a text that no other job has")
            jobs[job_id] = {name: value for name, value in fields.items() if name != "id"}
        name = request.path_params["name"]
        how = {"prune": body.prune, "take_over": body.take_over, "dry_run": body.dry_run}
        return answer(await self._service(request).apply(name, jobs, **how))
