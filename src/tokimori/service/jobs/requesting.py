"""Requests for runs, checked and stored: triggers of jobs, and repetitions of runs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.errors import InvalidInput, StoreUnavailable, TokimoriError
from tokimori.model.cause import check_traceparent
from tokimori.model.ids import JobId, RandomBytes, RunId, check_job_id, check_uuid, uuid7
from tokimori.model.job import Job
from tokimori.model.request import Unique, shared_prefix
from tokimori.model.run import Run
from tokimori.model.sizes import check_reason
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.store import RunFilter, Store
from tokimori.service.definitions.arguments import Payload, PlainRequest, RequestArguments
from tokimori.service.definitions.definitions import check_readable
from tokimori.service.definitions.requests import (
    Became,
    Request,
    RequestedRun,
    became,
    manner_of,
    read_request,
    requested_run,
)
from tokimori.service.definitions.steps import all_in, check_moment
from tokimori.service.jobs.family import check_inherited
from tokimori.service.shared import Caller, Shared
from tokimori.service.store_calls import Now, cancel_all, cancel_run, retried
from tokimori.service.validation import many

MOST_TOGETHER, MOST_CHARACTERS = 500, 2**18
"""Number of requests stored in one transaction, and length of their payloads: others wait meanwhile."""
_NAMES = tuple(PlainRequest.__annotations__)


def read_many(requests: object, parent: str | None, traceparent: str | None = None) -> list[Request]:
    """Return these requests, checked. `parent` and `traceparent` are for requests that name none.

    Raises `InvalidInput`.
    """
    if parent is not None:
        check_uuid(parent, field="parent")
    common = {"parent": parent, "traceparent": check_traceparent(traceparent)}
    return [_read(number, each, common) for number, each in enumerate(many("requests", requests, "requests"))]


def _read(number: int, given: object, usual: Mapping[str, str | None]) -> Request:
    allowed = f"a dict with some of {', '.join(_NAMES)}"
    if not isinstance(given, Mapping):
        message = f"requests: number {number} is {given!r}, and no request"
        raise InvalidInput(message, field="requests", value=given, allowed=allowed)
    if unknown := [name for name in given if name not in _NAMES]:
        message = f"requests: number {number} says {unknown[0]!r}, which one of many can't say"
        raise InvalidInput(message, field="requests", value=given[unknown[0]], allowed=allowed)
    rest = {**usual, **{name: given[name] for name in given if name not in ("key", "payload")}}
    try:
        return read_request(given.get("key"), given.get("payload"), cast("RequestArguments", rest))
    except InvalidInput as fault:
        raise numbered(number, fault) from None


def numbered(number: int, fault: InvalidInput) -> InvalidInput:
    """Return the fault of one of many requests."""
    message = f"requests: number {number}: {fault.message}"
    return InvalidInput(message, field="requests", value=fault.value, allowed=fault.allowed)


def batches(requests: Sequence[Request]) -> Iterator[Sequence[tuple[int, Request]]]:
    """Yield the numbered requests in batches that are stored together."""
    batch: list[tuple[int, Request]] = []
    length = 0
    for number, request in enumerate(requests):
        size = len(request.payload or "") + sum(len(step.payload or "") + 200 for step in all_in(request.then))
        if batch and (len(batch) == MOST_TOGETHER or length + size > MOST_CHARACTERS):
            yield batch
            batch, length = [], 0
        batch.append((number, request))
        length += size
    if batch:
        yield batch


def requested_runs(
    job: Job, batch: Sequence[tuple[int, Request]], random: RandomBytes, now: Moment, by: str | None
) -> tuple[list[Run], list[str]]:
    """Return the runs for which `by` asks, one for each key, and the origin of each request's. Raises `InvalidInput`.

    Those of one moment are claimed in the order of their ids.
    """
    runs: dict[str, Run] = {}
    origins = []
    for (number, request), run_id in zip(batch, sorted(uuid7(now, random) for _ in batch), strict=True):
        try:
            run = requested_run(job, request, RunId(run_id), now, by)
        except InvalidInput as fault:
            raise numbered(number, fault) from None
        runs.setdefault(run.origin, run)
        origins.append(run.origin)
    return list(runs.values()), origins


def after(made: int, requests: Sequence[object], fault: TokimoriError) -> TokimoriError:
    """Return the error that ends many requests, which says how many of them have their runs."""
    if not made:
        return fault
    message = f"{fault.message}; the first {made} of {len(requests)} requests have their runs"
    return type(fault)(message, field=fault.field, value=fault.value, allowed=fault.allowed)


MOST_CANCELLED = 100
"""Number of runs of a job cancelled by one request: each is a transaction of its own."""
_LIVE = frozenset(RunState) - ENDS


class CancelledRuns(Struct, frozen=True, kw_only=True):
    """Number of `cancelled` runs. Call again with `next` as `before` to go on; None: there are no more."""

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

    def __init__(self, shared: Shared, caller: Caller) -> None:
        self._store, self._now, self._random = shared.store, shared.now, shared.random
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
        if request.then:
            await self._check_steps([request], now)
        return request, job, requested_run(job, request, RunId(uuid7(now, self._random)), now, self._caller.author)

    async def _check_steps(self, requests: Sequence[Request], now: Moment) -> None:
        """Raise `NotFound` if a step's job does not exist, and `InvalidInput` if its id was not made about now."""
        steps = [step for request in requests for step in all_in(request.then)]
        for step in steps:
            check_moment(step, now)
        for job_id in sorted({step.job for step in steps}):
            await self._store.get_job(job_id)

    async def store(self, request: Request, run: Run) -> RequestedRun:
        """Store the run, and return the outcome of the request."""
        await check_inherited(self._store, run.job_id, [run.payload])
        manner = manner_of(request, run.created)
        found = await retried(lambda: self._store.add_run(run, run.created, manner), StoreUnavailable)
        return RequestedRun(run=found, became=became(request, run.id, found))

    async def store_again(self, request: Request, run: Run, old: Run) -> RequestedRun:
        """Store a run that repeats another one. If a third one holds their key both go on, and that is noted."""
        if old.details.unique is None or request.key is not None:
            return await self.store(request, run)
        repetition = replace(request, unique=Unique(old.details.unique))
        details = replace(run.details, unique=old.details.unique)
        asked = await self.store(repetition, replace(run, origin=f"{shared_prefix(old)}{run.id}", details=details))
        if asked.became is Became.MADE:
            return asked
        return await self.store(request, replace(run, details=replace(run.details, beside=asked.run.id)))

    async def store_many(self, job_id: str, requests: Sequence[PlainRequest], parent: str | None) -> Sequence[Run]:
        """Store many runs of a job, some hundred at a time, and return the runs that answer."""
        checked_id, by = check_job_id(job_id), self._caller.parent() if parent is None else parent
        wanted = read_many(requests, by, self._caller.traceparent())
        answers: list[Run] = []
        for batch in batches(wanted):
            try:
                answers += await self._store_together(checked_id, batch)
            except TokimoriError as fault:
                raise after(len(answers), wanted, fault) from None
        return answers

    async def _store_together(self, job_id: JobId, batch: Sequence[tuple[int, Request]]) -> list[Run]:
        now = await self._now()
        job = await self._store.get_job(job_id)
        check_readable(job.definition)
        await self._check_steps([request for _, request in batch], now)
        if any(request.unique is not None for _, request in batch):
            return [await self._store_one(job, *each, now) for each in batch]
        runs, origins = requested_runs(job, batch, self._random, now, self._caller.author)
        await check_inherited(self._store, job_id, [run.payload for run in runs])
        found = await retried(lambda: self._store.add_runs(runs, now), StoreUnavailable)
        by_origin = {run.origin: kept for run, kept in zip(runs, found, strict=True)}
        return [by_origin[origin] for origin in origins]

    async def _store_one(self, job: Job, number: int, request: Request, now: Moment) -> Run:
        ((run,), _) = requested_runs(job, [(number, request)], self._random, now, self._caller.author)
        return (await self.store(request, run)).run
