"""One connection of the door: uvicorn's, with bounds on how large a request may be and how long it may take."""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from math import inf
from typing import NoReturn

from httptools import HttpParserError, HttpParserUpgrade
from starlette.responses import Response
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from tokimori.api.answers import refusal
from tokimori.api.connections import Connections

LEAST_TAKEN = 64 * 1024
"""Bytes of an answer, see `Limits.taken_within`."""
MOST_HEAD = 16 * 1024
"""Bytes of a request's first line and headers; also of what stands behind its body."""
MOST_HEADERS = 100
MOST_REQUEST = 2 << 20
"""Bytes of a request as it is sent, with everything that stands around its body."""
MOST_PIECES = 3_000
"""Pieces that a body may come in: each costs as much as a small request."""
MOST_AHEAD = 16
"""Requests that a client may send before it has the answer to the first."""
_GO_ON = b"HTTP/1.1 100 Continue\r\n\r\n"
"""Bytes that uvicorn writes before an answer, to a client that asks if it may send a body."""
PIECE = 4 * 1024
"""Bytes that are looked at together."""


class Joined:
    """Writer of an answer: its head goes out with the first piece of its body, in one call of the kernel."""

    def __init__(self, transport: asyncio.Transport, *, has_body: bool) -> None:
        self._transport = transport
        self._has_body = has_body
        self._has_head = False
        self._held = b""

    def write(self, data: bytes) -> None:
        """Send the data; hold it if it is a head whose body follows."""
        if not self._has_head and data != _GO_ON:
            self._has_head = True
            if self._has_body:
                self._held = data
                return
        self.flush(data)

    def flush(self, data: bytes = b"") -> None:
        """Send the held head together with this data."""
        data, self._held = self._held + data, b""
        if data:
            self._transport.write(data)

    def is_closing(self) -> bool:
        """Return whether nothing more is sent."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Send the held head, then close."""
        self.flush()
        self._transport.close()


