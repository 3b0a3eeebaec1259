"""Guard at the entrance: a request without the node's secret and without a token gets no answer but health.

Programs send it as `Authorization: Bearer SECRET`. The holder of the secret is the owner. People open the address
that the node prints, which carries it: the answer is a cookie, and the same address without it. A cookie is shared by
all ports of a host, so its name carries the port; its value is made from the secret, so that who reads a jar of cookies
does not have the file.
"""

import hashlib
import hmac
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final
from urllib.parse import parse_qs, parse_qsl, quote, unquote, unquote_plus, urlencode, urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tokimori.api.answers import RefusalPage, error_answer, refused, said, wanted_by
from tokimori.api.queries import read_whole
from tokimori.api.rates import Rates
from tokimori.api.request_service import let_in
from tokimori.clock import Clock, Moment, format_moment
from tokimori.errors import InvalidInput, StoreError, TokimoriError, Unauthorized
from tokimori.model.access_token import AccessToken
from tokimori.model.words import own_address
from tokimori.service.access import Access, access_of, owner
from tokimori.service.doors.sessions import OWNER, Sessions
from tokimori.service.tokens import Holders
from tokimori.service.validation import check_author

LOGIN: Final = "/login"
LOGOUT: Final = "/logout"
_FIELD: Final = "token"
_NEXT: Final = "next"


async def presented(scope: Scope, receive: Receive) -> tuple[str, str, str]:
    """Return the token and the name in the form, empty for none, and the address to which it leads.

    Raises `ClientDisconnect`.
    """
    body = await read_whole(scope, receive) or b""
    given = parse_qs(body.decode("latin-1"), max_num_fields=10) if body.count(b"&") < 10 else {}
    token, name, where = (given.get(field, [""])[0].strip() for field in (_FIELD, AS, _NEXT))
    return token, name.encode("latin-1", "replace").decode(errors="replace"), own_address(where) or "/"


def session_value(secret: str, token: AccessToken | None, session: str, author: str | None = None) -> str:
    """Return a cookie's value in place of the token: it is accepted by the servers of this state folder as long as the
    token is.

    `token` None: in place of the node's secret, in the name of `author`. Logging out ends the `session`.
    """
    name = _OF_AUTHOR + quote(author, safe="") if author and token is None else "" if token is None else token.name
    text = f"the session {session} of {name} {'' if token is None else token.digest}"
    return f"{name}.{session}.{hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()}"


def parts_of_session(value: str) -> tuple[str, str] | None:
    """Return the name of the token in such a value, empty for the secret's, and the session; None if it is none."""
    name, *rest = value.rsplit(".", 2)
    return (name, rest[0]) if len(rest) == 2 and rest[0] else None


log = logging.getLogger(__name__)

PARAMETER = "secret"
"""The parameter of the page's address that carries the secret."""
AS: Final = "as"
"""Parameter, and field of the login, with the name of the person who sends the secret."""
_OF_AUTHOR: Final = "@"
"""Before the author in a cookie of the owner: no token's name begins so."""
COMMAND = "tokimori node address"
"""What prints the address with the secret."""
OPEN_TO_ALL: Final = frozenset({"/healthz", "/livez", "/readyz", "/static/console.css"})
"""The paths that are answered without the secret: the style is that of the form to log in, too."""
_PAGE: Final = frozenset({"/", LOGIN, LOGOUT})
_OWNER: Final = owner(None)
NO_SESSION: Final = "0"
"""The session of all cookies if nobody knows which were logged out."""
MOST_BROUGHT = 8
"""Number of secrets, tokens or cookies of a request that are looked at."""
COMPLAINT_EVERY = 60.0
"""Seconds between two lines of the log about wrong secrets, however many come."""


Secrets = str | Callable[[], Sequence[str]]
"""The secret of a door, or a function that returns those that let in now, the newest first. That one makes cookies."""


