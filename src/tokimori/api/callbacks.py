"""Callbacks: a service that answered 202 reports how the run ended, with the signature that it was given.

It stands beside the secret of the door, not behind it: the signature lets in for one attempt of one run, and opens
nothing else. Cookies are not looked at, so that it is no matter whose page sends this.
"""

import asyncio
import logging
from collections.abc import Callable

from msgspec import Struct
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tokimori.api.answers import answer, error_answer, refusal
from tokimori.api.queries import MOST_BODY, read_whole
from tokimori.errors import NotFound, TokimoriError
from tokimori.executors.http.callbacks import PATH, CallbackResult
from tokimori.model.transitions import RunState
from tokimori.service.service import Service

log = logging.getLogger(__name__)

SIGNATURE = "tokimori-signature"
"""The header that carries the signature, of the request to the service as of the callback."""
PATIENCE = 5.0
"""Seconds that a callback waits until the store has taken the end of its run."""
_LOOK_EVERY = 0.02

AcceptCallback = Callable[[str, str, str, bytes], CallbackResult]
"""Takes a callback: run, token, signature, body. Raises `InvalidInput`."""


def refuse_callback(_run_id: str, _token: str, _signature: str, _body: bytes) -> CallbackResult:
    """Refuse a callback: this node waits for none."""
    return CallbackResult.FORGED


class CallbackReply(Struct, frozen=True, kw_only=True):
    """The run as the callback has left it."""

    run_id: str
    state: RunState


class CallbackDoor:
    """Answers callbacks itself, and leaves all else to the app."""

    def __init__(self, app: ASGIApp, accept: AcceptCallback, service: Service) -> None:
        self._app = app
        self._accept = accept
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or not scope["path"].startswith(PATH):
            await self._app(scope, receive, send)
            return
        try:
            response = await self._answer(scope, receive)
        except ClientDisconnect:
            return
        except TokimoriError as fault:
            response = error_answer(fault)
        await response(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        run_id, _, token = scope["path"].removeprefix(PATH).partition("/")
        signature = Headers(scope=scope).get(SIGNATURE, "")
        body = await read_whole(scope, receive) if scope["method"] == "POST" else b""
        if body is None:
            return _closing(
                refusal(413, "too_large", f"the body is larger than {MOST_BODY} bytes", allowed=f"at most {MOST_BODY}")
            )
        if scope["method"] != "POST":
            response = refusal(405, "method_not_allowed", "a callback is a POST", allowed="POST")
            response.headers["allow"] = "POST"
            return response
        match self._accept(run_id, token, signature, body):
            case CallbackResult.FORGED:
                return refusal(
                    401,
                    "unauthorized",
                    "this callback is not signed for this run and token",
                    field="Tokimori-Signature",
                    allowed="what the header Tokimori-Signature of the request said",
                )
            case CallbackResult.LATE:
                return refusal(
                    410,
                    "too_late",
                    f"attempt {token} of run {run_id} is over, or this node does not have it: nothing was changed",
                    allowed="one callback, within the job's callback_within",
                )
            case CallbackResult.TAKEN:
                return await self._settled(run_id, token)

    async def _settled(self, run_id: str, token: str) -> Response:
        """Wait until the store has the end, for an answer is a promise."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE
        while loop.time() < deadline:
            try:
                run = (await self._service.runs.get(run_id)).run
            except NotFound:  # its retention is over
                return refusal(410, "too_late", f"nothing is known of run {run_id} any more", allowed="one callback")
            if run.state is not RunState.RUNNING or str(run.token) != token:
                return answer(CallbackReply(run_id=run.id, state=run.state))
            await asyncio.sleep(_LOOK_EVERY)
        return refusal(503, "store_unavailable", "the store has not taken it yet", allowed="the same callback again")


def _closing(response: Response) -> Response:
    response.headers["connection"] = "close"
    return response
