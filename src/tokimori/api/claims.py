"""The paths under `/api/v2/claims`: workers in any language claim runs, and say what became of them."""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

from msgspec import UNSET, Struct, UnsetType, field, to_builtins
from starlette.requests import Request
from starlette.responses import Response

from tokimori.api.answers import answer
from tokimori.api.operation import Operation
from tokimori.api.request_service import ClaimsFor
from tokimori.errors import TokimoriError
from tokimori.service.claims.claimed import ClaimedRun, HeartbeatAnswer
from tokimori.service.claims.claims import Claims
from tokimori.service.claims.worker_arguments import ALIVE_TIME
from tokimori.service.operation import Inside
from tokimori.service.views.claims import ReportedState, WorkerRun, reported_state


class ClaimRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Request of a worker: see `Claims.claim`."""

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
    """Heartbeat of a worker; `alive_time`: for how long the run is to stay from now on."""

    alive_time: float | None = None


class SpawnRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run that is spawned, by its job."""

    job: str
    payload: object = None


class FinishRequest(TokenRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """End of a run that succeeded: its result for children, its worker's output, and runs for whose ends it waits."""

    result: object = None
    output: str | None = None
    spawn: tuple[SpawnRequest, ...] = ()


class FailRequest(TokenRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """End of a run that failed: its error, and its worker's output; without `retry` it is not tried again."""

    error: str
    retry: bool = True
    output: str | None = None


class RetryRequest(TokenRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Retry of a run: `after` some seconds or `at` a moment, by default at once."""

    after: float | None = None
    at: str | None = None
    output: str | None = None


class HandBackRequest(TokenRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Reason why a person is to look at a run."""

    reason: str | UnsetType = UNSET


class ClaimPaths:
    """The part of the API for workers."""

    def __init__(self, claims: ClaimsFor) -> None:
        self._claims = claims

    def operations(self) -> Sequence[Operation]:
        """Return the operations of this part."""
        said: dict[str, dict[str, object]] = {
            "heartbeat": {"token": 1},
            "finish": {"token": 1, "result": {"pages": 12}},
            "fail": {"token": 1, "error": "no paper"},
            "retry": {"token": 1, "after": 60},
            "release": {"token": 1},
            "hold": {"token": 1, "reason": "to be looked at"},
        }
        ends = (self.heartbeat, self.finish, self.fail, self.retry, self.release, self.hold)
        return [
            Operation(
                "claim",
                "POST",
                "/api/v2/claims",
                self.claim,
                list[WorkerRun],
                example={"types": ["print"], "limit": 1, "worker": "printer 3"},
            ),
            *(
                Operation(
                    f"claim_{end.__name__}",
                    "POST",
                    f"/api/v2/claims/{{run_id}}/{end.__name__}",
                    end,
                    HeartbeatAnswer if end == self.heartbeat else ReportedState,
                    example=said[end.__name__],
                )
                for end in ends
            ),
        ]

    async def claim(self, request: Request, body: ClaimRequest) -> Response:
        """Return runs for a worker; it waits up to `wait` seconds for the first one, as long as its client does."""
        claims = self._claims(request)
        asked = claims.claim(
            body.types,
            queue=body.queue,
            limit=body.limit,
            wait=body.wait,
            alive_time=body.alive_time,
            worker=body.worker,
            labels=body.labels,
            id=body.id,
        )
        if body.wait <= 0:
            return answer([WorkerRun.made(run) for run in await asked])
        return answer([WorkerRun.made(run) for run in await while_it_waits(request, claims, asked)])

    async def heartbeat(self, request: Request, run_id: str, body: HeartbeatRequest) -> Response:
        """Receive the heartbeat of a worker. The answer says whether to go on."""
        return answer(await self._claims(request).heartbeat(run_id, body.token, alive_time=body.alive_time))

    async def finish(self, request: Request, run_id: str, body: FinishRequest) -> Response:
        """End a claimed run as succeeded."""
        spawn = [to_builtins(each) for each in body.spawn]
        claims = self._claims(request)
        state = await claims.finish(run_id, body.token, result=body.result, output=body.output, spawn=spawn)
        return answer(reported_state(run_id, state))

    async def fail(self, request: Request, run_id: str, body: FailRequest) -> Response:
        """End a claimed run as failed."""
        claims = self._claims(request)
        state = await claims.fail(run_id, body.token, error=body.error, retry=body.retry, output=body.output)
        return answer(reported_state(run_id, state))

    async def retry(self, request: Request, run_id: str, body: RetryRequest) -> Response:
        """Ask for a retry of a claimed run."""
        state = await self._claims(request).retry(run_id, body.token, after=body.after, at=body.at, output=body.output)
        return answer(reported_state(run_id, state))

    async def release(self, request: Request, run_id: str, body: TokenRequest) -> Response:
        """Release the run for another worker."""
        return answer(reported_state(run_id, await self._claims(request).release(run_id, body.token)))

    async def hold(self, request: Request, run_id: str, body: HandBackRequest) -> Response:
        """Ask for a person to look at a claimed run."""
        fields = {} if body.reason is UNSET else {"reason": body.reason}
        return answer(reported_state(run_id, await self._claims(request).hold(run_id, body.token, **fields)))


async def while_it_waits(
    request: Request, claims: Claims[Inside], asked: Coroutine[Any, Any, Sequence[ClaimedRun]]
) -> Sequence[ClaimedRun]:
    """Return the claimed runs, as long as the client waits. What comes too late goes back: at once, or with beats."""
    taking = asyncio.ensure_future(asked)
    leaving = asyncio.ensure_future(_until_disconnect(request))
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


async def _until_disconnect(request: Request) -> None:
    """Wait until the client has gone: its body is read by now."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
