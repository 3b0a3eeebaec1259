"""Requests of runs, as `/api/v2/jobs/{id}/trigger` and `/api/v2/runs` take and answer them."""

from typing import Any

from msgspec import Struct
from starlette.responses import Response

from tokimori.api.answers import answer
from tokimori.service.requests import Became
from tokimori.service.service import Service
from tokimori.service.views.runs import run_view


class TriggerRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run that somebody wants: the fields of `tokimori.service.requests.Request`."""

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
        """The same, as the service takes it."""
        return {name: getattr(self, name) for name in TriggerRequest.__struct_fields__}


class RunRequest(TriggerRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same, with the job of which it is asked."""

    job_id: str


async def ask(service: Service, job_id: str, wanted: TriggerRequest) -> Response:
    """Ask for a run: 201 and where it is, if there is a new one; else 200 and the run that answers."""
    asked = await service.ask(job_id, **wanted.arguments())
    status = 201 if asked.became is Became.MADE else 200
    return answer(run_view(asked.run, became=asked.became), status, location=f"/api/v2/runs/{asked.run.id}")
