"""An operation of the API: it is said once, and both its route and its place in the document come from there."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, get_origin

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from tokimori.api.answers import JSON, read_body
from tokimori.api.queries import NoQuery, read_query
from tokimori.api.request_service import ServiceFor
from tokimori.api.turns import line_of

Handler = Callable[..., Awaitable[Response]]
"""Answers a request. An argument `query` or `body` gets what its annotation says, read and checked; others get what
the path says under their names, or None.
"""
Fields = dict[str, Any]
"""A body that the service itself checks, because it names faults better; `Operation.sent` says what it holds."""
_NOT_IN_PATHS: Final = {"request", "query", "body", "return"}


class _Endpoint:
    """Handler as an app. Of a plain one Starlette looks after the errors twice: as a route, and as the whole app."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        response = await self._handler(Request(scope, receive, send))
        await response(scope, receive, send)


@dataclass(frozen=True, slots=True)
class Operation:
    """Operation: a method at a path. `id` is its name for programs: a noun and a verb.

    `answers` is the type of the answer (`media` if it is no JSON) under `status`; `others` are further statuses that
    are no faults, with their meanings. `headers` may come with the request, and `answered` with the answer. `asked` and
    `example` are the query and the body of an example. An operation that is `open` needs no secret. One whose answer is
    a list, or else `large`, waits in line.
    """

    id: str
    method: str
    path: str
    handler: Handler
    answers: Any
    _: KW_ONLY
    status: int = 200
    others: Mapping[int, str] = field(default_factory=dict)
    media: str = JSON
    sent: Any = None
    headers: tuple[str, ...] = ()
    answered: tuple[str, ...] = ()
    asked: Mapping[str, object] = field(default_factory=dict)
    example: Mapping[str, object] | None = None
    open: bool = False
    large: bool = False

    @property
    def query(self) -> Any:
        """Return the type of its query; None: it has none."""
        return self.handler.__annotations__.get("query")

    @property
    def body(self) -> Any:
        """Return the type of its body, as its handler takes it; None: it has none."""
        return self.handler.__annotations__.get("body")

    def route(self) -> Route:
        """Return the route of the operation."""
        handler, query, body = self.handler, self.query, self.body
        in_path = handler.__annotations__.keys() - _NOT_IN_PATHS
        is_ours = self.path.startswith("/api/")
        waits = self.large or (get_origin(self.answers) is list and self.method == "GET")

        async def answered(request: Request) -> Response:
            given: dict[str, Any] = {name: request.path_params.get(name) for name in in_path}
            if query is not None:
                given["query"] = read_query(request, query)
            elif is_ours and request.scope.get("query_string"):
                read_query(request, NoQuery)  # refuses `?dry_run=true`, which the body should have said
            if body is not None:
                given["body"] = await read_body(request, body)
            if not waits:
                return await handler(request, **given)
            async with line_of(request):
                return await handler(request, **given)

        return Route(self.path, _Endpoint(answered), methods=[self.method])


class Routes:
    """A part of the API: handlers of requests, each with the service as its sender may use it."""

    def __init__(self, service: ServiceFor) -> None:
        self._service = service

    def operations(self) -> Sequence[Operation]:
        """Return the operations of this part."""
        raise NotImplementedError
