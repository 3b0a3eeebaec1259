"""Guards that every request must pass before anybody looks at its content, because this door executes commands.

A stranger's web page, open in the browser of somebody who can reach the door, must be able to do nothing here. Its
requests carry its `Origin`. If it makes its own DNS name point here ("DNS rebinding"), they carry that name as `Host`.
And a form that the browser sends without asking us first is never JSON.
"""

from collections.abc import Callable
from functools import lru_cache
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tokimori.api.answers import RefusalPage, first_said, refusal, refused, said
from tokimori.api.finishing import Finished
from tokimori.api.queries import MOST_BODY, read_whole
from tokimori.api.rates import Rates
from tokimori.api.secret import SecretGuard, Secrets
from tokimori.api.turns import Turns
from tokimori.clock import Clock
from tokimori.model.rate import Rate
from tokimori.service.doors.sessions import Sessions
from tokimori.service.tokens import Holders

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_WITHOUT_BODY = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})
_OWN_SITES = frozenset({"same-origin", "none"})
_DEFAULT_PORTS = {"http": 80, "https": 443}
FORMS = "/do/"
"""Below this path a form is sent by the page itself."""
_FORM = "application/x-www-form-urlencoded"
_NAMELESS = frozenset({"", "application/x-www-form-urlencoded"})
"""Content types sent by programs that do not name one: `curl -d`, and Go."""


class Lenient(NamedTuple):
    """Prefixes of paths that demand less: no secret (`open`), or no name for JSON (`nameless`)."""

    open: tuple[str, ...] = ()
    nameless: tuple[str, ...] = ()


STRICT = Lenient()


def guarded(
    app: ASGIApp,
    *,
    clock: Clock,
    interface: str,
    host_name: str,
    secret: Secrets,
    public_url: str | None = None,
    holders: Holders | None = None,
    sessions: Sessions | None = None,
    closed: RefusalPage | None = None,
    is_answered: Callable[[Scope], bool] = lambda _: True,
    beside: Callable[[ASGIApp], ASGIApp] = lambda app: app,
    lenient: Lenient = STRICT,
    rate: Rate | None = None,
) -> ASGIApp:
    """Return the app behind all guards. `interface` is where the door listens, `host_name` the name of this machine.

    `is_answered` says whether the app does anything for a request but refuse its path or method. `closed` makes the
    page for a browser that is not let in. `beside` puts before them what has a guard of its own. `lenient` says where
    less is asked for. Through a proxy requests may come for the host of `public_url`. `holders` knows who has which
    token, and `sessions` which cookies were logged out. `rate` is how often each client may ask; None: as often as he
    likes.
    """
    inner = SecretGuard(
        JsonBody(app, is_answered, lenient.nameless),
        secret,
        clock,
        closed,
        holders=holders,
        sessions=sessions,
        open_below=lenient.open,
        rates=None if rate is None else Rates(rate, clock),
    )
    rule = host_rule(interface, host_name, public_url)
    return Turns(Finished(beside(HostAndOrigin(inner, rule, closed)), clock), clock)


def host_rule(interface: str, host_name: str, public_url: str | None = None) -> Callable[[str], bool]:
    """Return the rule for `Host`: allowed are the names of the loopback, the interface, and the public host.

    If the door listens on every interface, all addresses are allowed (no attacker can redirect an address by DNS), and
    the name of this machine.
    """
    public = None if public_url is None else urlsplit(public_url).hostname
    names = _LOOPBACK | {interface.casefold()} | ({public} if public else frozenset())
    if interface not in ("0.0.0.0", "::"):  # noqa: S104 compared, not bound
        return names.__contains__
    names |= {host_name.casefold()}
    return lambda name: name in names or _is_address(name)


@lru_cache(maxsize=64)
def host_of(header: str) -> str | None:
    """Return the name or address in a `Host` header, without port and brackets; None if the header is not valid."""
    try:
        parts = urlsplit(f"//{header}")
        _ = parts.port
    except ValueError:
        return None
    return parts.hostname if parts.netloc == header and parts.username is None else None


