"""An ASGI application, asked directly, without a socket."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import json
from starlette.types import ASGIApp, Message

JSON = {"content-type": "application/json"}
SECRET = "s" * 43
"""The secret of every door in tests."""
BEARER = {"authorization": f"Bearer {SECRET}"}
"""What a program sends that knows it."""


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.decode(self.body)

    @property
    def error(self) -> Any:
        return self.json["error"]


class Asker:
    """Sends requests to an application, as a program on this machine would that knows the secret, or (`bare`) not."""

    def __init__(self, app: ASGIApp, *, bare: bool = False) -> None:
        self._app = app
        self._always = [] if bare else [*BEARER.items()]

    async def get(self, path: str, **headers: str) -> Answer:
        return await self.ask("GET", path, headers=[("host", "localhost"), *headers.items()])

    async def post(self, path: str, value: object = None, method: str = "POST") -> Answer:
        body = b"" if value is None else json.encode(value)
        return await self.ask(method, path, headers=[("host", "localhost"), *JSON.items()], chunks=[body])

    async def ask(
        self,
        method: str,
        path: str,
        *,
        headers: Sequence[tuple[str, str]] = (),
        chunks: Sequence[bytes | None] = (b"",),
        stays: bool = False,
        client: str = "127.0.0.1",
    ) -> Answer:
        """The answer to one request; the body comes in chunks, and where one of them is None the client goes away.

        Behind the last one it goes away, too, unless it `stays`.
        """
        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "scheme": "http",
            "server": ("127.0.0.1", 8000),
            "client": (client, 50_000),
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in (*self._always, *headers)],
        }
        incoming = list(chunks)
        sent: list[Message] = []

        async def receive() -> Message:
            if stays and not incoming:
                await asyncio.Event().wait()
            chunk = incoming.pop(0) if incoming else None
            if chunk is None:
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": chunk, "more_body": bool(incoming)}

        async def send(message: Message) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        if not sent:
            return Answer(0, {}, b"")
        body = b"".join(message.get("body", b"") for message in sent[1:])
        return Answer(sent[0]["status"], {k.decode(): v.decode() for k, v in sent[0]["headers"]}, body)
