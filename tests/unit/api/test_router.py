"""Which route answers."""

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, Router

from tests.unit.api.asgi import Asker
from tokimori.api.router import DirectRouter


def route(path: str, name: str, method: str = "GET") -> Route:
    async def tell(request: Request) -> Response:
        return PlainTextResponse(f"{name} {request.path_params}")

    return Route(path, tell, methods=[method])


ROUTES = [
    route("/a", "first"),
    route("/a", "second"),
    route("/a", "post", "POST"),
    route("/b/plain", "plain"),
    route("/b/{id}", "id"),
    route("/api/v2/b/{id}/c", "below"),
    route("/api/v2/{kind}/x", "kind"),
    route("/api/v2/b/{id}", "of b"),
    route("/api/v2/b/{id}", "change", "PUT"),
    route("/api/v2/d/{id}", "of d"),
]


@pytest.mark.parametrize(
    ("method", "path", "status", "text"),
    [
        ("GET", "/a", 200, "first {}"),
        ("HEAD", "/a", 200, "first {}"),
        ("POST", "/a", 200, "post {}"),
        ("PUT", "/a", 405, "Method Not Allowed"),
        ("GET", "/b/plain", 200, "plain {}"),
        ("GET", "/b/x", 200, "id {'id': 'x'}"),
        ("GET", "/c", 404, "Not Found"),
        ("GET", "/api/v2/b/1/c", 200, "below {'id': '1'}"),
        ("GET", "/api/v2/b/x", 200, "kind {'kind': 'b'}"),
        ("GET", "/api/v2/e/x", 200, "kind {'kind': 'e'}"),
        ("HEAD", "/api/v2/b/1", 200, "of b {'id': '1'}"),
        ("PUT", "/api/v2/b/x", 200, "change {'id': 'x'}"),
        ("GET", "/api/v2/d/1", 200, "of d {'id': '1'}"),
        ("POST", "/api/v2/d/1", 405, "Method Not Allowed"),
        ("GET", "/api/v2/d/1/e", 404, "Not Found"),
    ],
)
async def test_the_same_route_answers_as_starlettes(method: str, path: str, status: int, text: str) -> None:
    """The first one of that path and method; what is wrong is told as Starlette tells it."""
    for router in (Router(ROUTES), DirectRouter(ROUTES)):
        answer = await Asker(router).ask(method, path)
        assert (answer.status, answer.body.decode()) == (status, text)
