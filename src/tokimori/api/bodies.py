"""Bodies of requests: read whole, as far as they are not too large, and not nested too deeply."""

from itertools import accumulate
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

MOST_BODY = 1 << 20
"""The size of the largest body that is read, in bytes."""
MOST_DEPTH = 100
"""So many lists and objects may be within each other. Ten times as many would use up the stack of whoever reads them,
far from where the body came in.
"""
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_STEPS: Final = tuple((byte in b"[{") - (byte in b"]}") for byte in range(256))


async def read_whole(scope: Scope, receive: Receive) -> bytes | None:
    """The whole body; None if it is too large. Raises `ClientDisconnect` if only a part of it arrives."""
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


def is_too_deep(body: bytes) -> bool:
    """Whether this JSON is nested too deeply. What is none is somebody else's to refuse."""
    if body.count(b"[") + body.count(b"{") <= MOST_DEPTH:
        return False
    outside_of_texts = body.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2]
    brackets = b"".join(outside_of_texts).translate(None, _NO_BRACKETS)
    return any(depth > MOST_DEPTH for depth in accumulate(map(_STEPS.__getitem__, brackets)))
