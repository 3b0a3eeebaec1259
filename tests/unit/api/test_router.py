"""Which route answers."""

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

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
    ],
)
async def test_the_same_route_answers_as_starlettes(method: str, path: str, status: int, text: str) -> None:
    """The first one of that path and method; what is wrong is told as Starlette tells it."""
    answer = await Asker(DirectRouter(ROUTES)).ask(method, path)
    assert (answer.status, answer.body.decode()) == (status, text)
