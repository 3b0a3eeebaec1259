"""The HTTP door as one ASGI application."""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus

from msgspec import Struct
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp

from tokimori.api.alarms import Alarms
from tokimori.api.answers import RefusalPage, answer, error_answer, is_browser, refusal
from tokimori.api.audit import AuditRoutes
from tokimori.api.bulk import BulkRoutes
from tokimori.api.calendars import CalendarRoutes
from tokimori.api.callbacks import AcceptCallback, CallbackDoor, refuse_callback
from tokimori.api.calls import Calls
from tokimori.api.channels import ChannelRoutes
from tokimori.api.claims import ClaimPaths
from tokimori.api.docs import Docs
from tokimori.api.events import DEFAULT_STREAMS, EventRoutes
from tokimori.api.exchange import Exchange, Formats
from tokimori.api.guards import STRICT, Lenient, guarded
from tokimori.api.jobs import JobRoutes
from tokimori.api.logs import Logs
from tokimori.api.metrics import Figures, MetricsPath
from tokimori.api.nodes import NodeRoutes
from tokimori.api.notifiers import Notifiers
from tokimori.api.occurrences import Occurrences
from tokimori.api.operation import Operation, Routes
from tokimori.api.queues import QueueRoutes
from tokimori.api.request_service import Acting, AuthorOf, ClaimsFor, ServiceFor, author_said
from tokimori.api.router import DirectRouter, PathPrefix
from tokimori.api.runs import RunRoutes
from tokimori.api.schedules import ScheduleRoutes
from tokimori.api.secret import Secrets
from tokimori.api.secrets import SecretRoutes
from tokimori.api.semaphores import SemaphoreRoutes
from tokimori.api.sets import Sets
from tokimori.api.tasks import TaskRoutes
from tokimori.api.tokens import TokenRoutes
from tokimori.api.turns import MOST_LARGE
from tokimori.clock import Clock
from tokimori.errors import Bug, StoreError, TokimoriError
from tokimori.model.rate import Rate
from tokimori.service.doors.job_restrictions import UNRESTRICTED, JobRestrictions
from tokimori.service.doors.sessions import sessions_of
from tokimori.service.service import Service
from tokimori.service.tokens import Guests, holders_of, nobody
from tokimori.service.validation import OF_A_DOOR

log = logging.getLogger(__name__)

PARTS: Sequence[type[Routes]] = (
    *(JobRoutes, Occurrences, RunRoutes, Logs, ScheduleRoutes, CalendarRoutes, SemaphoreRoutes, QueueRoutes, Sets),
    *(NodeRoutes, TokenRoutes, SecretRoutes, AuditRoutes, TaskRoutes, Alarms, ChannelRoutes, Notifiers, BulkRoutes),
)
"""The parts of the API; each has its own operations."""


class Readiness(Struct, frozen=True, kw_only=True):
    """Readiness of a node for new work: `status` is `ready`, or says why not; `alive` of one that answers at all."""

    status: str


class Health(Struct, frozen=True, kw_only=True):
    """The health of a node: `status` is `ok`, or names the fault."""

    status: str
    node_id: str
    store_reachable: bool
    version: str


def create_app(
    service: Service,
    clock: Clock,
    *,
    interface: str,
    secret: Secrets,
    health: Callable[[], Health],
    unready: Callable[[], str | None] = lambda: None,
    pages: Sequence[BaseRoute] = (),
    lost: Callable[[Request], Awaitable[Response]] | None = None,
    closed: RefusalPage | None = None,
    host_name: str | None = None,
    public_url: str | None = None,
    author_of: AuthorOf | None = None,
    accept: AcceptCallback = refuse_callback,
    guests: Guests = nobody,
    formats: Formats | None = None,
    figures: Figures | None = None,
    lenient: Lenient = STRICT,
    allowed: JobRestrictions = UNRESTRICTED,
    rate: Rate | None = None,
    path_prefix: str = "",
    streams: int = DEFAULT_STREAMS,
) -> ASGIApp:
    """Return the HTTP server of a node on the interface: probes such as `/readyz`, `/api/v2`, pages, foreign APIs.

    All paths but the first two are behind all guards: a request needs the secret or a token, a callback (`accept`) its
    signature; `lenient` says where less is needed. Orders are recorded under the name of the token,
    or under the author that `author_of` gives. Workers elsewhere take runs if the service has a place for them;
    jobs come and go in foreign `formats`, and `figures` are served at `/metrics`. `lost` answers a browser that asks
    for a page that there is not, `closed` one that is not let in. `unready` says why nothing new should be sent
    here. `public_url` is how others know a proxy before the door. `allowed` says what jobs may do that come through
    this door, `rate` how often each client may ask, `path_prefix` below which path others know it, `streams` how
    many streams of events may be open.
    """
    acting = Acting(service.within_bounds(OF_A_DOOR), author_of or author_said(), allowed)
    own = None if service._shared.place is None else acting.claims
    offered = [*_probes(health, unready), *operations(acting.service, own, formats, streams)]
    offered += [] if figures is None else MetricsPath(acting.service, figures).operations()
    docs = Docs(offered, lambda: health().version, path_prefix)
    handlers = {TokimoriError: _on_error, HTTPException: _on_http_errors(lost), Exception: _on_bug}
    app = Starlette(exception_handlers=handlers)
    app.router = DirectRouter([*docs.routes(), *Calls(acting.service, has_claims=own is not None).routes(), *pages])
    app.state.line = asyncio.Semaphore(MOST_LARGE)
    door = guarded(
        app,
        clock=clock,
        interface=interface,
        host_name=host_name or socket.gethostname(),
        public_url=public_url,
        secret=secret,
        holders=holders_of(service.tokens, clock, guests),
        sessions=sessions_of(service, clock),
        closed=closed,
        lenient=lenient,
        rate=rate,
        beside=lambda inner: CallbackDoor(inner, accept, service),
        is_answered=lambda scope: any(route.matches(scope)[0] is Match.FULL for route in app.routes),
    )
    return PathPrefix(door, path_prefix) if path_prefix else door


