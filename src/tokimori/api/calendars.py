"""The paths under `/api/v2/calendars`."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tokimori.api.acting import ServiceFor
from tokimori.api.answers import answer, read_body
from tokimori.errors import InvalidInput
from tokimori.service.views.schedules import calendar_view


class Calendars:
    """The part of the API for calendars."""

    def __init__(self, service: ServiceFor) -> None:
        self._service = service

    def routes(self) -> Sequence[Route]:
        """The paths of this part."""
        one = "/api/v2/calendars/{name}"
        return [
            Route("/api/v2/calendars", self.list, methods=["GET"]),
            Route("/api/v2/calendars", self.add, methods=["POST"]),
            Route(one, self.show, methods=["GET"]),
            Route(one, self.update, methods=["PATCH"]),
            Route(one, self.delete, methods=["DELETE"]),
        ]

    async def list(self, request: Request) -> Response:
        """All calendars, by name."""
        return answer([calendar_view(calendar) for calendar in await self._service(request).calendars.list()])

    async def add(self, request: Request) -> Response:
        """Add a calendar: `name`, and `dates`, `weekdays`, `description`."""
        fields = await read_body(request, dict[str, Any])
        name = fields.pop("name", None)
        if not isinstance(name, str):
            raise InvalidInput("name: a calendar needs a name", field="name", value=name, allowed="a text")
        calendar = await self._service(request).calendars.add(name, **fields)
        return answer(calendar_view(calendar), 201, location=f"/api/v2/calendars/{quote(name, safe='')}")

    async def show(self, request: Request) -> Response:
        """A calendar, and the jobs that use it."""
        name, calendars = _name(request), self._service(request).calendars
        return answer(calendar_view(await calendars.get(name), await calendars.jobs(name)))

    async def update(self, request: Request) -> Response:
        """Change fields of a calendar; null empties a field. The jobs that use it take over its days."""
        changes = await read_body(request, dict[str, Any])
        return answer(calendar_view(await self._service(request).calendars.update(_name(request), **changes)))

    async def delete(self, request: Request) -> Response:
        """Delete a calendar that no job uses."""
        name = _name(request)
        await self._service(request).calendars.delete(name)
        return answer({"name": name, "deleted": True})


def _name(request: Request) -> str:
    name: str = request.path_params["name"]
    return name
