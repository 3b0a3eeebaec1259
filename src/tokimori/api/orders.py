"""The paths of orders to all runs of a job."""

from collections.abc import Sequence

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from tokimori.api.acting import ServiceFor
from tokimori.api.answers import answer
from tokimori.api.operation import Operation
from tokimori.api.requests import NoRequest
from tokimori.api.runs import CancelRequest
from tokimori.api.turns import in_steps
from tokimori.service.views.runs import RunView


class RunsCancelled(Struct, frozen=True, kw_only=True):
    """Number of cancelled runs of the job. With `next` as `before` the next request goes on; null: no more are left."""

    job_id: str
    cancelled: int
    next: str | None


class CancelAllRequest(CancelRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Reason of a cancellation of the job's runs that are older than the run `before`."""

    before: str | None = None


class OrderRoutes:
    """The part of the API for orders to all runs of a job."""

    def __init__(self, service: ServiceFor) -> None:
        self._service = service

    def operations(self) -> Sequence[Operation]:
        """Return the operations of this part."""
        job = "/api/v2/jobs/{job_id}"
        why = {"reason": "wrong data"}
        return [
            Operation("job_cancel", "POST", f"{job}/cancel", self.cancel, RunsCancelled, example=why),
            Operation("job_restart", "POST", f"{job}/restart", self.restart, list[RunView], example={}),
        ]

    async def cancel(self, request: Request, body: CancelAllRequest) -> Response:
        """Cancel the newest unfinished runs of a job on every node, at most 100; go on with `next`.

        The job itself goes on.
        """
        job_id = request.path_params["job_id"]
        done = await self._service(request).jobs.cancel_some(job_id, body.reason, body.before)
        return answer(RunsCancelled(job_id=job_id, cancelled=done.cancelled, next=done.next))

    async def restart(self, request: Request, body: NoRequest) -> Response:
        """End the running attempts of a job, at most 1,000; their runs begin anew. Those runs."""
        found = await self._service(request).jobs.restart(request.path_params["job_id"])
        return answer(await in_steps(RunView.made, found))
