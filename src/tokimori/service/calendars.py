"""Calendars: named days off, and the jobs that keep them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Protocol, Unpack

import msgspec
from msgspec.structs import replace

from tokimori.errors import AlreadyExists, InvalidInput, NotFound, Refused
from tokimori.model.calendar import Calendar, days_off_of, encode_days_off
from tokimori.model.ids import JobId
from tokimori.model.job import Job
from tokimori.model.words import check_text, check_word
from tokimori.ports.calendars import Calendars as StoredCalendars
from tokimori.ports.store import Jobs
from tokimori.service.arguments import CalendarArguments
from tokimori.service.asking import all_jobs

_FIELDS = ("description", "dates", "weekdays")


class CalendarStore(StoredCalendars, Jobs, Protocol):
    """What calendars ask of the store."""


class Calendars:
    """Named days off. `refresh` has a job take over the days of its calendars, as an edit of it does.

    Every method may raise `StoreError`; those that name a calendar raise `NotFound` where there is none.
    """

    def __init__(self, store: CalendarStore, refresh: Callable[[JobId], Awaitable[object]]) -> None:
        self._store = store
        self._refresh = refresh

    async def add(self, name: str, /, **fields: Unpack[CalendarArguments]) -> Calendar:
        """Keep named days off: `dates`, `weekdays`, `description`. Raises `InvalidInput` and `AlreadyExists`."""
        calendar = _calendar(Calendar(name=name), fields)
        if any(known.name == name for known in await self._store.list_calendars()):
            message = f"calendar: there is a {name!r} already"
            raise AlreadyExists(message, field="calendar", value=name, allowed="a name not in use")
        await self._store.put_calendar(calendar)
        return calendar

    async def get(self, name: str) -> Calendar:
        """The calendar. Raises `NotFound`."""
        return await self._store.get_calendar(_checked(name))

    async def list(self) -> Sequence[Calendar]:
        """All calendars, by name."""
        return await self._store.list_calendars()

    async def update(self, name: str, /, **changes: Unpack[CalendarArguments]) -> Calendar:
        """Change fields of a calendar; None empties one. Every job that names it takes over the days from now on.

        Everything up to now is decided by the old days. If it was interrupted, the same call again goes on: jobs that
        have the days already stay as they are. Raises `InvalidInput`.
        """
        calendar = _calendar(await self.get(name), changes)
        await self._store.put_calendar(calendar)
        async for job in self._jobs_of(name):
            try:
                await self._refresh(job.id)
            except NotFound:
                continue  # deleted meanwhile
        return calendar

    async def delete(self, name: str) -> None:
        """Forget a calendar. Raises `Refused` where a job names it."""
        calendar = await self.get(name)
        await self._check_unused(name)
        await self._store.delete_calendar(name)
        try:
            await self._check_unused(name)  # a job that was added meanwhile
        except Refused:
            await self._store.put_calendar(calendar)
            raise

    async def jobs(self, name: str) -> Sequence[JobId]:
        """The ids of the jobs that name the calendar."""
        await self.get(name)
        return [job.id async for job in self._jobs_of(name)]

    async def _check_unused(self, name: str) -> None:
        async for job in self._jobs_of(name):
            message = f"calendar: the job {job.id!r} keeps {name!r}"
            raise Refused(message, field="calendar", value=name, allowed="a calendar that no job names")

    async def _jobs_of(self, name: str) -> AsyncIterator[Job]:
        async for job in all_jobs(self._store):
            if name in job.definition.calendars:
                yield job


async def kept_days_off(store: StoredCalendars, names: Sequence[str]) -> str | None:
    """The days off of these calendars together, as a job keeps them. Raises `InvalidInput` for an unknown one."""
    calendars = []
    for name in names:
        try:
            calendars.append(await store.get_calendar(name))
        except NotFound:
            known = ", ".join(calendar.name for calendar in await store.list_calendars())
            message = f"calendars: there is no {name!r}"
            allowed = f"one of {known}" if known else "none: there are no calendars yet"
            raise InvalidInput(message, field="calendars", value=name, allowed=allowed) from None
    return encode_days_off(calendars)


def _checked(name: str) -> str:
    check_word("calendar", name)
    return name


def _calendar(calendar: Calendar, changes: Mapping[str, object]) -> Calendar:
    """The calendar after these changes. Raises `InvalidInput`."""
    for name, value in changes.items():
        if name not in _FIELDS:
            allowed = f"one of {', '.join(_FIELDS)}"
            raise InvalidInput(f"{name}: a calendar has no such field", field=name, value=value, allowed=allowed)
    description = changes.get("description", calendar.description)
    if not isinstance(description, str | None):
        raise InvalidInput("description: not a text", field="description", value=description, allowed="a text")
    changed = replace(
        calendar,
        description=description,
        dates=_texts("dates", changes.get("dates", calendar.dates)),
        weekdays=_texts("weekdays", changes.get("weekdays", calendar.weekdays)),
    )
    check_word("calendar", changed.name)
    check_text("description", description or "")
    days_off_of(changed)
    return changed


def _texts(name: str, value: object) -> tuple[str, ...]:
    try:
        return () if value is None else msgspec.convert(value, tuple[str, ...])
    except msgspec.ValidationError:
        raise InvalidInput(f"{name}: {value!r} is no list of texts", field=name, value=value, allowed="texts") from None
