"""The way from a path to its route."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from starlette.routing import BaseRoute, Match, Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_COOKIE_PATH: Final = re.compile(rb"(?i)(; *path=)/(?=;|$)")


class PathPrefix:
    """Layer that removes the prefix from the paths of requests, and adds it to our paths in the headers of answers.

    A path without the prefix is accepted too: a proxy may remove it, and a client may call the node directly. The
    headers with paths are `Location`, `Link` and cookies, which so go to no other path of the proxy's host.
    """

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix
        self._bytes = prefix.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def prefixed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [(name, self._headed(name, value)) for name, value in message["headers"]]
            await send(message)

        await self._app({**scope, "path": self._inside(scope["path"])}, receive, prefixed)

    def _inside(self, path: str) -> str:
        rest = path.removeprefix(self._prefix)
        return path if rest and not rest.startswith("/") else rest or "/"

    def _headed(self, name: bytes, value: bytes) -> bytes:
        match name.lower():
            case b"location" if value.startswith(b"/"):
                return self._bytes + value
            case b"link" if value.startswith(b"</"):
                return b"<" + self._bytes + value[1:]
            case b"set-cookie":
                return _COOKIE_PATH.sub(rb"\1" + self._bytes, value)
            case _:
                return value


_Known = tuple[str, str]
"""A method, and a path or the beginning of paths."""


class DirectRouter(Router):
    """Router that finds a path without parameters by a look-up, and compares others with routes that begin so.

    There are over a hundred routes, each a regular expression. Starlette tries one after the other: 27 for a request to
    `/api/v2/runs`, and 20 for one to `/api/v2/jobs/ID`, which took an eighth of its time.
    """

    def __init__(self, routes: Sequence[BaseRoute]) -> None:
        super().__init__(routes)
        plain = [route for route in routes if isinstance(route, Route) and "{" not in route.path]
        self._direct = {(method, route.path): route for route in reversed(plain) for method in route.methods or ()}
        self._near = _by_beginning([route for route in routes if route not in plain])

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        method, path = scope.get("method", ""), scope.get("path", "")
        route = self._direct.get((method, path))
        for each in self._near.get((method, _beginning(path)), ()) if route is None else (route,):
            match, found = each.matches(scope)
            if match is Match.FULL:
                scope.update(found, router=self, route=each)
                await each.handle(scope, receive, send)
                return
        await super().app(scope, receive, send)


def _beginning(path: str) -> str:
    """Return the first three parts of a path, such as `/api/v2/jobs`."""
    return "/".join(path.split("/", 4)[:4])


def _by_beginning(routes: Sequence[BaseRoute]) -> Mapping[_Known, Sequence[BaseRoute]]:
    """Return the routes with parameters in their order, by the beginnings of paths that they may match."""
    fixed = [_beginning(route.path) if isinstance(route, Route) else "{" for route in routes]
    methods = [(isinstance(route, Route) and route.methods) or {"GET", "HEAD"} for route in routes]
    pairs = list(zip(routes, fixed, methods, strict=True))
    known = {(method, begins) for _, begins, allowed in pairs if "{" not in begins for method in allowed}
    return {
        (method, beginning): [
            route for route, begins, allowed in pairs if method in allowed and (begins == beginning or "{" in begins)
        ]
        for method, beginning in known
    }
