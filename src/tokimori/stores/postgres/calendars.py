"""Named days off: statements on their table."""

from tokimori.model.calendar import Calendar, decode_calendar, encode_calendar
from tokimori.stores.postgres.connections import Connections
from tokimori.stores.rules.errors import no_calendar

_PUT = """
INSERT INTO tokimori_calendars (name, definition) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET definition = excluded.definition
"""


async def put_calendar(db: Connections, calendar: Calendar) -> None:
    """See `Calendars.put_calendar`."""
    await db.rows(_PUT, calendar.name, encode_calendar(calendar))


async def get_calendar(db: Connections, name: str) -> Calendar:
    """See `Calendars.get_calendar`."""
    row = await db.row("SELECT definition FROM tokimori_calendars WHERE name = $1", name)
    if row is None:
        raise no_calendar(name)
    return decode_calendar(row[0])


async def list_calendars(db: Connections) -> list[Calendar]:
    """See `Calendars.list_calendars`."""
    return [decode_calendar(row[0]) for row in await db.rows("SELECT definition FROM tokimori_calendars ORDER BY name")]


async def delete_calendar(db: Connections, name: str) -> None:
    """See `Calendars.delete_calendar`."""
    await db.rows("DELETE FROM tokimori_calendars WHERE name = $1", name)
