"""A node's door, as a client knows it: its address, its secret, and how its answers are read."""

import asyncio
import os
from collections.abc import Callable, Iterator
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qs, quote, urlsplit, urlunsplit

import msgspec

from tokimori.errors import InvalidConfig, InvalidInput, Refused, StoreUnavailable, TokimoriError
from tokimori.service.doors.calls import Method, result_of, written
from tokimori.service.views.errors import ErrorBody

if TYPE_CHECKING:
    from ssl import SSLContext

    import aiohttp

SCHEMES = ("http://", "https://")
PATH, HEALTH = "/api/v2/calls/", "/healthz"
_REQUESTS = ("jobs.trigger", "jobs.request", "jobs.trigger_many")
_AWAIT_END = "runs.await_end"
LONGEST_CALL = 90.0
"""Seconds without a byte of the answer, once a call is sent: a claim waits for a minute at most."""
CALLS_AT_ONCE, WAITING_AT_ONCE = 100, 200
"""Connections for calls, and for those that wait for something to happen: a heartbeat must not wait behind claims."""
SILENT = 5.0
"""Seconds without an answer, after which the node is asked if it is well: one that keeps a call waiting says so."""
CONNECTED_WITHIN = HEALTH_WITHIN = 10.0
_ALLOWED = "the address of a node, as `tokimori node address` prints it"


def is_address(url: str) -> bool:
    """Return whether it is the address of a node rather than the URL of a store."""
    return url.lower().startswith(SCHEMES)


class NodeAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Address of a node, with the prefix of a proxy and the headers that it requires."""

    url: str
    secret: str
    cacert: str | None = None
    """The file with the certificates that vouch for the node's; None: those of this machine."""


def address_of(url: str, state_dir: Path) -> NodeAddress:
    """Return the address in the URL, whose secret is in it (`?secret=`) or in the state folder.

    `?cacert=` or TOKIMORI_CACERT names the certificates that are trusted. Raises `InvalidInput`.
    """
    parts = urlsplit(url)
    try:
        named = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        named = False
    if not named or parts.username is not None:
        shown = urlunsplit(parts._replace(query="", netloc=parts.netloc.rpartition("@")[2]))
        raise InvalidInput(f"url: {shown!r} is no node's address", field="url", value=shown, allowed=_ALLOWED)
    query = parse_qs(parts.query)
    given, cacert = query.get("secret"), query.get("cacert", [os.environ.get("TOKIMORI_CACERT", "")])[-1]
    prefix, secret = parts.path.rstrip("/"), given[-1] if given else _stored_secret(state_dir, parts.netloc)
    return NodeAddress(url=f"{parts.scheme}://{parts.netloc}{prefix}", secret=secret, cacert=cacert or None)


def _stored_secret(state_dir: Path, where: str) -> str:
    file = state_dir / "secret"
    try:
        return file.read_text().strip()
    except OSError as fault:
        raise InvalidInput(
            f"url: it has no secret, and {file} can't be read: {fault.strerror}",
            field="url",
            value=where,
            allowed=f"{_ALLOWED}: with ?secret=",
        ) from None


