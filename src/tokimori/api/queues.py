"""The paths under `/api/v2/queues`, `/api/v2/pauses`, and those that pause and resume everything."""

from collections.abc import Sequence

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tokimori.api.acting import ServiceFor
from tokimori.api.answers import answer, read_body
from tokimori.service.views.queues import pause_view, queue_view


class PauseRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why it is paused; `now`: whether its running runs are cancelled."""

    reason: str | None = None
    now: bool = False


class NoRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A body without fields."""


class Queues:
    """The part of the API for queues."""

    def __init__(self, service: ServiceFor) -> None:
        self._service = service

    def routes(self) -> Sequence[Route]:
        """The paths of this part; those without a queue concern everything."""
        queue = "/api/v2/queues/{queue}"
        return [
            Route("/api/v2/queues", self.list, methods=["GET"]),
            Route("/api/v2/pauses", self.pauses, methods=["GET"]),
            *(Route(f"{what}/pause", self.pause, methods=["POST"]) for what in (queue, "/api/v2")),
            *(Route(f"{what}/resume", self.resume, methods=["POST"]) for what in (queue, "/api/v2")),
        ]

    async def list(self, request: Request) -> Response:
        """All queues, by name."""
        return answer([queue_view(queue) for queue in await self._service(request).queues.list()])

    async def pauses(self, request: Request) -> Response:
        """All pauses; the pause of everything comes first."""
        return answer([pause_view(pause) for pause in await self._service(request).queues.pauses()])

    async def pause(self, request: Request) -> Response:
        """Pause a queue or everything: no run starts until it is resumed. A pause that exists stays as it is."""
        wanted = await read_body(request, PauseRequest)
        return answer(
            pause_view(await self._service(request).queues.pause(_queue(request), wanted.reason, now=wanted.now))
        )

    async def resume(self, request: Request) -> Response:
        """Resume a queue or everything."""
        await read_body(request, NoRequest)
        queue = _queue(request)
        was = await self._service(request).queues.resume(queue)
        return answer({"queue": "*" if queue is None else queue, "resumed": was is not None})


def _queue(request: Request) -> str | None:
    queue: str | None = request.path_params.get("queue")
    return queue
