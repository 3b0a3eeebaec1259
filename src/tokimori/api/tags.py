"""Tags: who has seen an answer is told that it is still the same, and nothing else."""

from hashlib import blake2b

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Tagged:
    """Gives answers to GET an `ETag`, and answers 304 to whoever names it in `If-None-Match` (RFC 9110 §13.1.2).

    The tag is weak: the answer may be compressed for one reader and not for another.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. An answer that comes in pieces is passed on as it comes."""
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        start: Message | None = None

        async def send_tagged(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and message["status"] == 200:
                start = message
                return
            if start is not None:
                held, start = start, None
                if not message.get("more_body", False):
                    held, message = _tagged(held, message, Headers(scope=scope).get("if-none-match", ""))
                await send(held)
            await send(message)

        await self._app(scope, receive, send_tagged)


def _tagged(start: Message, body: Message, known: str) -> tuple[Message, Message]:
    tag = f'W/"{blake2b(body.get("body", b""), digest_size=12).hexdigest()}"'
    headers = MutableHeaders(scope=start)
    headers["etag"] = tag
    if tag not in {each.strip() for each in known.split(",")}:
        return start, body
    del headers["content-length"]
    return {**start, "status": 304}, {**body, "body": b""}