class HttpConnection(HttpToolsProtocol, asyncio.BufferedProtocol):
    """An HTTP connection. Each of its waits has an end, each of its buffers a bound."""

    def __init__(self, connections: Connections, config: Config, state: ServerState) -> None:
        super().__init__(config, state, {}, asyncio.get_running_loop())
        self.deadline = inf
        self.held = 0
        self.opening: Callable[[], None] | None = None
        self._all = connections
        self._limits = connections.limits
        self._unread = bytearray()
        self._waits = False
        self._has_news = False
        self._in_head = False
        self._in_request = False
        self._head = 0
        self._size = 0
        self._pieces = 0
        self._stalled_at = inf
        self._untaken = 0
        self._refusal: Response | None = None

    # What the connections ask

    def expire(self) -> None:
        """End the connection, with an answer if a request has begun."""
        if not self._in_request:
            self.transport.close()
            return
        part, seconds = ("headers", self._limits.head_within) if self._in_head else ("body", self._limits.body_within)
        message = f"the {part} of the request did not come within {seconds:g} s"
        self._refuse(_refused(HTTPStatus.REQUEST_TIMEOUT, message, part, f"at most {seconds:g} s"))

    def drop(self) -> None:
        """End the connection at once."""
        if self.opening is not None:
            self.opening()
        elif self.transport is not None:
            self.transport.abort()

    def untaken(self, now: float) -> int:
        """Return the bytes of answers that wait for its client. It ends itself if the client takes hardly any."""
        if self._stalled_at == inf:
            return 0
        size: int = self.transport.get_write_buffer_size()
        if now >= self._stalled_at + self._limits.taken_within:
            if size > self._untaken - LEAST_TAKEN:
                self.drop()
            self._stalled_at, self._untaken = now, size
        return size

    # Calls of asyncio

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request, no longer than `head_within`."""
        self.opening = None
        super().connection_made(transport)
        # So that one byte that nobody takes is reported. With 0, asyncio's TLS says of no bytes that they are too many.
        transport.set_write_buffer_limits(high=0 if transport.get_extra_info("sslcontext") is None else 1)
        self._set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection, and cut circular references: 400 of them kept the garbage collector for 0.09 s."""
        super().connection_lost(exc)
        self.pipeline.clear()
        self.parser = self.cycle = None  # type: ignore[assignment]
        self._unset_keepalive_if_required()
        self._all.remove(self)
        self.deadline = self._stalled_at = inf

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next bytes: all connections share it, as bytes are taken out at once."""
        return self._all.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Receive the number of bytes in the buffer."""
        self.data_received(bytes(self._all.buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Parse the data when it is this connection's turn. Until then no more is read."""
        self._unset_keepalive_if_required()
        self._unread += data
        self._all.hold(self, len(data))
        if not self._waits:
            self._waits = self._all.reading.begin(self)
        if self._waits:
            self.transport.pause_reading()

    def read_on(self) -> bool:
        """Parse the next few bytes, unless the request was refused; return whether there are more."""
        piece = bytes(self._unread[:PIECE])
        del self._unread[:PIECE]
        if not self.transport.is_closing():
            self._feed(piece)
        if self._unread and not self.transport.is_closing():
            return True
        self._unread.clear()
        if self._waits:
            self._waits = False
            if not self.flow.read_paused:
                self.transport.resume_reading()
        return False

    def pause_writing(self) -> None:
        """Note that its client has not taken all that was written."""
        super().pause_writing()
        if self._stalled_at == inf:
            self._stalled_at = self.loop.time()
            self._untaken = self.transport.get_write_buffer_size()

    def resume_writing(self) -> None:
        """Note that its client has taken all that was written."""
        super().resume_writing()
        self._stalled_at = inf

    def shutdown(self) -> None:
        """Shut down: answer requests that have arrived, and wait for no others."""
        if self.deadline < inf:
            self.transport.close()
        else:
            super().shutdown()

    # Calls of the parser

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._in_request = self._in_head = self._has_news = True
        self._head = self._size = self._pieces = 0

    def on_url(self, url: bytes) -> None:
        """Take a part of its address."""
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header. A trailer after the body is only counted, since the headers are read by then."""
        self._count_head(len(name) + len(value) + 4)
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Let the app answer now that the headers are whole, or after earlier requests."""
        self._in_head, self._has_news, self._size = False, True, 0
        if len(self.pipeline) >= MOST_AHEAD:
            message = f"more than {MOST_AHEAD} requests were sent ahead of the answers"
            self._give_up(_refused(HTTPStatus.TOO_MANY_REQUESTS, message, "requests", f"at most {MOST_AHEAD} ahead"))
        super().on_headers_complete()
        joined = Joined(self.cycle.transport, has_body=self.scope["method"] != "HEAD")
        self.cycle.transport = joined  # type: ignore[assignment]

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._pieces += 1
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the request: now its client waits for the door."""
        super().on_message_complete()
        self._in_request, self._has_news = False, True

    def on_response_complete(self) -> None:
        """Note that an answer has been written."""
        super().on_response_complete()
        self._set_deadline()

    # What follows from it

    def _set_deadline(self) -> None:
        """Update the deadline: the client may wait for us, or we for the client."""
        if self._is_owed():
            self.deadline = inf
            self._all.is_answered(self)
            return
        if not self._in_request:
            self._all.let_go(self, but=len(self._unread))
        in_body = self._in_request and not self._in_head
        self.deadline = self.loop.time() + (self._limits.body_within if in_body else self._limits.head_within)
        self._all.waits(self)

    def _is_owed(self) -> bool:
        """Return whether the client has sent a whole request that has not been answered."""
        if self.pipeline:
            return True
        newest: RequestResponseCycle | None = self.cycle
        is_whole = self._in_head or not self._in_request
        return newest is not None and is_whole and not newest.response_complete

    def _feed(self, piece: bytes) -> None:
        self._size += len(piece)
        try:
            self.parser.feed_data(piece)
        except HttpParserUpgrade:  # it is answered as HTTP/1.1, and what comes behind it is not read
            self.cycle.keep_alive = False
        except HttpParserError:
            self._refuse(self._refusal or _refused(HTTPStatus.BAD_REQUEST, "this is no HTTP/1.1", None, "HTTP/1.1"))
        if self._in_head and self._size > MOST_HEAD:
            self._refuse(_head_too_large())
        elif self._size > MOST_REQUEST or self._pieces > MOST_PIECES:
            allowed = f"at most {MOST_REQUEST} bytes in {MOST_PIECES} pieces"
            message = "the request is too large, or in too many pieces"
            self._refuse(_refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message, "body", allowed))
        if self._has_news:  # called three times for most requests, in one step
            self._has_news = False
            self._set_deadline()

    def _count_head(self, size: int) -> None:
        self._head += size
        if self._head > MOST_HEAD or len(self.headers) >= MOST_HEADERS:
            self._give_up(_head_too_large())

    def _give_up(self, answer: Response) -> NoReturn:
        """Leave the parser, which reports this as an invalid request."""
        self._refusal = answer
        raise ValueError(answer.status_code)

    def _refuse(self, answer: Response) -> None:
        """Answer and close; only close if an earlier request waits for its answer, or this one has its own."""
        if self.transport.is_closing():
            return
        newest: RequestResponseCycle | None = self.cycle
        has_answer = newest is not None and newest.response_started and self._in_request and not self._in_head
        if not has_answer and not self._is_owed():
            self.transport.write(_written(answer))
        if newest is not None:
            newest.disconnected = True
            newest.message_event.set()
        self.transport.close()


def _head_too_large() -> Response:
    allowed = f"at most {MOST_HEAD} bytes in {MOST_HEADERS} headers"
    message = "the first line and the headers of the request are too large"
    return _refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, message, "headers", allowed)


def _refused(status: HTTPStatus, message: str, field: str | None, allowed: str) -> Response:
    return refusal(status, status.name.lower(), message, field=field, allowed=allowed)


def _written(answer: Response) -> bytes:
    """Return the answer as it is sent, the last one of its connection."""
    status = HTTPStatus(answer.status_code)
    headers = b"".join(name + b": " + value + b"\r\n" for name, value in answer.raw_headers)
    return b"HTTP/1.1 %d %s\r\n%sconnection: close\r\n\r\n" % (status, status.phrase.encode(), headers) + answer.body
