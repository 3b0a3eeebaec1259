"""The days off that a job takes over from its calendars; a calendar that is deleted meanwhile is restored."""

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from tokimori.errors import AlreadyExists, InvalidInput, NotFound
from tokimori.model.calendar import Calendar, decode_calendar, encode_calendar, encode_days_off
from tokimori.service.documents import DocumentKind, Documents

CALENDARS = DocumentKind("calendar", encode_calendar, decode_calendar)


class DaysOff(NamedTuple):
    """The days off of some calendars together, as a job keeps them (`text`), and the calendars as they were read."""

    text: str | None
    calendars: tuple[Calendar, ...]


async def read_days_off(calendars: Documents[Calendar], names: Sequence[str]) -> DaysOff:
    """Return the days off of the calendars of these names. Raises `InvalidInput` for an unknown one."""
    found = []
    for name in names:
        try:
            found.append(await calendars.get(name))
        except NotFound:
            known = ", ".join(calendar.name for calendar in await calendars.list())
            message = f"calendars: there is no calendar {name!r}"
            allowed = f"one of {known}" if known else "a calendar that exists: `tokimori calendar add` makes one"
            raise InvalidInput(message, field="calendars", value=name, allowed=allowed) from None
    return _united(found)


async def read_again(calendars: Documents[Calendar], days: DaysOff) -> DaysOff:
    """Return the days off of the same calendars, after a job that names them was written.

    A calendar that was deleted at that moment is added again.
    """
    return _united([await _read_again(calendars, calendar) for calendar in days.calendars])


async def _read_again(calendars: Documents[Calendar], calendar: Calendar) -> Calendar:
    try:
        return await calendars.get(calendar.name)
    except NotFound:
        await restore(calendars, calendar)
        return await calendars.get(calendar.name)


async def restore(calendars: Documents[Calendar], calendar: Calendar) -> None:
    """Add a deleted calendar again, unless there is another one of its name by now."""
    with suppress(AlreadyExists):
        await calendars.add(calendar.name, calendar)


def _united(calendars: Sequence[Calendar]) -> DaysOff:
    return DaysOff(encode_days_off(calendars), tuple(calendars))
