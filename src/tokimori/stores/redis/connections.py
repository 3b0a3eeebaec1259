"""Connections with the server, each used by one caller at a time, and the scripts that are run there."""

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import Any, NamedTuple

import msgspec
from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import NoScriptError, ResponseError

from tokimori.stores.redis.address import RedisAddress
from tokimori.stores.redis.faults import FAULTS, connect_error, store_error
from tokimori.stores.rules.errors import overtaken
from tokimori.stores.server_store import Connected
from tokimori.stores.urls import by_newest

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
        for text in map(texts.pop, ("prelude", "rates", "lines", "turns", "new_runs", "moves"))
    }
    whole = {name: _shared_by(body, shared) + _METHOD.format(body=body) for name, body in texts.items()}
    return {name: Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest()) for name, text in whole.items()}


def _shared_by(body: str, shared: Mapping[str, set[str]]) -> str:
    """Return the shared texts up to the last one that the script uses. Each text costs time in every call."""
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


async def listen(address: RedisAddress, name: str, on_notice: Callable[[str], None]) -> None:
    """Call `on_notice` with the words of each notice not sent under `name`, and at first; until the connection is lost.

    Raises `StoreError` if there is none.
    """
    connection = await connect(address)
    try:
        await connection.send_command("SUBSCRIBE", channel_of(address))
        while True:
            kind, _, notice = await connection.read_response(timeout=math.inf)
            sender, _, words = ("", "", "") if kind == "subscribe" else notice.partition(" ")
            if sender != name:
                on_notice(words)
    except FAULTS:
        return
    finally:
        await connection.disconnect(nowait=True)
