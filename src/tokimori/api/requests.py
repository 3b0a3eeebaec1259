"""Requests for runs, as `/api/v2/jobs/{id}/trigger` and `/api/v2/runs` take and answer them."""

from typing import Any

from msgspec import Struct
from starlette.responses import Response

from tokimori.api.answers import answer
from tokimori.service.requests import Became
from tokimori.service.service import Service
from tokimori.service.views.runs import run_view


class TriggerRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request for a run: the fields of `tokimori.service.requests.Request`."""

    key: str | None = None
    payload: str | None = None
    at: str | None = None
    priority: int | None = None
    parent: str | None = None
    force: bool = False
    debounce: float | None = None
    throttle: float | None = None
    replace: bool = False
    concurrency_key: str | None = None

    def arguments(self) -> dict[str, Any]:
        """The request as the service takes it."""
        return {name: getattr(self, name) for name in TriggerRequest.__struct_fields__}


class RunRequest(TriggerRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request for a run of the job `job_id`."""

    job_id: str


async def ask(service: Service, job_id: str, wanted: TriggerRequest) -> Response:
    """Ask for a run. The response is 201 with the path of a new run, or 200 with the run that answers."""
    asked = await service.ask(job_id, **wanted.arguments())
    status = 201 if asked.became is Became.MADE else 200
    return answer(run_view(asked.run, became=asked.became), status, location=f"/api/v2/runs/{asked.run.id}")
