"""The paths under `/api/v2/semaphores`."""

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
    """Semaphores by name, from the first one behind `after`."""

    after: str | None = None
    limit: int = MOST_LISTED


class LimitRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The number of units of a semaphore."""

    limit: int


class Semaphores:
    """The part of the API for semaphores."""

    def __init__(self, service: ServiceFor) -> None:
        self._service = service

    def routes(self) -> Sequence[Route]:
        """The paths of this part."""
        one = "/api/v2/semaphores/{name}"
        return [
            Route("/api/v2/semaphores", self.list, methods=["GET"]),
            Route(one, self.show, methods=["GET"]),
            Route(one, self.put, methods=["PUT"]),
            Route(one, self.delete, methods=["DELETE"]),
        ]

    async def list(self, request: Request) -> Response:
        """Semaphores by name, with their holders, a page at a time."""
        query = read_query(request, ListQuery)
        found = await self._service(request).semaphores.list(query.after, query.limit)
        views = [semaphore_view(each) for each in found]
        return page_of(request, views, query.limit, after=found[-1].name if found else None)

    async def show(self, request: Request) -> Response:
        """One semaphore."""
        return answer(semaphore_view(await self._service(request).semaphores.get(_name(request))))

    async def put(self, request: Request) -> Response:
        """Make a semaphore, or change its limit."""
        wanted = await read_body(request, LimitRequest)
        return answer(semaphore_view(await self._service(request).semaphores.set(_name(request), wanted.limit)))

    async def delete(self, request: Request) -> Response:
        """Delete a semaphore that nobody holds or waits for."""
        name = _name(request)
        await self._service(request).semaphores.delete(name)
        return answer({"name": name, "deleted": True})


def _name(request: Request) -> str:
    name: str = request.path_params["name"]
    return name
