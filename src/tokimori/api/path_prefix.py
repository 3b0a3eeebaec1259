"""The door below a path prefix, such as `/tokimori`, where a proxy has other things beside it.

Only the outermost layer knows of it, and the pages, which name addresses of ours: inside, each path is what it is
without a prefix.
"""

import re
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_COOKIE_PATH: Final = re.compile(rb"(?i)(; *path=)/(?=;|$)")


class PathPrefix:
    """Takes the prefix from the paths of requests, and puts it before each path of ours in the heads of answers.

    A proxy may pass the path on as the browser sent it, or take the prefix away: a path without it is answered, too, as
    is who asks the node itself. Of the heads `Location` and `Link` have paths, and cookies, which are sent to no other
    path of the proxy's host.
    """

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix
        self._bytes = prefix.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def prefixed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [(name, self._headed(name, value)) for name, value in message["headers"]]
            await send(message)

        await self._app({**scope, "path": self._inside(scope["path"])}, receive, prefixed)

    def _inside(self, path: str) -> str:
        rest = path.removeprefix(self._prefix)
        return path if rest and not rest.startswith("/") else rest or "/"

    def _headed(self, name: bytes, value: bytes) -> bytes:
        match name.lower():
            case b"location" if value.startswith(b"/"):
                return self._bytes + value
            case b"link" if value.startswith(b"</"):
                return b"<" + self._bytes + value[1:]
            case b"set-cookie":
                return _COOKIE_PATH.sub(rb"\1" + self._bytes, value)
            case _:
                return value
