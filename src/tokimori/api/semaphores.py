"""`/api/v2/semaphores`"""

from collections.abc import Sequence

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tokimori.api.acting import ServiceFor
from tokimori.api.answers import answer, page_of, read_body, read_query
from tokimori.service.asking import MOST_LISTED
from tokimori.service.views.semaphores import semaphore_view


class ListQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Semaphores by name, those behind `after`."""

    after: str | None = None
    limit: int = MOST_LISTED


class LimitRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many units a semaphore is to have."""

    limit: int


class Semaphores:
    """What the door does with semaphores."""

    def __init__(self, service: ServiceFor) -> None:
        self._service = service

    def routes(self) -> Sequence[Route]:
        """The paths."""
        one = "/api/v2/semaphores/{name}"
        return [
            Route("/api/v2/semaphores", self.list, methods=["GET"]),
            Route(one, self.show, methods=["GET"]),
            Route(one, self.put, methods=["PUT"]),
            Route(one, self.delete, methods=["DELETE"]),
        ]

    async def list(self, request: Request) -> Response:
        """By name, with who holds what, a page at a time."""
        query = read_query(request, ListQuery)
        found = await self._service(request).semaphores.list(query.after, query.limit)
        views = [semaphore_view(each) for each in found]
        return page_of(request, views, query.limit, after=found[-1].name if found else None)

    async def show(self, request: Request) -> Response:
        """One of them."""
        return answer(semaphore_view(await self._service(request).semaphores.get(_name(request))))

    async def put(self, request: Request) -> Response:
        """Make it, or give it another limit."""
        wanted = await read_body(request, LimitRequest)
        return answer(semaphore_view(await self._service(request).semaphores.set(_name(request), wanted.limit)))

    async def delete(self, request: Request) -> Response:
        """Forget one that nobody holds or waits for."""
        name = _name(request)
        await self._service(request).semaphores.delete(name)
        return answer({"name": name, "deleted": True})


def _name(request: Request) -> str:
    name: str = request.path_params["name"]
    return name
