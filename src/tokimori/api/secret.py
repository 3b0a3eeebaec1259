"""The guard at the entrance: whoever does not bring the node's secret is answered nothing but health.

Programs send it as `Authorization: Bearer SECRET`. People open the address that the node prints, which carries it: the
answer is a cookie, and the same address without it. A cookie is shared by all ports of a host, so its name carries the
port; its value is made from the secret, so that who reads a jar of cookies does not have the file.
"""

import hashlib
import hmac
import logging
from typing import Final
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tokimori.api.answers import RefusalPage, refused, said
from tokimori.clock import Clock

log = logging.getLogger(__name__)

PARAMETER = "secret"
"""The parameter of the page's address that carries the secret."""
COMMAND = "tokimori node address"
"""What prints the address with the secret."""
OPEN_TO_ALL: Final = frozenset({"/healthz", "/readyz"})
"""The paths that are answered without the secret."""
_MOST_GIVEN = 8
"""Secrets in one address that are looked at."""
COMPLAINT_EVERY = 60.0
"""Seconds between two lines of the log about wrong secrets, however many come."""


class Secret:
    """Answers 401 to whoever does not bring the secret, in a header or as a cookie.

    Paths that begin with one of `open_below` are answered without it, too.
    """

    def __init__(
        self,
        app: ASGIApp,
        secret: str,
        clock: Clock,
        page: RefusalPage | None = None,
        *,
        open_below: tuple[str, ...] = (),
    ) -> None:
        self._app = app
        self._open_below = open_below
        self._secret = secret
        self._cookie = cookie_value(secret)
        self._wrong = WrongSecrets(clock)
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["path"] in OPEN_TO_ALL or scope["path"].startswith(self._open_below):
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        if scope["path"] == "/" and self._is_entry(request):
            await self._let_in(request)(scope, receive, send)
        elif self._is_known(request):
            await self._app(scope, receive, send)
        else:
            await self._refusal(request)(scope, receive, send)

    def _is_entry(self, request: Request) -> bool:
        """Whether somebody opens the printed address."""
        if request.method not in ("GET", "HEAD"):
            return False
        given = given_in(request.scope["query_string"].decode("latin-1"))
        return bool(given) and self._is_right(request, given, self._secret)

    def _is_known(self, request: Request) -> bool:
        headers = said(request.scope, b"authorization")
        given = [value.strip() for scheme, _, value in (each.partition(" ") for each in headers) if _is_bearer(scheme)]
        if given:
            return self._is_right(request, given, self._secret)
        cookies = _cookies(request, cookie_name(request))
        return bool(cookies) and self._is_right(request, cookies, self._cookie)

    def _is_right(self, request: Request, given: list[str], right: str) -> bool:
        """Whether it is the right one. A page at another port may have put a cookie beside ours: one right one will do.

        All are compared, in a time that does not depend on how much of one is right.
        """
        found = [hmac.compare_digest(each.encode(), right.encode()) for each in given]
        if not any(found):
            self._wrong.note(request)
        return any(found)

    def _refusal(self, request: Request) -> Response:
        """The same for everybody, whatever was brought."""
        response = refused(
            request,
            self._page,
            status=401,
            code="unauthorized",
            message=f"this node lets nobody in without its secret: `{COMMAND}` prints the address that carries it",
            field="Authorization",
            allowed=f"Bearer and what the file `secret` in the node's state folder holds (`{COMMAND} --header`)",
        )
        response.headers["www-authenticate"] = 'Bearer realm="tokimori"'
        return response

    def _let_in(self, request: Request) -> Response:
        """The address without the secret, and the cookie. Nothing keeps the address that had it."""
        rest = urlencode(
            [(name, value) for name, value in parse_qsl(request.url.query, keep_blank_values=True) if name != PARAMETER]
        )
        response = RedirectResponse(f"/?{rest}" if rest else "/", 303)
        response.headers["referrer-policy"] = "no-referrer"
        response.headers["cache-control"] = "no-store"
        response.set_cookie(
            cookie_name(request),
            self._cookie,
            path="/",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return response


class WrongSecrets:
    """Tells of wrong secrets in the log, a line a minute at most: who tries may not fill the disk."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told: float | None = None
        self._untold = 0

    def note(self, request: Request) -> None:
        """Somebody has brought a wrong one, which stands in no line: it may be almost right."""
        now = self._clock.monotonic()
        self._untold += 1
        if self._told is not None and now - self._told < COMPLAINT_EVERY:
            return
        host = request.client.host if request.client is not None else "an unknown address"
        log.warning("requests with a wrong secret were refused: %d, the last from %s", self._untold, host)
        self._told, self._untold = now, 0


def cookie_name(request: Request) -> str:
    """The name of the cookie for the port by which the browser knows this door."""
    try:
        port = urlsplit(f"//{request.headers.get('host', '')}").port
    except ValueError:
        port = None
    return f"tokimori-{port or (443 if request.url.scheme == 'https' else 80)}"


def cookie_value(secret: str) -> str:
    """What a browser keeps instead of the secret: it opens the same doors, and dies with the secret."""
    return hmac.new(secret.encode(), b"the cookie of the page", hashlib.sha256).hexdigest()


def given_in(query: str) -> list[str]:
    """What an address brings as the secret, of all the rest only so much as it takes to find that: it may be long."""
    begins = f"{PARAMETER}="
    if begins not in query:
        return []
    found = [each for each in query.split("&") if each.startswith(begins)]
    return [unquote_plus(each[len(begins) :]) for each in found[:_MOST_GIVEN]]


def _cookies(request: Request, name: str) -> list[str]:
    """The values of all cookies of this name."""
    pairs = (each.partition("=") for header in request.headers.getlist("cookie") for each in header.split(";"))
    return [value.strip() for found, _, value in pairs if found.strip() == name]


def _is_bearer(scheme: str) -> bool:
    return scheme.casefold() == "bearer"
