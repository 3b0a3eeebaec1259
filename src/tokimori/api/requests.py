"""Requests and answers of several parts of the API: for runs, for pauses, without words, and of deletions."""

from operator import attrgetter
from typing import Any

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from tokimori.api.answers import answer, first_said
from tokimori.api.request_service import principal_of
from tokimori.model.cause import HEADER, traceparent_in
from tokimori.service.definitions.requests import Became, RequestedRun
from tokimori.service.doors.idempotency import made_under
from tokimori.service.service import Service
from tokimori.service.views.runs import RequestedRun as RequestedRunView

IDEMPOTENCY_KEY = "idempotency-key"
"""The header by which a request that is sent again is known."""


class NoRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A body without fields."""


class NamedDeleted(Struct, frozen=True, kw_only=True):
    """The thing of this name that was deleted."""

    name: str
    deleted: bool


class PauseRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Reason of a pause; `now`: its running runs are cancelled."""

    reason: str | None = None
    now: bool = False


class TriggerRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request for a run: now, or `at` a moment (RFC 3339; without an offset a time in the job's zone).

    A repeated `key` returns the same run of the job. `priority` is by default that of the job. `parent` is the run
    whose code sends the request. `force`: even if the job is paused or parked. `debounce`, `throttle` (seconds, or
    `1h30m`) and `replace` let runs share the key. `unique` (`until_start` or `until_end`): so long there is one run of
    the key (without one: of the payload); `on_duplicate` is `same`, `refuse` (409, `duplicate`) or `replace`, which
    `in_place_of` (a run's id and its payload) makes safe. `expires`: a run that has not begun by then is skipped.
    `traceparent` (W3C Trace Context) goes before the header of this name. `then` are runs
    that follow: objects with a new UUID as `id`, `job`, and perhaps `payload`, `on_failure`, `joins` and `then`.
    """

    key: str | None = None
    payload: str | dict[str, Any] | list[Any] | None = None
    at: str | None = None
    priority: int | None = None
    parent: str | None = None
    force: bool = False
    debounce: float | str | None = None
    throttle: float | str | None = None
    replace: bool = False
    concurrency_key: str | None = None
    traceparent: str | None = None
    unique: str | None = None
    on_duplicate: str | None = None
    in_place_of: tuple[str | None, str | None] | None = None
    expires: str | None = None

    then: list[Any] = []

    def arguments(self) -> dict[str, Any]:
        """Return the request as the service takes it."""
        return dict(zip(TriggerRequest.__struct_fields__, _arguments(self), strict=True))


_arguments = attrgetter(*TriggerRequest.__struct_fields__)


class RunRequest(TriggerRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request for a run of the job `job_id`: see `TriggerRequest`."""

    job_id: str


async def ask(request: Request, service: Service, job_id: str, wanted: TriggerRequest) -> Response:
    """Ask for a run. The response is 201 with the path of a new run, or 200 with the run that answers."""
    fields = wanted.arguments()
    fields["key"] = await key_of(request, service, wanted, wanted.key)
    fields["traceparent"] = wanted.traceparent or traceparent_in(first_said(request.scope, HEADER.encode()))
    return requested(await service.jobs.request(job_id, **fields))


def requested(asked: RequestedRun) -> Response:
    """Return the response to a request for a run."""
    status = 201 if asked.became is Became.MADE else 200
    return answer(RequestedRunView.made(asked), status, location=f"/api/v2/runs/{asked.run.id}")


async def made_once(request: Request, service: Service, said: object) -> str | None:
    """Return the key under which what this request asks for is made, if its sender has put a key on it."""
    header = first_said(request.scope, IDEMPOTENCY_KEY.encode())
    if header is None:
        return None
    return await made_under(service, principal_of(request), header, [request.method, request.url.path, said])


async def key_of(request: Request, service: Service, body: Struct, key: str | None) -> str | None:
    """Return the key of the run: that of the body, which is the job's, or else the one of the request."""
    made = await made_once(request, service, body)
    return made if key is None else key
