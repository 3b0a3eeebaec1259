"""Named days off in the shared database. Every method is one transaction."""

from typing import Protocol

from tokimori.model.calendar import Calendar


class Calendars(Protocol):
    """Named days off. A job keeps a copy of the days that it needs (`days_off`), so nodes never ask for calendars."""

    async def put_calendar(self, calendar: Calendar) -> None:
        """Keep the calendar; it replaces one of the same name."""
        ...

    async def get_calendar(self, name: str) -> Calendar:
        """The calendar of that name. Raises `NotFound`."""
        ...

    async def list_calendars(self) -> list[Calendar]:
        """All calendars, in order of their names."""
        ...

    async def delete_calendar(self, name: str) -> None:
        """Delete the calendar of that name; it is no error if there is none."""
        ...
