"""Named days off: statements on their table."""

import sqlite3

from tokimori.model.calendar import Calendar, decode_calendar, encode_calendar
from tokimori.stores.rules.errors import no_calendar


def put_calendar(db: sqlite3.Connection, calendar: Calendar) -> None:
    """See `Calendars.put_calendar`."""
    db.execute(
        "INSERT OR REPLACE INTO tokimori_calendars (name, definition) VALUES (?, ?)",
        (calendar.name, encode_calendar(calendar)),
    )


def get_calendar(db: sqlite3.Connection, name: str) -> Calendar:
    """See `Calendars.get_calendar`."""
    row = db.execute("SELECT definition FROM tokimori_calendars WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise no_calendar(name)
    return decode_calendar(row[0])


def list_calendars(db: sqlite3.Connection) -> list[Calendar]:
    """See `Calendars.list_calendars`."""
    return [decode_calendar(text) for (text,) in db.execute("SELECT definition FROM tokimori_calendars ORDER BY name")]


def delete_calendar(db: sqlite3.Connection, name: str) -> None:
    """See `Calendars.delete_calendar`."""
    db.execute("DELETE FROM tokimori_calendars WHERE name = ?", (name,))
