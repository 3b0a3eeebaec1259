"""Last layer of every response: tag, compression and headers for browsers."""

import asyncio
import gzip
from email.utils import formatdate
from hashlib import blake2b
from http import HTTPStatus
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tokimori.api.answers import said
from tokimori.clock import SECOND, Clock

LEAST_PACKED = 2_000
"""Smaller answers are not compressed, in bytes."""
MOST_ON_THE_LOOP = 128 << 10
"""Larger ones are compressed in a thread, in bytes."""
_LEVEL = 4
_HEADERS: Final = tuple(
    (name.encode(), value.encode())
    for name, value in {
        "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "referrer-policy": "same-origin",
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
    }.items()
)
"""What every answer says, unless it says something else itself."""

_NAMES: Final = frozenset(name for name, _ in _HEADERS)

Headers = dict[bytes, bytes]


class Finished:
    """Last layer of answers: it tags, compresses and dates them, and sets the headers that restrict a browser.

    A client that names the tag of an answer to GET in `If-None-Match` gets 304 if it is the same (RFC 9110 §13.1.2).
    The tag is weak: the answer may be compressed for one reader and not for another. All answers of this door are
    whole; one that came in pieces would be neither tagged nor packed. A tag that an answer has already stays, as the
    beginning of its own: `If-Match` looks at that alone.
    """

    def __init__(self, app: ASGIApp, clock: Clock) -> None:
        self._app = app
        self._clock = clock
        self._second, self._date = -1, b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        start: Message | None = None

        async def finish(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                return
            if start is not None:
                held, start = start, None
                message = await self._finish(scope, held, message)
                await send(held)
            await send(message)

        await self._app(scope, receive, finish)

    async def _finish(self, scope: Scope, start: Message, body: Message) -> Message:
        """Return the body as it is sent; the start is changed."""
        ours: Headers = {b"date": self._today()}
        if not body.get("more_body", False):
            body = _tagged(scope, start, ours, body)
            if len(body.get("body", b"")) >= LEAST_PACKED:
                body = await _packed(scope, ours, body)
        given = [pair for pair in start.get("headers", ()) if pair[0] not in ours]
        said_itself = _NAMES.intersection([name for name, _ in given])
        more = [pair for pair in _HEADERS if pair[0] not in said_itself] if said_itself else _HEADERS
        start["headers"] = [*given, *more, *ours.items()]
        return body

    def _today(self) -> bytes:
        """Return the date, made anew once a second."""
        second = self._clock.now() // SECOND
        if second != self._second:
            self._second, self._date = second, formatdate(second, usegmt=True).encode()
        return self._date


def _tagged(scope: Scope, start: Message, ours: Headers, body: Message) -> Message:
    if scope["method"] != "GET" or start["status"] != HTTPStatus.OK:
        return body
    own = next((value.decode().strip('W/"') + "-" for name, value in start["headers"] if name == b"etag"), "")
    tag = f'W/"{own}{blake2b(body.get("body", b""), digest_size=12).hexdigest()}"'
    ours[b"etag"] = tag.encode()
    if not any(tag in map(str.strip, each.split(",")) for each in said(scope, b"if-none-match")):
        return body
    start["status"] = int(HTTPStatus.NOT_MODIFIED)
    start["headers"] = [pair for pair in start["headers"] if pair[0] != b"content-length"]
    return {**body, "body": b""}


async def _packed(scope: Scope, ours: Headers, body: Message) -> Message:
    text: bytes = body["body"]
    ours[b"vary"] = b"Accept-Encoding"
    if not any("gzip" in each for each in said(scope, b"accept-encoding")):
        return body
    if len(text) < MOST_ON_THE_LOOP:
        packed = gzip.compress(text, _LEVEL, mtime=0)
    else:
        packed = await asyncio.to_thread(gzip.compress, text, _LEVEL, mtime=0)
    ours |= {b"content-encoding": b"gzip", b"content-length": str(len(packed)).encode()}
    return {**body, "body": packed}
