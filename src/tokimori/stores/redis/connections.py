"""Connections with the server, each used by one caller at a time; its scripts, and its errors made into ours."""

import asyncio
import math
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from hashlib import sha1
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec
from redis import exceptions
from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import NoScriptError, ResponseError

from tokimori.errors import SchemaMismatch, StoreError, StoreRefused, StoreUnavailable
from tokimori.stores.rules.errors import overtaken
from tokimori.stores.server_store import Connected
from tokimori.stores.urls import Addresses, by_newest, invalid, read

SCHEMES = frozenset({"redis", "rediss", "redis+unix", "valkey", "valkeys", "valkey+unix"})
ALLOWED = "redis://user:password@host:port/number?namespace=…, rediss:// with TLS, or redis+unix:///path/of/socket?db=0"
DEFAULT_PORT = 6379
_invalid = partial(invalid, "redis", ALLOWED)
_TLS = frozenset({"ssl_ca_certs", "ssl_certfile", "ssl_keyfile"})
_NAMESPACE = re.compile(r"[A-Za-z0-9._-]{1,64}\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """A store's server, database number and keys.

    `name` is for people; `prefix` begins every key: its braces keep all of them in one slot of a cluster. Either
    `path`, of a Unix socket, or `host` and `port`. `tls` holds the driver's settings; None: no TLS.
    """

    name: str
    prefix: str
    host: str = ""
    port: int = DEFAULT_PORT
    path: str | None = None
    db: int = 0
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: Mapping[str, Any] | None = None
    addresses: Addresses | None = None


def address_of(url: str) -> RedisAddress:
    """Return the address that a URL names. Raises `InvalidInput`."""
    scheme = url.partition(":")[0].lower()
    on_socket, with_tls = scheme.endswith("+unix"), scheme in {"rediss", "valkeys"}
    known = {"namespace"} | (_TLS if with_tls else set()) | ({"db"} if on_socket else set())
    parts, port, settings = read(url, "Redis", known, _invalid)
    port = port or DEFAULT_PORT
    path, host = unquote(parts.path), parts.hostname or "127.0.0.1"
    if on_socket and (not path.startswith("/") or parts.hostname):
        raise _invalid("a socket is named by its absolute path, after three slashes")
    number = _number(settings.get("db", "0") if on_socket else path.lstrip("/") or "0")
    user, password = unquote(parts.username or "") or None, unquote(parts.password or "") or None
    place = f"{path}?db={number}" if on_socket else f"{host}:{port}/{number}"
    return RedisAddress(
        name=f"{parts.scheme}://{user}@{place}" if user and password else f"{parts.scheme}://{place}",
        prefix=_prefix(settings.get("namespace", "")),
        host=host,
        port=port,
        path=path if on_socket else None,
        db=number,
        user=user,
        password=password,
        tls={name: settings[name] for name in _TLS & settings.keys()} if with_tls else None,
    )


def _number(text: str) -> int:
    if not text.isdecimal() or not text.isascii():
        raise _invalid("the database is a number, such as 0")
    return int(text)


def _prefix(namespace: str) -> str:
    if not namespace:
        return "{tokimori}:"
    if _NAMESPACE.match(namespace) is None:
        raise _invalid("a namespace is 1 to 64 of A-Z a-z 0-9 . _ -")
    return f"{{tokimori.{namespace}}}:"


_FULL = "max number of clients"
_UNUSABLE = {
    "NOAUTH": "wants a password: put user and password into the URL",
    "WRONGPASS": "refused the user: check user and password in the URL",
    "NOPERM": "gives the user too few rights: its ACL needs the keys and channels {tokimori…}:*",
    "MOVED": "is one of several nodes of a cluster, and our keys are on another one: name that one in the URL",
    "DB index": "has no database of that number: see `databases` in its configuration",
}
_UNAVAILABLE = {
    "READONLY": "is a read-only replica: name the primary server",
    "OOM": "has no memory left: raise its maxmemory",
    "LOADING": "is still loading its data",
    "MISCONF": "can't write to its disk, and takes nothing: see its log",
    "BUSY": "is busy with a script of somebody",
    "MASTERDOWN": "is a replica without its primary server: name that one",
    "NOREPLICAS": "has too few replicas, and takes nothing",
    "CLUSTERDOWN": "is part of a cluster that is down",
    "TRYAGAIN": "is moving our keys to another server",
    "ASK": "is moving our keys to another server",
    _FULL: "has as many clients as its maxclients allows",
}

FAULTS = (exceptions.RedisError, OSError, TimeoutError)
"""Errors of the driver."""


def store_error(fault: BaseException, name: str) -> StoreError:
    """Return our error for a driver's exception, for users of the store `name`."""
    match fault:
        case exceptions.RedisError() if isinstance(fault, exceptions.ResponseError) or _code_of(fault):
            return _server_error(fault, name)
        case TimeoutError() | exceptions.TimeoutError():
            return StoreUnavailable(f"store {name} does not answer: check the server and the network")
        case _:
            return _network_error(fault, name)


def _code_of(fault: exceptions.RedisError) -> str:
    """Return the first word of the server's answer; empty if the driver got no answer."""
    return getattr(fault, "status_code", None) or ""


def _server_error(fault: exceptions.RedisError, name: str) -> StoreError:
    text = str(fault)
    said = f"{_code_of(fault)} {text}"
    if "NOSCHEMA" in said:
        return SchemaMismatch(
            f"store {name} holds no keys of Tokimori, or lost them: if it is to be new, run `tokimori db migrate`"
        )
    for kind, advices in ((StoreUnavailable, _UNAVAILABLE), (StoreError, _UNUSABLE)):
        for word, advice in advices.items():
            if word in said:
                return kind(f"store {name} {advice} ({text})")
    return StoreRefused(f"store {name} can't do what it was asked ({text})")


def _network_error(fault: BaseException, name: str) -> StoreError:
    cause = fault.__context__ or fault
    if isinstance(cause, ssl.SSLCertVerificationError):
        return StoreError(f"store {name} can't prove who it is ({cause.verify_message}): check ssl_ca_certs in the URL")
    if isinstance(cause, ssl.SSLError):
        return StoreError(f"store {name} does not speak TLS as we do ({cause.reason or cause}): check port and scheme")
    if _FULL in str(fault):
        return StoreUnavailable(f"store {name} {_UNAVAILABLE[_FULL]}")
    return StoreUnavailable(f"store {name} lost the connection ({fault})")


def connect_error(fault: BaseException, name: str, *, tls: bool) -> StoreError:
    """Return our error for a failed connection. On a socket the driver wraps the server's answer."""
    if isinstance(fault.__cause__, exceptions.RedisError):
        fault = fault.__cause__
    cause = fault.__context__ or fault
    if tls and isinstance(cause, FileNotFoundError):
        return StoreError(f"store {name}: a file that the URL names with ssl_ is not there")
    if tls and isinstance(fault, TimeoutError | exceptions.TimeoutError):
        return StoreUnavailable(
            f"store {name} does not answer: check the server and the network; perhaps it speaks no TLS at this port "
            "(redis://)"
        )
    if isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError | TimeoutError | ConnectionResetError):
        return StoreUnavailable(
            f"store {name} can't be reached ({cause.strerror or cause}): check that the server runs and that host and "
            "port are right"
        )
    if isinstance(cause, ConnectionResetError) or "closed by server" in str(fault):
        return StoreUnavailable(
            f"store {name} closes the connection at once: check that this is a Redis server's port, and whether it "
            "wants TLS (rediss://)"
        )
    return store_error(fault, name)


