"""The page: its screens, its files, and what is done there. All is rendered here; there is no build step."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from importlib.resources import files
from types import MappingProxyType
from typing import Final
from urllib.parse import parse_qs, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from tokimori.clock import Clock
from tokimori.errors import Bug, InvalidInput, NotFound, TokimoriError
from tokimori.model.ledger import FAULTS
from tokimori.model.words import own_address
from tokimori.schedules.zones import check_zone
from tokimori.service.access import Access, owner
from tokimori.service.reasons import name_of
from tokimori.service.service import Service
from tokimori.web import toasts
from tokimori.web.addresses import path
from tokimori.web.cache import AnswerCache
from tokimori.web.doing import MATCH, act_named, chosen, done, done_all, refused
from tokimori.web.reader import Reader
from tokimori.web.screen import Act, Moved, Screen
from tokimori.web.screens import plan
from tokimori.web.screens.now import badges
from tokimori.web.screens.registry import ACTS, RAIL, SCREENS, shows
from tokimori.web.visit import EACH_JOB, Doubts, Visit
from tokimori.web.words import harmless, short

KINDS = {
    "console.css": "text/css",
    "console.js": "text/javascript",
    "live.js": "text/javascript",
    "palette.js": "text/javascript",
    "trends.js": "text/javascript",
    "uplot.js": "text/javascript",
    "uplot.css": "text/css",
    "tokimori.svg": "image/svg+xml",
}
_FOR_EVER = {"cache-control": "public, max-age=31536000, immutable"}
MOST_FIELDS: Final = 1_000
PART: Final = "tokimori-part"
"""The header with which the script asks for what may change on a screen; it says which line of a log it has."""
ALL: Final = "1"
"""Its value if all that may change is asked for."""
SHARED: Final = (2.0, 5)
"""Seconds for which such an answer serves others at least, and how many times as long as it took: for less than it
takes the same tab to ask again."""
ZONE: Final = "tokimori-zone"
"""The cookie with the zone in which somebody wants times to be shown."""
TONES: Final = {
    **dict.fromkeys(("failed", "failing", "lost", "overdue", "parked", *FAULTS), "bad"),
    **dict.fromkeys(("blocked", "paused", "draining", "doubt"), "amber"),
    **dict.fromkeys(("held", "approval"), "violet"),
    "running": "busy",
}


class Page:
    """The page and its files. `service_for` returns the service with the rights of a request's sender.

    `access_for` returns these rights, so that forbidden acts are drawn as such. All addresses begin with `path_prefix`.
    `key` seals the toast that one page hands to the next. `doubts` tells what the node knows against itself.
    """

    def __init__(
        self,
        service_for: Callable[[Request], Service],
        clock: Clock,
        path_prefix: str = "",
        *,
        access_for: Callable[[Request], Access] = lambda _: owner(None),
        key: Callable[[], str] = lambda: "",
        doubts: Callable[[], Doubts] = Doubts,
    ) -> None:
        self._service_for = service_for
        self._access_for = access_for
        self._clock = clock
        self._kept = AnswerCache(clock)
        self._key = key
        self._doubts = doubts
        self._root = path_prefix
        self._files = {name: files("tokimori.web").joinpath("static", name).read_bytes() for name in KINDS}
        self._files["uplot.js"] += b"\nexport default uPlot;\n"
        for name, part in (("console.js", "live.js"), ("trends.js", "uplot.js")):
            address = self._address(part).encode()
            self._files[name] = self._files[name].replace(b'"./%b"' % part.encode(), b'"%b"' % address)
        self._templates = Environment(
            loader=PackageLoader("tokimori.web"),
            autoescape=True,
            undefined=StrictUndefined,
            auto_reload=False,
            finalize=harmless,
        )
        self._templates.trim_blocks = self._templates.lstrip_blocks = True
        self._templates.globals |= {
            **{"static": self._address, "root": path_prefix, "name_of": name_of, "short": short, "path": path},
            **{"tone": lambda word: TONES.get(word, ""), "acts": ACTS, "rail": _rail(), "ask": _ask},
            **{"badges": MappingProxyType(dict[str, int]()), "of": ""},
        }

    async def _rendered(self, template: str, values: Mapping[str, object]) -> str:
        """Render a template in a thread: its first reader has to wait until it is compiled, and the loop must not."""
        return await asyncio.to_thread(lambda: self._templates.get_template(template).render(values))

    def routes(self) -> Sequence[Route]:
        """Return the paths of the screens, of their acts, and of the files."""
        return [
            *(Route(screen.path, self._shower(screen)) for screen in SCREENS),
            *(
                Route(f"/do/form{screen.path}", self._shower(screen), methods=["GET", "POST"])
                for screen in SCREENS
                if screen.take
            ),
            Route("/do/{act}", self.act, methods=["POST"]),
            Route("/do/zone", self.choose_zone, methods=["POST"]),
            Route("/static/{name}", self.file),
            Route("/calendar.ics", self.calendar),
        ]

    def _shower(self, screen: Screen) -> Callable[[Request], Awaitable[Response]]:
        async def show(request: Request) -> Response:
            visit = self._visit(request)
            is_alone = visit.part != ALL or request.method != "GET" or toasts.COOKIE in request.cookies
            return await (self._show(screen, visit, request) if is_alone else self._shared(screen, visit, request))

        return show

    async def _shared(self, screen: Screen, visit: Visit, request: Request) -> Response:
        """Return what may change on a screen: a change notifies many tabs at once, and one answer serves all readers
        with the same rights for a while. `age` says how many milliseconds ago it was begun.
        """

        async def find() -> tuple[float, Response]:
            return self._clock.monotonic(), await self._show(screen, visit, request)

        access, name = visit.reader.access, visit.reader.name if screen.own else None
        asked = (visit.path, request.url.query, visit.zone, visit.host, access.role, access.scope, name)
        began, made = await self._kept.get(asked, find, *SHARED)
        took, age = made.headers.get("server-timing"), 1000 * (self._clock.monotonic() - began)
        response = Response(made.body, made.status_code, made.headers)
        response.headers["server-timing"] = f"{took or 'page;dur=0'}, age;dur={age:.0f}"
        return response

    async def _show(self, screen: Screen, visit: Visit, request: Request) -> Response:
        async with request.app.state.line:  # with lists of the API
            return await self._made(screen, visit, request)

    async def _made(self, screen: Screen, visit: Visit, request: Request) -> Response:
        began = self._clock.monotonic()
        values: Mapping[str, object] = {"visit": visit, "here": screen.place, "of": shows(screen, visit)}
        try:
            if screen.take is not None and request.method == "POST":
                shown = await screen.take(visit, _fields((await request.body()).decode(errors="replace")))
            else:
                shown = await screen.show(visit)
            if not isinstance(shown, Moved) and "badges" not in shown:
                values = {**values, "badges": await badges(visit)}
        except Bug:
            raise
        except TokimoriError as error:
            return await self._drawn(request, {**values, "error": error}, "error.html", error.status)
        if isinstance(shown, Moved):
            return self._with_toast(RedirectResponse(shown.to, 303), shown.toast)
        response = await self._drawn(request, {**values, **shown}, screen.template, int(str(shown.get("status", 200))))
        response.headers["server-timing"] = f"page;dur={1000 * (self._clock.monotonic() - began):.0f}"
        return response

    def _visit(self, request: Request) -> Visit:
        query = _fields(request.url.query)
        return Visit(
            service=self._service_for(request),
            reader=Reader(self._access_for(request)),
            now=self._clock.now(),
            path=request.url.path,
            parts=request.path_params,
            query=query,
            host=request.headers.get("host", ""),
            kept=self._kept,
            zone=_zone(request),
            part=request.headers.get(PART, "")[:20],
            doubts=self._doubts(),
        )

    async def _drawn(
        self, request: Request, values: Mapping[str, object], template: str, status: int = HTTPStatus.OK
    ) -> Response:
        """Return a screen, drawn in a thread, with the toast of the act before it."""
        cookie = request.cookies.get(toasts.COOKIE)
        toast = None if cookie is None else toasts.opened(cookie, self._key().encode())
        text = await self._rendered(template, {**values, "toast": toast})
        response = HTMLResponse(text, status)
        if cookie is not None:
            response.delete_cookie(toasts.COOKIE, path="/", httponly=True, samesite="strict")
        return response

    async def act(self, request: Request) -> Response:
        """Do the act of a button, and return to the screen with a toast."""
        form = _fields((await request.body()).decode(errors="replace"))
        act = act_named(ACTS, request.path_params["act"])
        given = _form_texts(act, form)
        try:
            if MATCH in given and act.meant is not None:
                toast = await done_all(act, self._visit(request), given[MATCH], given)
            else:
                toast = await done(act, self._service_for(request), chosen(form.get("on", [])), given)
        except Bug:
            raise
        except TokimoriError as fault:
            toast = refused(act, fault)
        self._kept.forget()
        if toast.once is not None or (toast.bad and act.makes):
            return await self._answered(request, act, toast, form, given)
        back = None if toast.bad else act.back
        response = RedirectResponse(back or own_address(given.get("back")) or f"/{act.noun}", 303)
        return self._with_toast(response, toast)

    def _with_toast(self, response: Response, toast: toasts.Toast | None) -> Response:
        """Return the response with the toast for the next page."""
        if toast is None:
            return response
        self._kept.forget()
        response.set_cookie(
            toasts.COOKIE,
            toasts.sealed(toast, self._key().encode()),
            max_age=toasts.LASTS,
            path="/",
            httponly=True,
            samesite="strict",
        )
        return response

    async def _answered(
        self,
        request: Request,
        act: Act,
        toast: toasts.Toast,
        form: Mapping[str, list[str]],
        given: Mapping[str, str],
    ) -> Response:
        """Return the text that is shown once, or the form with its texts and the reason of the refusal."""
        typed = {field.name: given.get(field.name, "") for field in act.fields if field.kind != "secret"}
        values = {
            **{"visit": self._visit(request), "here": act.noun, "act": act, "outcome": toast, "toast": None},
            **{"on": (), "named": given.get("on", ""), "back": own_address(given.get("back"))},
            "given": {**{field.name: "" for field in act.fields}, **typed},
        }
        name, status = ("once.html", 200) if toast.once is not None else ("ask.html", 422)
        text = await self._rendered(name, values)
        return HTMLResponse(text, status, headers={"cache-control": "no-store"})

    async def calendar(self, request: Request) -> Response:
        """Return the firings to come as a calendar."""
        async with request.app.state.line:
            text = await plan.calendar(self._visit(request))
        return Response(text, media_type="text/calendar")

    async def choose_zone(self, request: Request) -> Response:
        """Store the time zone of a reader in his browser."""
        form = _fields((await request.body()).decode(errors="replace"))
        zone, back = form.get("zone", [""])[-1], own_address(form.get("back", [""])[-1])
        response = RedirectResponse(back or "/", 303)
        response.set_cookie(ZONE, zone if _is_zone(zone) else "", path="/", httponly=True, samesite="strict")
        return response

    async def lost(self, request: Request) -> Response:
        """Return the page for an unknown path."""
        error = NotFound(
            f"there is no page at {self._root}{request.url.path}", allowed=f"{self._root}/, or what its menu leads to"
        )
        values = {"visit": self._visit(request), "here": "", "toast": None, "error": error}
        return HTMLResponse(await self._rendered("error.html", values), 404)

    def closed(self, status: int, message: str, wanted: str = "/") -> Response:
        """Return the page for a browser that is not let in, and `wanted` an address.

        It is rendered in the loop: its template is small, and imports no other.
        """
        template = self._templates.get_template("closed.html")
        is_foreign = status == HTTPStatus.FORBIDDEN
        text = template.render(message=message, has_come_from_elsewhere=is_foreign, wanted=own_address(wanted) or "/")
        return HTMLResponse(text, status)

    async def file(self, request: Request) -> Response:
        """Return a file of the page: a style, a script or a picture."""
        name: str = request.path_params["name"]
        if name not in KINDS:
            return PlainTextResponse("there is no such file", 404)
        return Response(self._files[name], media_type=KINDS[name], headers=_FOR_EVER)

    def _address(self, name: str) -> str:
        """Return the path of a file. It differs for other bytes, so that browsers can keep the file for ever."""
        return f"{self._root}/static/{name}?{hashlib.sha256(self._files[name]).hexdigest()[:12]}"


def _form_texts(act: Act, form: Mapping[str, Sequence[str]]) -> Mapping[str, str]:
    """Return the texts of the form. A secret keeps its spaces and lines, as in a terminal."""
    texts = {name: values[-1].replace("\r\n", "\n") for name, values in form.items()}
    kept = {field.name for field in act.fields if field.kind == "secret"}
    given = {name: text if name in kept else text.strip() for name, text in texts.items()}
    return {name: text for name, text in given.items() if text}


def _fields(text: str) -> dict[str, list[str]]:
    """Return the fields of a query or a form; of too many none."""
    return parse_qs(text) if text.count("&") < MOST_FIELDS else {}


def _rail() -> Sequence[Sequence[tuple[str, str]]]:
    """Return the entries of the rail that lead to a screen, in their groups: the name of each, and its path."""
    leads = {screen.place: screen.path for screen in SCREENS if screen.leads}
    return [[(name, leads[name]) for name in group if name in leads] for group in RAIL]


def _ask(name: str, on: str | Sequence[str], back: str, **given: str) -> str:
    """Return the address that asks before an act on one thing or on several."""
    things = [on] if isinstance(on, str) else on
    return f"/do/{name}?{urlencode([*(('on', each) for each in things), ('back', back), *given.items()])}"


def _zone(request: Request) -> str:
    given = request.cookies.get(ZONE, "")
    return given if _is_zone(given) else ""


def _is_zone(text: str) -> bool:
    try:
        return text in ("", EACH_JOB) or bool(check_zone(text))
    except InvalidInput:
        return False
