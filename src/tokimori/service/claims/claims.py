"""Claims: workers outside of nodes ask for runs, say that they live, and how the runs ended (docs/decisions/0034)."""

from collections.abc import Mapping, Sequence
from typing import Any

from tokimori.errors import Refused
from tokimori.model.access_token import Role
from tokimori.model.ids import ClaimId, RandomBytes
from tokimori.model.outcome import Failed, Hold, Released, Succeeded
from tokimori.model.transitions import RunState
from tokimori.service.access import Given, Reach, Sight, no_run, out_of_scope
from tokimori.service.claims.claimed import ClaimedRun, HeartbeatAnswer
from tokimori.service.claims.place import ClaimPlace
from tokimori.service.claims.worker_arguments import (
    ALIVE_TIME,
    alive_time_of,
    key_of,
    result_of,
    retry_of,
    said_text,
    spawns_in,
    worker_request_of,
)
from tokimori.service.operation import M, Part, operation
from tokimori.service.validation import Span, When
from tokimori.service.views.claims import ClaimedRun as ClaimedRunView
from tokimori.service.views.claims import HeartbeatAnswer as HeartbeatAnswerView
from tokimori.service.views.outside import list_of


async def _is_own(sight: Sight, claims: "Claims[Any]", given: Given) -> bool:
    """Return if the run was claimed with the same token, in whichever queue its job is by now, or is in scope."""
    return has_claimed(claims, given["run_id"], given["token"]) or await sight.sees_run_id(given["run_id"])


async def _owns_queue(sight: Sight, _: object, given: Given) -> bool:
    """Return if runs are claimed of one of the token's queues: which run of a queue comes next no worker says."""
    return given["queue"] is not None and sight.scope.owns_queue(given["queue"])


CLAIM = Reach(_is_own, "id", no_run)
OF_QUEUE = Reach(_owns_queue, "queue: which runs come is known by their queue alone, so", about="queue")


class Claims(Part[M]):
    """Operations of workers. Every method may raise `InvalidInput` and `StoreError`."""

    noun, word = "claims", "run"

    def __init__(self, place: ClaimPlace | None, random: RandomBytes, access_token: str | None = None) -> None:
        self._place_or_none = place
        self._random = random
        self._access_token = access_token

    @property
    def _place(self) -> ClaimPlace:
        if self._place_or_none is None:
            raise Refused("claims: this service has no place for workers", allowed="a node's door, or a client")
        return self._place_or_none

    @operation(Role.OPERATE, OF_QUEUE, doing="Claiming runs", gives=list_of(ClaimedRunView.made))
    async def claim(
        self,
        types: Sequence[str] | None,
        *,
        queue: str | None = None,
        limit: int = 1,
        wait: Span = 0,
        alive_time: Span = ALIVE_TIME,
        worker: str = "a worker",
        labels: Mapping[str, str] | None = None,
        id: str | None = None,
    ) -> Sequence[ClaimedRun]:
        """Take up to `limit` ready runs of jobs whose function is one of these types; wait for the first one.

        `types` None: every function; `queue`: only jobs of this queue. A program that claims in its own store needs no
        node: it makes the due runs itself.

        The list is empty if none was ready in time. `alive_time`: the seconds that a run stays without a heartbeat.
        `worker` is a name for people. `labels` are compared with those that jobs require. A repeated `id` (a UUID)
        returns the same runs as long as they are held, so a lost answer can be requested again. Raises `InvalidInput`,
        and `Refused` if too many workers wait, too many runs are held, or the node stops.
        """
        drawn = ClaimId(self._random(16).hex())
        request = worker_request_of(
            types,
            queue=queue,
            limit=limit,
            wait=wait,
            alive_time=alive_time,
            worker=worker,
            labels=labels,
            id=id,
            drawn=drawn,
            access_token=self._access_token,
        )
        return await self._place.take(request)

    @operation(Role.OPERATE, CLAIM, gives=HeartbeatAnswerView.made)
    async def heartbeat(self, run_id: str, token: int, *, alive_time: Span | None = None) -> HeartbeatAnswer:
        """Report that the worker still works on the run: its claim lasts another `alive_time`. Raises `ClaimLost`."""
        seconds = None if alive_time is None else alive_time_of(alive_time)
        return await self._place.heartbeat(key_of(run_id, token), seconds)

    @operation(Role.OPERATE, CLAIM)
    async def finish(
        self,
        run_id: str,
        token: int,
        *,
        result: object = None,
        output: str | None = None,
        spawn: Sequence[Mapping[str, object]] = (),
    ) -> RunState:
        """End an attempt as succeeded; return the state of the run. `result` becomes the payload of the run's children.

        A text stays as it is, everything else is written as JSON. `spawn`: these runs are made (`job` and `payload` of
        each), and the run waits for their ends; its result is the list of theirs. A repeated call changes nothing.
        Raises `ClaimLost` if the worker no longer holds the run.
        """
        outcome = spawns_in(spawn) if spawn else Succeeded(result=result_of(result))
        return await self._place.end(key_of(run_id, token), "finish", outcome, output)

    @finish.within
    async def _finish_within(
        self,
        sight: Sight,
        run_id: str,
        token: int,
        *,
        result: object = None,
        output: str | None = None,
        spawn: Sequence[Mapping[str, object]] = (),
    ) -> RunState:
        """Check that runs may be requested of the jobs that are spawned."""
        for job_id in {job_id for job_id, _ in spawns_in(spawn).children} if spawn else ():
            if not await sight.sees_id(job_id):
                raise out_of_scope(f"spawn: {job_id!r}", job_id)
        return await self.finish(run_id, token, result=result, output=output, spawn=spawn)

    @operation(Role.OPERATE, CLAIM)
    async def fail(
        self, run_id: str, token: int, *, error: str, retry: bool = True, output: str | None = None
    ) -> RunState:
        """End an attempt as failed; its policy decides about a retry, unless `retry` is false. Else as `finish`."""
        outcome = Failed(said_text("error", error), final=not retry)
        return await self._place.end(key_of(run_id, token), "fail", outcome, output)

    @operation(Role.OPERATE, CLAIM)
    async def retry(
        self, run_id: str, token: int, *, after: Span | None = None, at: When | None = None, output: str | None = None
    ) -> RunState:
        """End an attempt as failed, and retry it `after` some seconds, or `at` a moment; else it is like `finish`."""
        return await self._place.end(key_of(run_id, token), "retry", retry_of(after, at), output)

    @operation(Role.OPERATE, CLAIM)
    async def release(self, run_id: str, token: int) -> RunState:
        """Release the run for another worker; the attempt does not count. Otherwise it is like `finish`."""
        return await self._place.end(key_of(run_id, token), "release", Released("its worker released it", asked=True))

    @operation(Role.OPERATE, CLAIM)
    async def hold(self, run_id: str, token: int, *, reason: str = "its worker asks for a person") -> RunState:
        """Hold the run until a person resumes it (`tokimori run resume`). Otherwise it is like `finish`."""
        return await self._place.end(key_of(run_id, token), "hold", Hold(said_text("reason", reason)))


def has_claimed(claims: Claims[Any], run_id: object, token: object) -> bool:
    """Return whether the run was claimed here with the same access token. Raises `InvalidInput`."""
    known = claims._access_token
    return known is not None and claims._place.access_token_of(key_of(run_id, token)) == known