PATIENCE = 4.0
"""Seconds to wait for any answer: less than a lease."""
_OVERTAKEN, _SHUT = "overtaken by another change", "shut by a document"
_METHOD = """
local function method()
{body}
end
local answer = method()
flush()
return answer"""


class Script(NamedTuple):
    """A script's text, and the digest by which the server knows it."""

    text: str
    digest: str


@cache
def load_scripts() -> Mapping[str, Script]:
    """Return every script by its method's name, with the shared texts before it and deferred work behind it."""
    texts = {
        entry.name.removesuffix(".lua"): entry.read_text()
        for entry in files("tokimori.stores.redis.scripts").iterdir()
        if entry.name.endswith(".lua")
    }
    defined = re.compile(r"^local (?:function )?(\w+)", re.M)
    shared = {
        text: set(defined.findall(text))
        for text in map(texts.pop, ("prelude", "rates", "lines", "turns", "births", "moves"))
    }
    whole = {name: _shared_by(body, shared) + _METHOD.format(body=body) for name, body in texts.items()}
    return {name: Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest()) for name, text in whole.items()}


def _shared_by(body: str, shared: Mapping[str, set[str]]) -> str:
    """Return the shared texts up to the last one that the script needs: each costs time at every call."""
    named = set(re.findall(r"\w+", body))
    used = [n for n, names in enumerate(shared.values()) if named & names]
    return "".join(list(shared)[: max(used, default=0) + 1])


async def connect(address: RedisAddress) -> AbstractConnection:
    """Return a new connection. Raises `StoreError`."""
    return await by_newest(address, address.addresses, _connect)


