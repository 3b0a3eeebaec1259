"""The paths under `/api/v2/claims`: workers in any language claim runs, and say what became of them."""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

from msgspec import UNSET, Struct, UnsetType, field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tokimori.api.answers import answer, read_body
from tokimori.errors import TokimoriError
from tokimori.service.claimed import ClaimedRun
from tokimori.service.claims import Claims
from tokimori.service.views.claims import claim_view, told_view
from tokimori.service.wishes import ALIVE_TIME


class ClaimRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a worker wants: see `Claims.claim`."""

    types: tuple[str, ...] | None
    queue: str | None = None
    limit: int = 1
    wait: float = 0
    alive_time: float = ALIVE_TIME
    worker: str = "a worker"
    labels: dict[str, str] = field(default_factory=dict)
    id: str | None = None


class TokenRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The token of the claim."""

    token: int


class HeartbeatRequest(TokenRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """That a worker lives; `alive_time`: for how long the run is to stay from now on."""

    alive_time: float | None = None


class FinishRequest(TokenRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the run is to hand on to its children, and what its worker wrote."""

    result: object = None
    output: str | None = None


class FailRequest(TokenRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why it failed, and what its worker wrote."""

    error: str
    output: str | None = None


class RetryRequest(TokenRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When it is to be tried again: `after` so many seconds or `at` a moment, at once by default."""

    after: float | None = None
    at: str | None = None
    output: str | None = None


class HoldRequest(TokenRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a person is to look at it."""

    reason: str | UnsetType = UNSET


class ClaimPaths:
    """The part of the API for workers."""

    def __init__(self, claims: Claims) -> None:
        self._claims = claims

    def routes(self) -> Sequence[Route]:
        """The paths of this part."""
        run = "/api/v2/claims/{run_id}"
        ends = (self.heartbeat, self.finish, self.fail, self.retry, self.release, self.hold)
        return [
            Route("/api/v2/claims", self.claim, methods=["POST"]),
            *(Route(f"{run}/{end.__name__}", end, methods=["POST"]) for end in ends),
        ]

    async def claim(self, request: Request) -> Response:
        """Runs for a worker; it waits up to `wait` seconds for the first one, as long as its client does."""
        wanted = await read_body(request, ClaimRequest)
        asked = self._claims.claim(
            wanted.types,
            queue=wanted.queue,
            limit=wanted.limit,
            wait=wanted.wait,
            alive_time=wanted.alive_time,
            worker=wanted.worker,
            labels=wanted.labels,
            id=wanted.id,
        )
        if wanted.wait <= 0:
            return answer([claim_view(run) for run in await asked])
        return answer([claim_view(run) for run in await while_it_waits(request, self._claims, asked)])

    async def heartbeat(self, request: Request) -> Response:
        """Its worker lives."""
        wanted = await read_body(request, HeartbeatRequest)
        heard = await self._claims.heartbeat(_run_id(request), wanted.token, alive_time=wanted.alive_time)
        return answer(heard)

    async def finish(self, request: Request) -> Response:
        """It has done what it should."""
        wanted, run = await read_body(request, FinishRequest), _run_id(request)
        state = await self._claims.finish(run, wanted.token, result=wanted.result, output=wanted.output)
        return answer(told_view(run, state))

    async def fail(self, request: Request) -> Response:
        """It has not."""
        wanted, run = await read_body(request, FailRequest), _run_id(request)
        state = await self._claims.fail(run, wanted.token, error=wanted.error, output=wanted.output)
        return answer(told_view(run, state))

    async def retry(self, request: Request) -> Response:
        """It is to be tried again."""
        wanted, run = await read_body(request, RetryRequest), _run_id(request)
        state = await self._claims.retry(run, wanted.token, after=wanted.after, at=wanted.at, output=wanted.output)
        return answer(told_view(run, state))

    async def release(self, request: Request) -> Response:
        """Somebody else is to do it."""
        wanted, run = await read_body(request, TokenRequest), _run_id(request)
        return answer(told_view(run, await self._claims.release(run, wanted.token)))

    async def hold(self, request: Request) -> Response:
        """A person is to look at it."""
        wanted, run = await read_body(request, HoldRequest), _run_id(request)
        said = {} if wanted.reason is UNSET else {"reason": wanted.reason}
        return answer(told_view(run, await self._claims.hold(run, wanted.token, **said)))


async def while_it_waits(
    request: Request, claims: Claims, asked: Coroutine[Any, Any, Sequence[ClaimedRun]]
) -> Sequence[ClaimedRun]:
    """What was asked for, as long as the client waits. What comes too late goes back: at once, or with beats."""
    taking = asyncio.ensure_future(asked)
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({taking, leaving}, return_when=asyncio.FIRST_COMPLETED)
        taken = taking.result() if taking.done() else ()
        if leaving.done():
            for run in taken:
                with suppress(TokimoriError):
                    await claims.release(run.run_id, run.token)
        return taken
    finally:
        taking.cancel()
        leaving.cancel()


async def _left(request: Request) -> None:
    """Wait until the client has gone: its body is read by now."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _run_id(request: Request) -> str:
    run_id: str = request.path_params["run_id"]
    return run_id
