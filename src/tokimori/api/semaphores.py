"""The paths under `/api/v2/semaphores`."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from tokimori.api.answers import answer, page_of
from tokimori.api.operation import Operation, Routes
from tokimori.api.requests import NamedDeleted
from tokimori.service.validation import MOST_LISTED
from tokimori.service.views.resources import SemaphoreDetails


class SemaphoreQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Semaphores by name, from the first one behind `after`."""

    after: str | None = None
    limit: Annotated[int, Meta(ge=1, le=MOST_LISTED)] = MOST_LISTED


class LimitRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The number of units of a semaphore, and its rate (`100/1m`, or `none`); an absent member changes nothing."""

    limit: int | None = None
    rate: str | None = None


class SemaphoreRoutes(Routes):
    """The part of the API for semaphores."""

    def operations(self) -> Sequence[Operation]:
        """Return the operations of this part."""
        every, one = "/api/v2/semaphores", "/api/v2/semaphores/{name}"
        return [
            Operation("semaphore_list", "GET", every, self.list, list[SemaphoreDetails]),
            Operation("semaphore_show", "GET", one, self.show, SemaphoreDetails),
            Operation("semaphore_set", "PUT", one, self.put, SemaphoreDetails, example={"limit": 3, "rate": "100/1m"}),
            Operation("semaphore_delete", "DELETE", one, self.delete, NamedDeleted),
        ]

    async def list(self, request: Request, query: SemaphoreQuery) -> Response:
        """List semaphores by name, with their holders, a page at a time."""
        found = await self._service(request).semaphores.list(query.after, query.limit)
        views = [SemaphoreDetails.made(each) for each in found]
        return page_of(request, views, more=len(found) == query.limit, after=found[-1].name if found else None)

    async def show(self, request: Request, name: str) -> Response:
        """Return one semaphore."""
        return answer(SemaphoreDetails.made(await self._service(request).semaphores.get(name)))

    async def put(self, request: Request, name: str, body: LimitRequest) -> Response:
        """Make a semaphore, or change its limit and its rate."""
        found = await self._service(request).semaphores.set(name, body.limit, body.rate)
        return answer(SemaphoreDetails.made(found))

    async def delete(self, request: Request, name: str) -> Response:
        """Delete a semaphore without holders and waiters."""
        await self._service(request).semaphores.delete(name)
        return answer(NamedDeleted(name=name, deleted=True))