def _probes(health: Callable[[], Health], unready: Callable[[], str | None]) -> Sequence[Operation]:
    """Return the operations of load balancers, which are open to everybody."""

    async def show(request: Request) -> Response:
        """Return whether the node works; everybody may ask."""
        return answer(state := health(), 200 if state.status == "ok" else 503)

    async def show_readiness(request: Request) -> Response:
        """Return whether the node takes part and does not stop, and so may get new requests; everybody may ask."""
        why = unready()
        return answer(Readiness(status=why or "ready"), 503 if why else 200)

    async def show_life(request: Request) -> Response:
        """Return that the node answers, whatever its store does; everybody may ask."""
        return answer(Readiness(status="alive"))

    ill = {503: "the node does not work as it should"}
    busy = {503: "nothing new should be sent here; `status` says why"}
    return [
        Operation("health", "GET", "/healthz", show, Health, others=ill, open=True),
        Operation("liveness", "GET", "/livez", show_life, Readiness, open=True),
        Operation("readiness", "GET", "/readyz", show_readiness, Readiness, others=busy, open=True),
    ]


def operations(
    service: ServiceFor, claims: ClaimsFor | None, formats: Formats | None, streams: int = DEFAULT_STREAMS
) -> Sequence[Operation]:
    """Return the operations of `/api/v2`. Claims and foreign formats are there as far as they are given."""
    found = [each for part in PARTS for each in part(service).operations()]
    found += EventRoutes(service, streams).operations()
    if formats is not None:  # before `/jobs/{job_id}`, of which its paths are no examples
        found = [*Exchange(service, formats).operations(), *formats.imports(service), *found]
    return found if claims is None else [*found, *ClaimPaths(claims).operations()]


async def _on_error(request: Request, error: Exception) -> Response:
    """Answer an error of ours. Those that only we can mend are in the log, with all that leads to them."""
    assert isinstance(error, TokimoriError)  # noqa: S101 Starlette chose it by its type
    if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR and not isinstance(error, StoreError):
        log.error("%s %s failed", request.method, request.scope["path"], exc_info=error)
    return error_answer(error)


def _on_http_errors(
    lost: Callable[[Request], Awaitable[Response]] | None,
) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def on_http_error(request: Request, error: Exception) -> Response:
        is_lost = isinstance(error, HTTPException) and error.status_code == HTTPStatus.NOT_FOUND
        if lost is not None and is_lost and is_browser(request):
            return await lost(request)
        return await _on_http_error(request, error)

    return on_http_error


async def _on_http_error(request: Request, error: Exception) -> Response:
    """Answer a request that Starlette itself refuses: an unknown path, or a method that the path lacks."""
    assert isinstance(error, HTTPException)  # noqa: S101 Starlette chose it by its type
    status = HTTPStatus(error.status_code)
    where = f"{request.method} {request.url.path}"
    allowed = _allowed(request) if status is HTTPStatus.METHOD_NOT_ALLOWED else None
    response = refusal(status, status.name.lower(), f"{where}: {status.phrase.lower()}", allowed=allowed)
    response.headers.update(error.headers or {})
    if allowed is not None:
        response.headers["allow"] = allowed
    return response


def _allowed(request: Request) -> str:
    """Return the methods of all routes of this path: Starlette names those of the first one."""
    found = (route for route in request.app.routes if route.matches(request.scope)[0] is Match.PARTIAL)
    return ", ".join(sorted({method for route in found for method in route.methods or ()}))


async def _on_bug(_: Request, error: Exception) -> Response:
    """Answer a bug. Starlette raises the error again afterwards, so that it is logged with its traceback."""
    return error_answer(Bug(f"{type(error).__name__}; the node's log says more"))