async def _connect(address: RedisAddress) -> AbstractConnection:
    terms: dict[str, Any] = {
        "db": address.db,
        "username": address.user,
        "password": address.password,
        "decode_responses": True,
        "protocol": 2,
        "socket_timeout": None,
        "socket_connect_timeout": PATIENCE,
        "client_name": "tokimori",
        "driver_info": None,
    }
    connection: AbstractConnection = Connection(host=address.host, port=address.port, **terms)
    if address.path is not None:
        connection = UnixDomainSocketConnection(path=address.path, **terms)
    elif address.tls is not None:
        connection = SSLConnection(host=address.host, port=address.port, **address.tls, **terms)
    try:
        async with asyncio.timeout(PATIENCE):
            if isinstance(connection, SSLConnection):  # the certificates of the system: 25 ms of a processor
                await asyncio.to_thread(connection.ssl_context.get)
            await connection.connect()  # type: ignore[no-untyped-call]
    except FAULTS as fault:
        await connection.disconnect(nowait=True)
        raise connect_error(fault, address.name, tls=address.tls is not None) from None
    return connection


def document_key(kind: str, name: str) -> str:
    """Return the name of a document there. A blank sorts before any character of a kind, so kinds stay together."""
    return f"{kind} {name}"


async def _exchange(connection: AbstractConnection, *words: str | bytes, raw: bool = False) -> Any:
    await connection.send_command(*words)
    return await connection.read_response(disable_decoding=raw)


class RedisConnections(Connected):
    """At most `most` connections, opened when they are needed and kept.

    A connection whose state is not known (a time-out, a cancelled caller, a lost reply) is cut, never used again.
    """

    def __init__(self, address: RedisAddress, most: int) -> None:
        self.address = address
        self._scripts = dict(load_scripts())
        self._free: list[AbstractConnection] = []
        self._places = asyncio.Semaphore(most)
        self._closed = False

    async def run(self, script: str, **asked: object) -> Any:
        """Run a script, which is one transaction. Raises `StoreError`."""
        text, digest = self._scripts[script]
        for name, document in (("guard", self.guard), ("shut", self.shut and self.shut.document)):
            if document is not None:
                asked[name] = document_key(document.kind, document.name), str(document.version)
        words = ("1", self.address.prefix, msgspec.msgpack.encode(asked))

        async def work(connection: AbstractConnection) -> Any:
            try:
                return await _exchange(connection, "EVALSHA", digest, *words)
            except NoScriptError:
                return await _exchange(connection, "EVAL", text, *words)

        return await self._use(work)

    async def do(self, *words: str | bytes, raw: bool = False) -> Any:
        """Carry out one command; `raw`: the answer is bytes. Raises `StoreError`."""
        return await self._use(lambda connection: _exchange(connection, *words, raw=raw))

    async def _use(self, work: Callable[[AbstractConnection], Awaitable[Any]]) -> Any:
        async with self._places:
            connection = await self._take()
            known = False
            try:
                async with asyncio.timeout(PATIENCE):
                    answer = await work(connection)
                known = True
                return answer
            except FAULTS as fault:
                known = isinstance(fault, ResponseError)
                if self.guard is not None and _OVERTAKEN in str(fault):
                    raise overtaken(self.guard) from None
                if self.shut is not None and _SHUT in str(fault):
                    raise self.shut.error() from None
                raise store_error(fault, self.address.name) from None
            finally:
                if known and not self._closed:
                    self._free.append(connection)
                else:
                    await connection.disconnect(nowait=True)

    async def _take(self) -> AbstractConnection:
        while self._free:
            connection = self._free.pop()
            reader = connection._reader  # the driver learns that a server has ended it by a request that fails
            if reader is not None and reader.exception() is None and not reader.at_eof():
                return connection
            await connection.disconnect(nowait=True)
        return await connect(self.address)

    async def close(self) -> None:
        """End all connections; those in use end after their work."""
        self._closed = True
        while self._free:
            with suppress(*FAULTS):
                await self._free.pop().disconnect()


def channel_of(address: RedisAddress) -> str:
    """Return the channel of an installation's notices."""
    return f"{address.prefix}notices"


async def notify(db: RedisConnections, name: str, words: str) -> None:
    """Send a notice to the others, under that name."""
    await db.do("PUBLISH", channel_of(db.address), f"{name} {words}")


async def hear(address: RedisAddress, name: str, heard: Callable[[str], None]) -> None:
    """Call `heard` with the words of each notice that was not sent under `name`, and at first; until the connection is
    lost.

    Raises `StoreError` if there is none.
    """
    connection = await connect(address)
    try:
        await connection.send_command("SUBSCRIBE", channel_of(address))
        while True:
            kind, _, notice = await connection.read_response(timeout=math.inf)
            sender, _, words = ("", "", "") if kind == "subscribe" else notice.partition(" ")
            if sender != name:
                heard(words)
    except FAULTS:
        return
    finally:
        await connection.disconnect(nowait=True)
