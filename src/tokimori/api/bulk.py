"""The paths of orders for many jobs, many runs, and all runs of a job."""

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from tokimori.api.answers import answer
from tokimori.api.operation import Operation, Routes
from tokimori.api.queries import filters_of
from tokimori.api.requests import NoRequest
from tokimori.api.runs import CancelRequest
from tokimori.api.turns import in_steps
from tokimori.model.job import JobState
from tokimori.model.transitions import RunState
from tokimori.service.bulk import MOST_AT_ONCE, Bulk, JobVerb, RunVerb
from tokimori.service.definitions.arguments import JobFilters, RunFilters
from tokimori.service.validation import MOST_LISTED
from tokimori.service.views.runs import Run


class Order(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Order for many things: those of these filters, `ids` (at most 1,000), or `everything`; `dry_run`: only count."""

    ids: tuple[str, ...] | None = None
    everything: bool = False
    reason: str | None = None
    dry_run: bool = False
    label: tuple[str, ...] = ()
    owner: str | None = None
    queue: str | None = None
    limit: Annotated[int, Meta(ge=1, le=MOST_LISTED)] = MOST_AT_ONCE


class JobOrder(Order, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Order for many jobs, behind the id `after`. With a `key` an order that is repeated triggers no job twice.

    `payload`: that of the runs of a trigger.
    """

    verb: JobVerb
    key: str | None = None
    payload: str | dict[str, Any] | list[Any] | None = None
    state: tuple[JobState, ...] = ()
    prefix: str | None = None
    after: str | None = None


class RunOrder(Order, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Order for many runs, older than the run `before`; the filters are those of the list of runs."""

    verb: RunVerb
    state: tuple[RunState, ...] = ()
    job_id: str | None = None
    job_prefix: str | None = None
    since: str | None = None
    until: str | None = None
    cause: str | None = None
    text: str | None = None
    node: str | None = None
    duration_over: str | None = None
    before: str | None = None


class RunsCancelled(Struct, frozen=True, kw_only=True):
    """Number of cancelled runs of the job. With `next` as `before` the next request goes on; null: no more are left."""

    job_id: str
    cancelled: int
    next: str | None


class CancelAllRequest(CancelRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Reason of a cancellation of the job's runs that are older than the run `before`."""

    before: str | None = None


class BulkRoutes(Routes):
    """The part of the API for orders for many things."""

    def operations(self) -> Sequence[Operation]:
        """Return the operations of this part."""
        jobs = {"verb": "pause", "prefix": "nightly-", "reason": "repairs", "dry_run": True}
        runs = {"verb": "retry", "cause": "exit 3", "dry_run": True}
        job = "/api/v2/jobs/{job_id}"
        why = {"reason": "wrong data"}
        return [
            Operation("job_cancel", "POST", f"{job}/cancel", self.cancel, RunsCancelled, example=why),
            Operation("job_restart", "POST", f"{job}/restart", self.restart, list[Run], example={}),
            Operation("job_bulk", "POST", "/api/v2/bulk/jobs", self.jobs, Bulk, large=True, example=jobs),
            Operation("run_bulk", "POST", "/api/v2/bulk/runs", self.runs, Bulk, large=True, example=runs),
        ]

    async def jobs(self, request: Request, body: JobOrder) -> Response:
        """Pause, resume, trigger or delete the jobs that these filters find, the first 100 by default.

        Each is changed and recorded separately; refused ones stay, and are listed. Go on with `next` as `after`. `undo`
        names the order that reverts this one, with `ids`.
        """
        filters = filters_of(body, JobFilters)
        return answer(
            await self._service(request).jobs.bulk(
                body.verb, key=body.key, payload=body.payload, **_order_fields(body), **filters
            )
        )

    async def runs(self, request: Request, body: RunOrder) -> Response:
        """Cancel, hold, resume or retry the runs that these filters find, the newest 100 by default.

        Without a state the runs are those that the order can change. Otherwise it is like the order for many jobs; go
        on with `next` as `before`.
        """
        filters = filters_of(body, RunFilters)
        return answer(await self._service(request).runs.bulk(body.verb, **_order_fields(body), **filters))

    async def cancel(self, request: Request, job_id: str, body: CancelAllRequest) -> Response:
        """Cancel the newest unfinished runs of a job on every node, at most 100; go on with `next`.

        The job itself goes on.
        """
        done = await self._service(request).jobs.cancel_some(job_id, body.reason, body.before)
        return answer(RunsCancelled(job_id=job_id, cancelled=done.cancelled, next=done.next))

    async def restart(self, request: Request, job_id: str, body: NoRequest) -> Response:
        """End the running attempts of a job, at most 1,000; their runs begin anew. Those runs."""
        found = await self._service(request).jobs.restart(job_id)
        return answer(await in_steps(Run.made, found))


def _order_fields(body: Order) -> dict[str, Any]:
    return {name: getattr(body, name) for name in ("ids", "everything", "reason", "dry_run")}
