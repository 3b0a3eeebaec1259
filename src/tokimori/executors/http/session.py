"""Sends requests by aiohttp, over connections that are kept for the next ones. Loaded when the first is sent."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from time import thread_time

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from tokimori.executors.http.addresses import Network, may_be_asked
from tokimori.executors.http.request import Answer, Body, Request
from tokimori.executors.keeper.kernel import is_short
from tokimori.model.outcome import Failed
from tokimori.turns import TurnsOfReaders

PIECE = 8 * 1024
"""Bytes that are taken together. asyncio would take 256 KiB, which may be 40,000 pieces, or 10,000 heads of answers."""


class TargetConnection(ResponseHandler, asyncio.BufferedProtocol):
    """A connection of a session; `turns` is what all connections of the session share."""

    def __init__(self, turns: TurnsOfReaders, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._turns = turns
        self._room = memoryview(bytearray(PIECE))  # of which TLS fills pieces: those of an array are copies
        self._unread = b""
        self._waits = False

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next bytes."""
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        """Receive the number of new bytes. They are read in their turn, and until then no more is taken."""
        self._unread += self._room[:nbytes]
        if not self._waits:
            self._waits = self._turns.begin(self)
        if self._waits and self.transport is not None:
            self.transport.pause_reading()

    def read_on(self) -> bool:
        """Read all bytes that have arrived."""
        unread, self._unread = self._unread, b""
        if self.transport is None:
            return False
        self.data_received(unread)
        if self._waits:
            self._waits = False
            self._take_on()
        return False

    def _take_on(self) -> None:
        """Resume reading, unless the requester has not taken the last bytes."""
        if self.transport is not None and not self._reading_paused and not self._buffer_paused:
            self.transport.resume_reading()


KEPT_OPEN = 10.0
"""Seconds for which a connection without a request is kept."""
LONGEST_READING = 0.005
"""Seconds of one step of the loop in which is read what services have answered. If it came in small pieces, the
attempts that take them up take twice as long again, all in the next step."""
RESOLVING = 64
"""Number of names looked up at a time, in threads of their own: more than a node with two cores has runs at a time by
default, so that names to which nobody answers, for ten seconds each, hold up no others."""
_AddrInfo = tuple[int, int, int, str, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]]


@dataclass(slots=True)
class Tried:
    """The addresses that a request was to be sent to: those that were refused, and whether others were tried."""

    refused: list[str] = field(default_factory=list)
    others: bool = False


_TRIED: ContextVar[Tried] = ContextVar("_TRIED")
"""Of the request in hand: aiohttp opens connections in the task that asks, or in tasks of that one."""


class HttpSession:
    """Requests to services. `networks` are those that may be asked though they are not public."""

    def __init__(self, networks: Sequence[Network]) -> None:
        self._networks = networks
        connector = aiohttp.TCPConnector(
            limit=0,  # the node bounds how many run at a time
            keepalive_timeout=KEPT_OPEN,
            resolver=Resolver(),
            socket_factory=self._socket,
        )
        turns, loop = TurnsOfReaders(LONGEST_READING, thread_time), asyncio.get_running_loop()
        # aiohttp has no argument for it
        connector._factory = partial(TargetConnection, turns, loop)  # type: ignore[assignment]
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),  # no job gets the cookies of another
            timeout=aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None),
            auto_decompress=False,  # a small answer can't become a large one
            skip_auto_headers=("Accept-Encoding",),
            trust_env=False,
        )

    async def send(self, request: Request, body: Body, grew: Callable[[], None]) -> Answer | Failed:
        """Send the request, and take the answer's body into `body`; `grew` is called with each part of it."""
        tried = Tried()
        _TRIED.set(tried)
        try:
            async with self._session.request(
                request.method,
                URL(request.url, encoded=True),
                headers=request.headers,
                data=request.body,
                allow_redirects=False,
            ) as answer:
                async for part in answer.content.iter_any():
                    body.add(part)
                    grew()
                    if body.full:
                        break
                return Answer(answer.status, answer.headers.get("Location"))
        except (aiohttp.InvalidURL, ValueError) as fault:
            return Failed(f"the request can't be sent: {_words(fault)}", final=True)
        except (aiohttp.ClientError, OSError) as fault:
            if tried.refused and not tried.others:
                where = ", ".join(dict.fromkeys(tried.refused))
                return Failed(
                    f"the request was not sent to {where}, which is not public: the setting targets.private_addresses "
                    "says to which such addresses this node's requests may go",
                    final=True,
                )
            if isinstance(fault, aiohttp.ClientConnectorError) and is_short(fault.os_error):
                raise fault.os_error from None  # nothing was sent
            return Failed(f"the request failed: {_words(fault)}")

    def _socket(self, found: _AddrInfo) -> socket.socket:
        """Return a socket for the address to which the next step connects: no name is looked up again in between."""
        family, kind, protocol, _, place = found
        address, tried = str(place[0]), _TRIED.get()
        if not may_be_asked(address, self._networks):
            tried.refused.append(address)
            raise PermissionError(f"{address} is not public")
        tried.others = True
        return socket.socket(family, kind, protocol)

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()


class Resolver(AbstractResolver):
    """Looks names up as the system does."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(RESOLVING, "tokimori-names")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses of the name. Raises `OSError`."""
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._threads, _look_up, host, port, family)
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for kind, protocol, address in found
        ]

    async def close(self) -> None:
        """Look no more names up."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(host: str, port: int, family: socket.AddressFamily) -> list[tuple[int, int, str]]:
    """Return the family, the protocol and the address of each place where the name leads."""
    found = socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [
        (kind, protocol, socket.getnameinfo(place, socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)[0])
        for kind, _, protocol, _, place in found
        if isinstance(place[0], str)
    ]


def _words(fault: Exception) -> str:
    """Return the fault's text, or its name if it has none."""
    return str(fault) or type(fault).__name__
