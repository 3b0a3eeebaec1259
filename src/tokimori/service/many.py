"""Many requests at once: they are read before any is kept, and kept some hundred at a time. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from tokimori.clock import Moment
from tokimori.errors import InvalidInput, TokimoriError
from tokimori.model.ids import RandomBytes, RunId, check_uuid, uuid7
from tokimori.model.job import Job
from tokimori.model.run import Run
from tokimori.model.trace import check_traceparent
from tokimori.service.arguments import PlainRequest, RequestArguments
from tokimori.service.given import many
from tokimori.service.requests import Request, read_request, requested_run

MOST_TOGETHER, MOST_CHARACTERS = 500, 2**18
"""So many requests, or with so long payloads, are kept in one transaction: others wait meanwhile."""
_NAMES = tuple(PlainRequest.__annotations__)


def read_many(requests: object, parent: str | None, traceparent: str | None = None) -> list[Request]:
    """Return these requests; `parent` and `traceparent` are for requests which name none.

    Raises `InvalidInput`.
    """
    if parent is not None:
        check_uuid(parent, field="parent")
    said = {"parent": parent, "traceparent": check_traceparent(traceparent)}
    return [_read(number, each, said) for number, each in enumerate(many("requests", requests, "requests"))]


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
    """Yield the requests with their numbers, so many at a time as are kept together."""
    batch: list[tuple[int, Request]] = []
    length = 0
    for number, request in enumerate(requests):
        size = len(request.payload or "")
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
