"""Calendars: named days off, and the jobs that keep them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Protocol, Unpack

import msgspec
from msgspec.structs import replace

from tokimori.errors import Conflict, InvalidInput, NotFound, Refused, StoreUnavailable
from tokimori.model.calendar import Calendar, days_off_of
from tokimori.model.ids import JobId, RandomBytes
from tokimori.model.job import Job
from tokimori.model.words import check_text, check_word
from tokimori.ports.documents import Documents as DocumentStore
from tokimori.ports.store import Jobs
from tokimori.service.arguments import CalendarArguments
from tokimori.service.asking import all_jobs, retried
from tokimori.service.days_off import CALENDARS, restore
from tokimori.service.documents import Documents

_FIELDS = ("description", "dates", "weekdays")


class CalendarStore(DocumentStore, Jobs, Protocol):
    """What calendars ask of the store."""


class Calendars:
    """Named days off. `refresh` has a job take over the days of its calendars, as an edit of it does.

    Every method may raise `StoreError`; those that name a calendar raise `NotFound` where there is none.
    """

    def __init__(
        self, store: CalendarStore, random: RandomBytes, refresh: Callable[[JobId], Awaitable[object]]
    ) -> None:
        self._store = store
        self._documents = Documents(store, CALENDARS, random)
        self._refresh = refresh

    async def add(self, name: str, /, **fields: Unpack[CalendarArguments]) -> Calendar:
        """Keep named days off: `dates`, `weekdays`, `description`. Raises `InvalidInput` and `AlreadyExists`."""
        calendar = _calendar(Calendar(name=name), fields)
        await self._documents.add(name, calendar)
        return calendar

    async def get(self, name: str) -> Calendar:
        """The calendar. Raises `NotFound`."""
        return await self._documents.get(_checked(name))

    async def list(self) -> Sequence[Calendar]:
        """All calendars, by name."""
        return await self._documents.list()

    async def update(self, name: str, /, **changes: Unpack[CalendarArguments]) -> Calendar:
        """Change fields of a calendar; None empties one. Every job that names it takes over the days from now on.

        Everything up to now is decided by the old days. Fields that somebody else changes at the same time stay as they
        are there. If it was interrupted, the same call again goes on: jobs that have the days already stay as they are.
        Raises `InvalidInput`, and `Conflict` where others keep changing the calendar.
        """
        calendar = await self._documents.change(_checked(name), lambda known: _calendar(known, changes))
        async for job in self._jobs_of(name):
            try:
                await self._refresh(job.id)
            except NotFound:
                continue  # deleted meanwhile
        return calendar

    async def delete(self, name: str) -> None:
        """Forget a calendar. Raises `Refused` where a job names it, and `Conflict` where others keep changing it."""
        _checked(name)
        await retried(lambda: self._delete(name), Conflict)

    async def _delete(self, name: str) -> None:
        document = await self._documents.find(name)
        await self._check_unused(name)
        await self._documents.delete(document)
        try:  # a job that was added meanwhile: whoever added it looks for its calendars again, too
            await retried(lambda: self._check_unused(name), StoreUnavailable)
        except Refused:
            await restore(self._documents, self._documents.value_of(document))
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