class SecretGuard:
    """Guard that answers 401 to a request without the secret or a token, in a header or a cookie.

    Paths that begin with one of `open_below` need neither. `holders` looks up tokens, and `sessions` the cookies that
    were logged out. `rates` limits the requests of a client; None: there is no limit.
    """

    def __init__(
        self,
        app: ASGIApp,
        secret: Secrets,
        clock: Clock,
        page: RefusalPage | None = None,
        *,
        holders: Holders | None = None,
        sessions: Sessions | None = None,
        open_below: tuple[str, ...] = (),
        rates: Rates | None = None,
    ) -> None:
        self._app = app
        self._rates = rates
        self._open_below = open_below
        self._secrets = (lambda: (secret,)) if isinstance(secret, str) else secret
        self._sessions = sessions
        self._wrong = WrongSecrets(clock)
        self._page = page
        self._holders = holders

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope)
        access: Access | None = _OWNER
        if scope["path"] in OPEN_TO_ALL:
            response = None
        elif scope["path"].startswith(self._open_below):
            response = self._too_many(scope, None)
        else:
            try:
                access, response = await self._entering(request, receive)
            except ClientDisconnect:
                return
            response = self._too_many(scope, access) or response
        if access is not None and response is None:
            let_in(scope, access, partial(self._known, request))
            await self._app(scope, receive, send)
        else:
            await (response or self._refusal(request))(scope, receive, send)

    def _too_many(self, scope: Scope, access: Access | None) -> Response | None:
        return None if self._rates is None else self._rates.refusal(scope, access)

    async def _entering(self, request: Request, receive: Receive) -> tuple[Access | None, Response | None]:
        """Return the caller's access, None if it is unknown, and an answer if the request ends here. Raises
        `ClientDisconnect`.
        """
        try:
            entered = await self._at_the_page(request, receive) if request.scope["path"] in _PAGE else None
            return entered or (await self._known(request), None)
        except Unauthorized as fault:
            return None, self._refusal(request, fault)
        except TokimoriError as fault:
            return None, error_answer(fault)

    async def _at_the_page(self, request: Request, receive: Receive) -> tuple[Access | None, Response] | None:
        """Return the caller at the page (entry, login, logout) and the answer; None: he asks for something else."""
        path = request.scope["path"]
        if path == "/" and self._is_entry(request):
            query = parse_qsl(request.url.query, keep_blank_values=True)
            rest = urlencode([(name, value) for name, value in query if name not in (PARAMETER, AS)])
            author = _author_in(dict(query).get(AS, ""))
            return owner(author), await self._begun(request, None, f"/?{rest}" if rest else "/", author)
        if path == LOGIN and request.method == "GET" and (known := await self._known(request)) is not None:
            return known, RedirectResponse(wanted_by(request), 303)
        if request.method != "POST" or path not in (LOGIN, LOGOUT):
            return None
        if path == LOGOUT:
            await self._log_out(request)
            return None, _without_cookie(request)
        text, name, where = await presented(request.scope, receive)
        if _has([text], *self._secrets()):
            author = _author_in(name)
            return owner(author), await self._begun(request, None, where, author)
        token = None if self._holders is None else await self._holders.bearer(text)
        if token is None:
            self._wrong.note(request)
            return None, self._refusal(request, wanted=where)
        return await self._holder(token), await self._begun(request, token, where)

    async def _begun(
        self, request: Request, token: AccessToken | None, where: str, author: str | None = None
    ) -> Response:
        name = OWNER if token is None else token.name
        session = NO_SESSION if self._sessions is None else await self._sessions.new(name)
        return _with_cookie(request, session_value(self._secrets()[0], token, session, author), where)

    async def _log_out(self, request: Request) -> None:
        """End the sessions of the request, copies of its cookies included. Raises `StoreError`."""
        for value in _cookies(request, cookie_name(request))[:MOST_BROUGHT]:
            found = await self._session_of(value)
            if found is not None and self._sessions is not None:
                await self._sessions.end(*found[2:])

    def _is_entry(self, request: Request) -> bool:
        """Return whether the request opens the printed login address."""
        if request.method not in ("GET", "HEAD"):
            return False
        given = secrets_in(request.scope["query_string"].decode("latin-1"))
        if not given:
            return False
        return _has(given, *self._secrets()) or self._is_wrong(request)

    async def _known(self, request: Request) -> Access | None:
        """Return the sender's access; None if it is unknown. Raises `Unauthorized` and `StoreError`.

        A page at another port may have added a cookie of the same name: one right cookie is enough.
        """
        headers = said(request.scope, b"authorization")
        schemes = (each.partition(" ") for each in headers)
        given = [value.strip() for scheme, _, value in schemes if scheme.casefold() == "bearer"]
        brought = given or _cookies(request, cookie_name(request))
        if _has(given, *self._secrets()):
            return _OWNER
        for text in brought[:MOST_BROUGHT]:
            found = await self._by_token(text) if given else await self._in_session(text)
            if found is not None:
                return found
        if brought:
            self._is_wrong(request)
        return None

    async def _by_token(self, text: str) -> Access | None:
        token = None if self._holders is None else await self._holders.bearer(text)
        return None if token is None else await self._holder(token)

    async def _in_session(self, value: str) -> Access | None:
        found = await self._session_of(value)
        if found is None:
            return None
        token, author, *session = found
        try:
            if self._sessions is not None and await self._sessions.has_ended(*session):
                return None
        except StoreError:  # the owner may look at a node whose store is away: it shows no data
            if token is not None:
                raise
        return owner(author) if token is None else await self._holder(token)

    async def _session_of(self, value: str) -> tuple[AccessToken | None, str | None, str, str] | None:
        """Return whose session a cookie is (None: the owner's, with an author), its name and itself; None: not ours."""
        parts = parts_of_session(value)
        if parts is None:
            return None
        name, session = parts
        author = unquote(name[len(_OF_AUTHOR) :]) if name.startswith(_OF_AUTHOR) else None
        name = "" if author else name
        token = await self._holders.named(name) if name and self._holders is not None else None
        valid = [session_value(each, token, session, author) for each in self._secrets()]
        if (name and token is None) or not _has([value], *valid):
            return None
        return token, author, name or OWNER, session

    async def _holder(self, token: AccessToken) -> Access:
        if self._holders is not None and token.is_over(await self._holders.now()):
            raise Unauthorized(
                f"the token {token.name!r} is over since {format_moment(token.expires or Moment(0))}",
                field="Authorization",
                allowed="a new one: `tokimori token create` makes it",
            )
        return access_of(token)

    def _is_wrong(self, request: Request) -> bool:
        self._wrong.note(request)
        return False

    def _refusal(self, request: Request, fault: Unauthorized | None = None, wanted: str | None = None) -> Response:
        """Return the refusal: `fault` is that of an expired token, and `wanted` what the login was for."""
        missing = "this node lets nobody in without its secret or a token"
        wrong = "what was sent is neither the secret of this node nor a token of its store"
        response = refused(
            request,
            self._page,
            status=401,
            code="unauthorized" if fault is None else fault.code,
            message=fault.message
            if fault is not None
            else f"{missing if wanted is None else wrong}: `tokimori token create` makes a token, and"
            f" `{COMMAND}` prints the address that carries the secret",
            field="Authorization",
            allowed=f"Bearer and a token, or what the file `secret` in the node's state folder holds"
            f" (`{COMMAND} --header`)",
            wanted=wanted,
        )
        response.headers["www-authenticate"] = 'Bearer realm="tokimori"'
        return response


