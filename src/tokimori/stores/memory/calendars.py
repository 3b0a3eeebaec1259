"""Named days off, in memory."""

from tokimori.model.calendar import Calendar
from tokimori.stores.memory.tables import Tables
from tokimori.stores.rules.errors import no_calendar


def put_calendar(tables: Tables, calendar: Calendar) -> None:
    """See `Calendars.put_calendar`."""
    tables.calendars[calendar.name] = calendar


def get_calendar(tables: Tables, name: str) -> Calendar:
    """See `Calendars.get_calendar`."""
    calendar = tables.calendars.get(name)
    if calendar is None:
        raise no_calendar(name)
    return calendar


def list_calendars(tables: Tables) -> list[Calendar]:
    """See `Calendars.list_calendars`."""
    return [tables.calendars[name] for name in sorted(tables.calendars)]


def delete_calendar(tables: Tables, name: str) -> None:
    """See `Calendars.delete_calendar`."""
    tables.calendars.pop(name, None)
