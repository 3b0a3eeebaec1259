"""The page at `/`. It is rendered here, and a small script keeps it up to date; there is no build step."""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from http import HTTPStatus
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from tokimori.clock import Clock
from tokimori.errors import Bug, NotFound, TokimoriError
from tokimori.service.reasons import name_of
from tokimori.service.service import Service
from tokimori.web.content import content
from tokimori.web.view import View

KINDS = {"tokimori.css": "text/css", "tokimori.js": "text/javascript", "tokimori.svg": "image/svg+xml"}
_FOR_EVER = {"cache-control": "public, max-age=31536000, immutable"}


class Page:
    """The page and its files. `service_for` gives the service as the sender of a request may use it.

    All addresses in it begin with `path_prefix`.
    """

    def __init__(self, service_for: Callable[[Request], Service], clock: Clock, path_prefix: str = "") -> None:
        self._service_for = service_for
        self._clock = clock
        self._files = {name: files("tokimori.web").joinpath("static", name).read_bytes() for name in KINDS}
        self._templates = Environment(
            loader=PackageLoader("tokimori.web"), autoescape=True, undefined=StrictUndefined, auto_reload=False
        )
        self._templates.trim_blocks = self._templates.lstrip_blocks = True
        self._templates.globals |= {"static": self._address, "root": path_prefix, "name_of": name_of}
        self._root = path_prefix
        self._compiled: asyncio.Future[None] | None = None

    def _compile(self) -> None:
        for name in self._templates.list_templates():
            self._templates.get_template(name)

    def _ready(self) -> "asyncio.Future[None]":
        """Compile the templates beside the loop, which that would hold up; most nodes are asked for no page."""
        if self._compiled is None or (self._compiled.done() and self._compiled.exception() is not None):
            self._compiled = asyncio.ensure_future(asyncio.to_thread(self._compile))
        return asyncio.shield(self._compiled)

    def routes(self) -> Sequence[Route]:
        """Return the paths of the page and its files."""
        return [Route("/", self.show), Route("/static/{name}", self.file)]

    async def show(self, request: Request) -> Response:
        """Return the page."""
        query = request.query_params
        view = View(*(query.get(name) or None for name in View._fields))
        async with request.app.state.line:  # with lists of the API
            await self._ready()
            try:
                shown = await content(self._service_for(request), self._clock, view)
            except Bug:
                raise
            except TokimoriError as error:
                return self._render("error.html", error.status, error=error)
            return self._render("page.html", 200, page=shown, view=view, host=request.headers["host"])

    def lost(self, request: Request) -> Response:
        """For a browser at a path that there is not."""
        error = NotFound(
            f"there is no page at {self._root}{request.url.path}", allowed=f"{self._root}/, with ?job=ID or ?run=ID"
        )
        return self._render("error.html", 404, error=error)

    def closed(self, status: int, message: str) -> Response:
        """For a browser that is not let in. It needs no file of the page: those are for who is let in."""
        return self._render(
            "closed.html", status, message=message, has_come_from_elsewhere=status == HTTPStatus.FORBIDDEN
        )

    async def file(self, request: Request) -> Response:
        """Return a file of the page: a style, a script or a picture."""
        name: str = request.path_params["name"]
        if name not in KINDS:
            return PlainTextResponse("there is no such file", 404)
        return Response(self._files[name], media_type=KINDS[name], headers=_FOR_EVER)

    def _address(self, name: str) -> str:
        """Return the path of a file. It differs for other bytes, so that browsers can keep the file for ever."""
        return f"{self._root}/static/{name}?{hashlib.sha256(self._files[name]).hexdigest()[:12]}"

    def _render(self, template: str, status: int, **values: object) -> Response:
        return HTMLResponse(self._templates.get_template(template).render(values), status)