class HostAndOrigin:
    """Guard that answers 403 to a request for another host, and to one from the page of another site.

    A browser sends `Origin` with what may change something. With all that it sends to this machine or over TLS, an
    `<img>` and a link too, it says in `Sec-Fetch-Site` whose page asked for it. A page at another port of this host is
    `same-site`: it may be that of any user of this machine, and gets cookies of ours. `none`: somebody typed it.
    """

    def __init__(self, app: ASGIApp, is_ours: Callable[[str], bool], page: RefusalPage | None = None) -> None:
        self._app = app
        self._is_ours = is_ours
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        hosts, origins = said(scope, b"host"), said(scope, b"origin")
        name = host_of(hosts[0]) if len(hosts) == 1 else None
        if name is None or not self._is_ours(name):
            response = refusal(
                403,
                "host_not_allowed",
                f"Host: {hosts[0] if hosts else ''!r} is not a name of this node",
                field="Host",
                value=", ".join(hosts),
                allowed="localhost, 127.0.0.1, [::1], or the interface that the node listens on",
            )
        elif any(not _same_origin(origin, hosts[0]) for origin in origins):
            response = refusal(
                403,
                "origin_not_allowed",
                f"Origin: {', '.join(origins)!r} is another site",
                field="Origin",
                value=", ".join(origins),
                allowed="none, or the same host and port as in Host",
            )
        elif foreign := [site for site in said(scope, b"sec-fetch-site") if site not in _OWN_SITES]:
            response = refused(
                Request(scope),
                self._page,
                status=403,
                code="site_not_allowed",
                message=f"a page of another site asked for this (Sec-Fetch-Site: {', '.join(foreign)!r})",
                field="Sec-Fetch-Site",
                allowed="same-origin, none, or no such header",
            )
        else:
            await self._app(scope, receive, send)
            return
        await response(scope, receive, send)


class JsonBody:
    """Reads the body of a write. Answers 413 if it is too large, and 415 if its path exists and it is not JSON.

    The page sends forms to its own paths: a browser says of those where they come from, which `HostAndOrigin` has
    looked at. Below the paths of `nameless` programs do not say that it is. No page can send JSON so: a form writes
    `%7B` for a brace, and all else brings its `Origin`.
    """

    def __init__(self, app: ASGIApp, is_answered: Callable[[Scope], bool], nameless: tuple[str, ...] = ()) -> None:
        self._app = app
        self._is_answered = is_answered
        self._nameless = nameless

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["method"] in _READS:
            await self._app(scope, receive, send)
            return
        try:
            body = await read_whole(scope, receive)
        except ClientDisconnect:
            return
        content_type = first_said(scope, b"content-type") or ""
        packed = first_said(scope, b"content-encoding")
        has_body = bool(body) or scope["method"] not in _WITHOUT_BODY
        if body is None:
            response = refusal(
                413, "too_large", f"the body is larger than {MOST_BODY} bytes", allowed=f"at most {MOST_BODY} bytes"
            )
            response.headers["connection"] = "close"
        elif has_body and not self._may_be(scope, content_type) and self._is_answered(scope):
            response = _not_taken("Content-Type", content_type, "application/json")
        elif body and packed is not None and packed.casefold() != "identity":
            response = _not_taken("Content-Encoding", packed, "identity: a body as it is, not compressed")
        else:
            await self._app(scope, _replayed(body, receive), send)
            return
        await response(scope, receive, send)

    def _may_be(self, scope: Scope, content_type: str) -> bool:
        kind, path = content_type.partition(";")[0].strip().casefold(), scope["path"]
        if kind == _FORM and path.startswith(FORMS):
            return bool(said(scope, b"origin")) or said(scope, b"sec-fetch-site") == ["same-origin"]
        return _is_json(kind) or (kind in _NAMELESS and path.startswith(self._nameless))


def _not_taken(header: str, value: str, allowed: str) -> Response:
    message = f"{header}: {value!r} is not allowed"
    return refusal(415, "unsupported_media_type", message, field=header, value=value, allowed=allowed)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a receiver that returns the body once, and then the messages after it."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


def _is_json(kind: str) -> bool:
    """Return whether this is `application/json`, or a kind of it such as `application/merge-patch+json` of RFC 7396."""
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


def _same_origin(origin: str, host: str) -> bool:
    try:
        parts = urlsplit(origin.casefold())
    except ValueError:
        return False
    default = _DEFAULT_PORTS.get(parts.scheme)
    return default is not None and parts.netloc.removesuffix(f":{default}") == host.casefold().removesuffix(
        f":{default}"
    )


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