class Door:
    """Calls methods of the service at a node. It is opened by `open`; a copy for another author shares what is open."""

    def __init__(
        self,
        address: NodeAddress,
        *,
        parent: Callable[[], str | None],
        traceparent: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._author: str | None = None
        self._time_zone: str | None = None
        self._address = address
        self._parent = parent
        self.traceparent = traceparent
        self._sessions: list[aiohttp.ClientSession] = []  # for calls, and for those that wait
        self._health = _Health(address.url + HEALTH)

    def acting_as(self, author: str | None, time_zone: str | None) -> Self:
        """Return the same door for another author, with the same connections."""
        other = copy(self)
        other._author, other._time_zone = author, time_zone
        return other

    async def open(self) -> None:
        """Make ready; nothing is connected yet."""
        import aiohttp  # noqa: PLC0415  a program on a store needs none of it

        trusted = True if self._address.cacert is None else _trusting(self._address.cacert)
        self._health.trusted = trusted
        for most in (CALLS_AT_ONCE, WAITING_AT_ONCE):
            session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=trusted, limit=most),
                headers={"Authorization": f"Bearer {self._address.secret}", "Content-Type": "application/json"},
                timeout=aiohttp.ClientTimeout(sock_read=LONGEST_CALL, sock_connect=CONNECTED_WITHIN),
            )
            self._sessions.append(session)

    async def close(self) -> None:
        """Close all connections."""
        while self._sessions:
            await self._sessions.pop().close()
        await self._health.close()

    async def call(self, name: str, method: Method, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        """Call an operation at the node, and return its answer."""
        if name in _REQUESTS and (by := self._parent()) is not None:
            kwargs.setdefault("parent", by)
        if name in _REQUESTS[:2] and (at := self.traceparent()) is not None:
            kwargs.setdefault("traceparent", at)
        body = written(method, args, kwargs, author=self._author, time_zone=self._time_zone)
        waits = name == _AWAIT_END or bool(kwargs.get("wait"))
        return self._read(method, *await self._post(PATH + quote(name), body, waits=waits))

    async def _post(self, path: str, body: bytes, *, waits: bool) -> tuple[int, bytes]:
        import aiohttp  # noqa: PLC0415

        if not self._sessions:
            raise Refused("this client is not open", allowed="`async with` opens it")
        call = asyncio.ensure_future(_sent(self._sessions[waits], self._address.url + path, body))
        try:
            await self._answered(call)
            return call.result()
        except (aiohttp.ClientError, TimeoutError, OSError) as fault:
            why = str(fault) or type(fault).__name__
            mend = "start it there (`tokimori serve`), or name the address of another one"
            if isinstance(fault, aiohttp.ClientConnectorCertificateError):
                mend = "name the file with the certificates that vouch for it (--cacert FILE, TOKIMORI_CACERT)"
            raise StoreUnavailable(f"the node at {self._address.url} does not answer: {why}: {mend}") from None
        finally:
            call.cancel()

    async def _answered(self, call: asyncio.Future[tuple[int, bytes]]) -> None:
        """Return once the call is done. Raises `StoreUnavailable` if its node is not well before that."""
        while not (await asyncio.wait({call}, timeout=SILENT))[0]:
            check = self._health.check()
            either: set[asyncio.Future[Any]] = {call, check}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not call.done() and not check.cancelled() and (fault := check.result()) is not None:
                raise self._silent() if isinstance(fault, TimeoutError) else fault

    def _silent(self) -> StoreUnavailable:
        silent = f"it has said nothing for {SILENT + HEALTH_WITHIN:g} s, nor of its health: it is stopped or cut off"
        mend = "look if what you asked for was done before you ask again, or name the address of another node"
        return StoreUnavailable(f"the node at {self._address.url} does not answer: {silent}: {mend}")

    def _read(self, method: Method, status: int, answer: bytes) -> Any:
        if status == 200:
            try:
                return msgspec.json.decode(answer, type=result_of(method))
            except msgspec.DecodeError as fault:
                raise self._stranger(f"its answer can't be read by this version: {fault}") from None
        try:
            error = msgspec.json.decode(answer, type=ErrorBody).error
        except msgspec.DecodeError:
            raise self._stranger(f"it answers with HTTP status {status}") from None
        if status == 404 and error.field is None:
            raise self._stranger(f"it does not know {method.__name__}")
        raise error_of(error.code, error.message, error.field, error.value, error.allowed)

    def _stranger(self, why: str) -> Refused:
        return Refused(
            f"the node at {self._address.url} speaks another version of Tokimori, or is none: {why}",
            field="url",
            value=self._address.url,
            allowed="a node of this version",
        )


class _Health:
    """Asks a node if it is well, on a connection that no call can hold; all calls that wait share one check."""

    def __init__(self, url: str) -> None:
        self.trusted: SSLContext | bool = True
        self._url = url
        self._under_way: asyncio.Task[Exception | None] | None = None

    def check(self) -> "asyncio.Task[Exception | None]":
        """Return the check that is under way, or start one; its result is what is wrong."""
        if self._under_way is None or self._under_way.done():
            self._under_way = asyncio.create_task(self._fault())
        return self._under_way

    async def close(self) -> None:
        """End the check that is under way."""
        if self._under_way is not None:
            self._under_way.cancel()
            await asyncio.wait({self._under_way})

    async def _fault(self) -> Exception | None:
        import aiohttp  # noqa: PLC0415

        own, within = aiohttp.TCPConnector(ssl=self.trusted), aiohttp.ClientTimeout(total=HEALTH_WITHIN)
        try:
            async with (
                aiohttp.ClientSession(connector=own, timeout=within) as session,
                session.get(self._url, allow_redirects=False),
            ):
                return None
        except (aiohttp.ClientError, TimeoutError, OSError) as fault:
            return fault


async def _sent(session: "aiohttp.ClientSession", url: str, body: bytes) -> tuple[int, bytes]:
    async with session.post(url, data=body, allow_redirects=False) as answer:
        return answer.status, await answer.read()


def _trusting(file: str) -> "SSLContext":
    import ssl  # noqa: PLC0415  most programs ask a store

    try:
        return ssl.create_default_context(cafile=file)
    except (OSError, ssl.SSLError) as fault:
        message = f"cacert: {file} holds no certificates: {fault.strerror or fault}"
        raise InvalidInput(message, field="cacert", value=file, allowed="a PEM file with certificates") from None


def error_of(code: str, message: str, field: str | None, value: object, allowed: str | None) -> TokimoriError:
    """Return the error in a node's answer, by its code. A code of HTTP alone becomes `Refused`."""
    kind = next((each for each in kinds_of(TokimoriError) if each.code == code), Refused)
    if kind is InvalidConfig:
        return InvalidConfig([message])
    return kind(message, field=field, value=value, allowed=allowed)


def kinds_of(root: type[TokimoriError]) -> Iterator[type[TokimoriError]]:
    """Yield the error and all below it."""
    yield root
    for below in root.__subclasses__():
        yield from kinds_of(below)
