"""Named days off: what is asked of the scripts on them."""

from tokimori.model.calendar import Calendar, decode_calendar, encode_calendar
from tokimori.stores.redis.connections import Connections
from tokimori.stores.rules.errors import no_calendar


async def put_calendar(db: Connections, calendar: Calendar) -> None:
    """See `Calendars.put_calendar`."""
    await db.run("put_calendar", name=calendar.name, definition=encode_calendar(calendar))


async def get_calendar(db: Connections, name: str) -> Calendar:
    """See `Calendars.get_calendar`."""
    found = await db.run("get_calendar", name=name)
    if found is None:
        raise no_calendar(name)
    return decode_calendar(found)


async def list_calendars(db: Connections) -> list[Calendar]:
    """See `Calendars.list_calendars`."""
    found = [decode_calendar(text) for text in await db.run("list_calendars")]
    return sorted(found, key=lambda calendar: calendar.name)


async def delete_calendar(db: Connections, name: str) -> None:
    """See `Calendars.delete_calendar`."""
    await db.run("delete_calendar", name=name)
