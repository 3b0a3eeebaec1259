"""What the service asks of the shared database for named days off. Every method is one transaction."""

from typing import Protocol

from tokimori.model.calendar import Calendar


class Calendars(Protocol):
    """Named days off. What a job needs of them stands in the job itself (`days_off`): nodes never ask for these."""

    async def put_calendar(self, calendar: Calendar) -> None:
        """Keep it, in place of one of that name."""
        ...

    async def get_calendar(self, name: str) -> Calendar:
        """Raises `NotFound`."""
        ...

    async def list_calendars(self) -> list[Calendar]:
        """All, by name."""
        ...

    async def delete_calendar(self, name: str) -> None:
        """Forget it; none of that name is no error."""
        ...
