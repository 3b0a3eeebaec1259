"""The access log: a line for each request that was answered, without anything that lets somebody in."""

import logging
from typing import Final
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tokimori.clock import Clock

log = logging.getLogger(__name__)

_LONGEST: Final = 500
"""Characters of a path."""
_PLAIN: Final = "/:@+,;=!$&'()*~"


class AccessLog:
    """Log of requests: `GET /api/v2/jobs 200, 1234 bytes in 3.2 ms, to 127.0.0.1`.

    The query is left out, since a login address has its secret there, and so are all headers. A request through a proxy
    shows the proxy's address.
    """

    def __init__(self, app: ASGIApp, clock: Clock) -> None:
        self._app = app
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        began, status, size = self._clock.monotonic(), 0, 0

        async def counted(message: Message) -> None:
            nonlocal status, size
            status = message.get("status", status)
            size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, counted)
        finally:
            log.info(
                "%s %s %s, %d bytes in %.1f ms, to %s",
                scope["method"],
                quote(scope["path"], safe=_PLAIN)[:_LONGEST],
                status or "not answered",
                size,
                (self._clock.monotonic() - began) * 1_000,
                scope["client"][0] if scope.get("client") else "an unknown address",
            )
