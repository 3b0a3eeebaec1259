"""The paths under `/api/v2/calendars`."""

from collections.abc import Sequence
from urllib.parse import quote

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from tokimori.api.answers import answer
from tokimori.api.operation import Fields, Operation, Routes
from tokimori.api.requests import NamedDeleted
from tokimori.errors import InvalidInput
from tokimori.service.views.schedules import CalendarDetails


class CalendarChanges(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes of a calendar; a null empties a field."""

    description: str | None = None
    dates: tuple[str, ...] | None = None
    weekdays: tuple[str, ...] | None = None


class NewCalendar(CalendarChanges, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A calendar: `dates` such as `2026-12-25`, `2026-12-24/2027-01-01` and `12-25`, `weekdays` such as `sat`."""

    name: str


class CalendarRoutes(Routes):
    """The part of the API for calendars."""

    def operations(self) -> Sequence[Operation]:
        """Return the operations of this part."""
        every, one = "/api/v2/calendars", "/api/v2/calendars/{name}"
        return [
            Operation("calendar_list", "GET", every, self.list, list[CalendarDetails]),
            Operation(
                "calendar_add",
                "POST",
                every,
                self.add,
                CalendarDetails,
                sent=NewCalendar,
                status=201,
                example={"name": "holidays", "dates": ["12-25", "12-26"]},
            ),
            Operation("calendar_show", "GET", one, self.show, CalendarDetails),
            Operation(
                "calendar_update",
                "PATCH",
                one,
                self.update,
                CalendarDetails,
                sent=CalendarChanges,
                example={"weekdays": ["sat", "sun"]},
            ),
            Operation("calendar_delete", "DELETE", one, self.delete, NamedDeleted),
        ]

    async def list(self, request: Request) -> Response:
        """Return all calendars, by name."""
        return answer([CalendarDetails.made(calendar) for calendar in await self._service(request).calendars.list()])

    async def add(self, request: Request, body: Fields) -> Response:
        """Add a calendar: `name`, and `dates`, `weekdays`, `description`."""
        name = body.pop("name", None)
        if not isinstance(name, str):
            raise InvalidInput("name: a calendar needs a name", field="name", value=name, allowed="a text")
        calendar = await self._service(request).calendars.add(name, **body)
        return answer(CalendarDetails.made(calendar), 201, location=f"/api/v2/calendars/{quote(name, safe='')}")

    async def show(self, request: Request, name: str) -> Response:
        """Return a calendar, and the jobs that use it."""
        calendars = self._service(request).calendars
        return answer(CalendarDetails.made(await calendars.get(name), jobs=await calendars.jobs(name)))

    async def update(self, request: Request, name: str, body: Fields) -> Response:
        """Change fields of a calendar; null empties a field. The jobs that use it take over its days."""
        return answer(CalendarDetails.made(await self._service(request).calendars.update(name, **body)))

    async def delete(self, request: Request, name: str) -> Response:
        """Delete a calendar that no job uses."""
        await self._service(request).calendars.delete(name)
        return answer(NamedDeleted(name=name, deleted=True))
