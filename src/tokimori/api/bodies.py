"""Bodies of requests: read whole, as far as they are not too large."""

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

MOST_BODY = 1 << 20
"""The size of the largest body that is read, in bytes."""


async def read_whole(scope: Scope, receive: Receive) -> bytes | None:
    """Return the whole body; None if it is too large. Raises `ClientDisconnect` if only a part of it arrives."""
    length = Headers(scope=scope).get("content-length", "0")
    if not length.isdecimal() or int(length) > MOST_BODY:
        return None
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk: bytes = message.get("body", b"")
        body += chunk
        if len(body) > MOST_BODY:
            return None
        if not message.get("more_body", False):
            return bytes(body)
