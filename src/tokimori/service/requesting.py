"""Requests for runs, as they are kept: what jobs are triggered and runs repeated by."""

from collections.abc import Sequence

from msgspec import Struct

from tokimori.errors import StoreUnavailable, TokimoriError
from tokimori.model.ids import JobId, RunId, check_job_id, check_uuid, uuid7
from tokimori.model.job import Job
from tokimori.model.run import Run
from tokimori.model.sizes import check_reason
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.store import RunFilter, Store
from tokimori.service.arguments import Payload, PlainRequest, RequestArguments
from tokimori.service.asking import cancel_all, cancel_run, retried
from tokimori.service.definitions import check_readable
from tokimori.service.family import check_inherited
from tokimori.service.ground import Caller, Ground
from tokimori.service.many import after, batches, read_many, requested_runs
from tokimori.service.requests import Asked, Request, became, manner_of, read_request, requested_run
from tokimori.service.store_time import Now

MOST_CANCELLED = 100
"""So many runs of a job are cancelled by one request: each is a transaction of its own."""
_LIVE = frozenset(RunState) - ENDS


class CancelledRuns(Struct, frozen=True, kw_only=True):
    """Number of `cancelled` runs. Ask again with `next` as `before` to go on; None: that was all."""

    cancelled: int
    next: RunId | None = None


async def cancel_some(store: Store, now: Now, job: Job, reason: str, before: str | None) -> CancelledRuns:
    """Cancel the newest runs of a job that have not ended: see `Jobs.cancel_some`."""
    check_reason("reason", reason)
    behind = None if before is None else RunId(check_uuid(before, field="before"))
    live = RunFilter(job_id=job.id, states=_LIVE, before=behind, limit=MOST_CANCELLED, longest=0)
    runs = await store.list_runs(live)
    own = [run for run in runs if run.incarnation == job.incarnation]
    cancelled = await cancel_all(lambda run_id, why: cancel_run(store, now, run_id, why), own, reason)
    return CancelledRuns(cancelled=cancelled, next=runs[-1].id if len(runs) == MOST_CANCELLED else None)


class RunRequests:
    """Requests of a caller for runs."""

    def __init__(self, ground: Ground, caller: Caller) -> None:
        self._store, self._now, self._random = ground.store, ground.now, ground.random
        self._caller = caller

    async def wanted(
        self, job_id: str, key: str | None, payload: Payload | None, fields: RequestArguments
    ) -> tuple[Request, Job, Run]:
        """Return the request that these arguments say, its job, and the run that it would make: nothing is kept yet."""
        fields.setdefault("parent", self._caller.parent())
        fields.setdefault("traceparent", self._caller.traceparent())
        request = read_request(key, payload, fields)
        now = await self._now()
        job = await self._store.get_job(check_job_id(job_id))
        check_readable(job.definition)
        return request, job, requested_run(job, request, RunId(uuid7(now, self._random)), now, self._caller.author)

    async def keep(self, request: Request, run: Run) -> Asked:
        """Keep the run; what became of the request."""
        await check_inherited(self._store, run.job_id, [run.payload])
        manner = manner_of(request, run.created)
        found = await retried(lambda: self._store.add_run(run, run.created, manner), StoreUnavailable)
        return Asked(run=found, became=became(request, run.id, found))

    async def keep_many(self, job_id: str, requests: Sequence[PlainRequest], parent: str | None) -> Sequence[Run]:
        """Keep many runs of a job, some hundred at a time; the runs that answer."""
        checked_id, by = check_job_id(job_id), self._caller.parent() if parent is None else parent
        wanted = read_many(requests, by, self._caller.traceparent())
        answers: list[Run] = []
        for batch in batches(wanted):
            try:
                answers += await self._keep_together(checked_id, batch)
            except TokimoriError as fault:
                raise after(len(answers), wanted, fault) from None
        return answers

    async def _keep_together(self, job_id: JobId, batch: Sequence[tuple[int, Request]]) -> list[Run]:
        now = await self._now()
        job = await self._store.get_job(job_id)
        check_readable(job.definition)
        runs, origins = requested_runs(job, batch, self._random, now, self._caller.author)
        await check_inherited(self._store, job_id, [run.payload for run in runs])
        found = await retried(lambda: self._store.add_runs(runs, now), StoreUnavailable)
        by_origin = {run.origin: kept for run, kept in zip(runs, found, strict=True)}
        return [by_origin[origin] for origin in origins]