def _author_in(text: str) -> str | None:
    """Return the name given at the login; None if it can't be recorded."""
    try:
        check_author(text)
    except InvalidInput:
        return None
    return text or None


class WrongSecrets:
    """Log of wrong secrets, a line a minute at most: an attacker must not fill the disk."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._logged_at: float | None = None
        self._unlogged = 0

    def note(self, request: Request) -> None:
        """Count a wrong secret. It is never logged itself, as it may be almost right."""
        now = self._clock.monotonic()
        self._unlogged += 1
        if self._logged_at is not None and now - self._logged_at < COMPLAINT_EVERY:
            return
        host = request.client.host if request.client is not None else "an unknown address"
        log.warning("requests with a wrong secret were refused: %d, the last from %s", self._unlogged, host)
        self._logged_at, self._unlogged = now, 0


def _with_cookie(request: Request, value: str, where: str) -> Response:
    """Redirect to an address without the secret, with the cookie. Nothing keeps the address that had it."""
    response = RedirectResponse(where, 303)
    response.headers["referrer-policy"] = "no-referrer"
    response.headers["cache-control"] = "no-store"
    response.set_cookie(
        cookie_name(request),
        value,
        path="/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    return response


def _without_cookie(request: Request) -> Response:
    """Return a redirect to the page, which then asks for a login."""
    response = RedirectResponse("/", 303)
    response.delete_cookie(
        cookie_name(request), path="/", secure=request.url.scheme == "https", httponly=True, samesite="strict"
    )
    return response


def cookie_name(request: Request) -> str:
    """Return the name of the cookie for the port by which the browser knows this door."""
    try:
        port = urlsplit(f"//{request.headers.get('host', '')}").port
    except ValueError:
        port = None
    return f"tokimori-{port or (443 if request.url.scheme == 'https' else 80)}"


def secrets_in(query: str) -> list[str]:
    """Return the secrets in a query. The rest is not decoded, as it may be long."""
    begins = f"{PARAMETER}="
    if begins not in query:
        return []
    found = [each for each in query.split("&") if each.startswith(begins)]
    return [unquote_plus(each[len(begins) :]) for each in found[:MOST_BROUGHT]]


def _cookies(request: Request, name: str) -> list[str]:
    """Return the values of all cookies of this name, without the quotes that an `@` in them is sent between."""
    pairs = (each.partition("=") for header in request.headers.getlist("cookie") for each in header.split(";"))
    return [value.strip().strip('"') for found, _, value in pairs if found.strip() == name]


def _has(given: list[str], *right: str) -> bool:
    """Return whether one of them is a right one. All are compared, in a time that does not depend on what is right."""
    return any([hmac.compare_digest(each.encode(), one.encode()) for each in given for one in right])  # noqa: C419
