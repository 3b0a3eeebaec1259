"""The paths under `/api/v2/queues`, `/api/v2/pauses`, and those that pause and resume everything."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from tokimori.api.answers import answer, page_of
from tokimori.api.operation import Operation, Routes
from tokimori.api.requests import NoRequest, PauseRequest
from tokimori.service.validation import MOST_LISTED
from tokimori.service.views.resources import Pause, Queue


class QueueQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Queues by name, from the first one behind `after`."""

    after: str | None = None
    limit: Annotated[int, Meta(ge=1, le=MOST_LISTED)] = MOST_LISTED


class RateRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rate of a queue: its runs that are claimed in any period (`100/1m`, `10/s smooth`, or `none`)."""

    rate: str


class ResumedQueue(Struct, frozen=True, kw_only=True):
    """The queue (`*`: everything), and whether it was paused."""

    queue: str
    resumed: bool


class QueueRoutes(Routes):
    """The part of the API for queues."""

    def operations(self) -> Sequence[Operation]:
        """Return the operations of this part; those without a queue concern everything."""
        queue, all_of_it = "/api/v2/queues/{queue}", "/api/v2"
        why = {"reason": "repairs"}
        return [
            Operation("queue_list", "GET", "/api/v2/queues", self.list, list[Queue]),
            Operation("queue_show", "GET", queue, self.show, Queue),
            Operation("queue_set", "PUT", queue, self.put, Queue, example={"rate": "100/1m"}),
            Operation("queue_pauses", "GET", "/api/v2/pauses", self.pauses, list[Pause]),
            *(
                Operation(f"{name}_pause", "POST", f"{path}/pause", self.pause, Pause, example=why)
                for name, path in (("queue", queue), ("everything", all_of_it))
            ),
            *(
                Operation(f"{name}_resume", "POST", f"{path}/resume", self.resume, ResumedQueue, example={})
                for name, path in (("queue", queue), ("everything", all_of_it))
            ),
        ]

    async def list(self, request: Request, query: QueueQuery) -> Response:
        """List queues by name, a page at a time: those that jobs are in, and those that are paused."""
        found = await self._service(request).queues.list(query.after, query.limit)
        views = [Queue.made(queue) for queue in found]
        return page_of(request, views, more=len(found) == query.limit, after=found[-1].name if found else None)

    async def show(self, request: Request, queue: str) -> Response:
        """Return one queue: the number of its jobs, and the reasons that keep its runs from starting."""
        return answer(Queue.made(await self._service(request).queues.get(queue)))

    async def put(self, request: Request, queue: str, body: RateRequest) -> Response:
        """Set how many runs of a queue are claimed in any period."""
        queues = self._service(request).queues
        return answer(Queue.made(await queues.set(queue, body.rate)))

    async def pauses(self, request: Request) -> Response:
        """Return all pauses; the pause of everything comes first."""
        return answer([Pause.made(pause) for pause in await self._service(request).queues.pauses()])

    async def pause(self, request: Request, queue: str | None, body: PauseRequest) -> Response:
        """Pause a queue or everything: no run starts until it is resumed. A pause that exists stays as it is."""
        queues = self._service(request).queues
        return answer(Pause.made(await queues.pause(queue, body.reason, now=body.now)))

    async def resume(self, request: Request, queue: str | None, body: NoRequest) -> Response:
        """Resume a queue or everything."""
        was = await self._service(request).queues.resume(queue)
        return answer(ResumedQueue(queue="*" if queue is None else queue, resumed=was is not None))
