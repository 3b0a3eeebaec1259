"""Calendars: named days off, and the jobs that use them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple, Protocol, Unpack

import msgspec
from msgspec.structs import replace

from tokimori.errors import AlreadyExists, Conflict, InvalidInput, NotFound, Refused, StoreUnavailable, TokimoriError
from tokimori.model.access_token import Role
from tokimori.model.calendar import Calendar, days_off_of, decode_calendar, encode_calendar, encode_days_off
from tokimori.model.ids import JobId, RandomBytes
from tokimori.model.job import Job
from tokimori.model.words import check_text, check_word
from tokimori.ports.documents import Documents as DocumentStore
from tokimori.ports.store import Jobs
from tokimori.service.access import OPEN, WHOLE, Sight
from tokimori.service.definitions.arguments import CalendarArguments
from tokimori.service.documents import DocumentKind, Documents
from tokimori.service.notifiers import NAMED
from tokimori.service.operation import STATE, Inside, M, Part, operation
from tokimori.service.store_calls import all_jobs, retried
from tokimori.service.validation import day_of, many

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
    """Add a deleted calendar again, unless its name is in use."""
    with suppress(AlreadyExists):
        await calendars.add(calendar.name, calendar)


def _united(calendars: Sequence[Calendar]) -> DaysOff:
    return DaysOff(encode_days_off(calendars), tuple(calendars))


_FIELDS = ("description", "dates", "weekdays")


class CalendarStore(DocumentStore, Jobs, Protocol):
    """Questions of calendars to the store."""


class Calendars(Part[M]):
    """Named days off. `refresh` makes a job take over the days of its calendars.

    Every method may raise `StoreError`; one that names an unknown calendar raises `NotFound`.
    """

    noun, word = "calendars", "calendar"

    def __init__(
        self, store: CalendarStore, random: RandomBytes, refresh: Callable[[JobId], Awaitable[object]]
    ) -> None:
        self._store = store
        self._documents = Documents(store, CALENDARS, random)
        self._refresh = refresh

    @operation(Role.OPERATE, WHOLE, audit=STATE, event="added")
    async def add(self, name: str, /, **fields: Unpack[CalendarArguments]) -> Calendar:
        """Add a calendar: `dates`, `weekdays`, `description`. Raises `InvalidInput` and `AlreadyExists`."""
        calendar = changed_calendar(Calendar(name=name), fields)
        await self._documents.add(name, calendar)
        return calendar

    @operation(Role.READ, OPEN)
    async def get(self, name: str) -> Calendar:
        """Return the calendar. Raises `NotFound`."""
        return await self._documents.get(_checked(name))

    @operation(Role.READ, OPEN)
    async def list(self) -> Sequence[Calendar]:
        """Return all calendars, by name."""
        return await self._documents.list()

    @operation(Role.OPERATE, WHOLE, audit=STATE, event="changed")
    async def update(self, name: str, /, **changes: Unpack[CalendarArguments]) -> Calendar:
        """Change fields of a calendar; None empties a field. All jobs that use it take over the new days.

        Occurrences up to now are decided by the old days. Fields that another caller changes at the same time keep that
        change. After an interruption call it again: jobs with the new days stay as they are. Raises `InvalidInput`,
        `Conflict` while others keep changing it, at last `Refused` for jobs that can't take over its days.
        """
        return await self._change(name, lambda known: changed_calendar(known, changes))

    async def _change(self, name: str, change: Callable[[Calendar], Calendar]) -> Calendar:
        calendar = await self._documents.change(_checked(name), change)
        left: dict[JobId, TokimoriError] = {}
        async for job in self._jobs_of(name):
            try:
                await self._refresh(job.id)
            except NotFound:
                continue  # deleted meanwhile
            except (Conflict, InvalidInput, Refused) as fault:
                left[job.id] = fault
        if left:
            raise _not_followed(name, left)
        return calendar

    @operation(Role.OPERATE, WHOLE, audit=STATE, event="deleted")
    async def delete(self, name: str) -> None:
        """Delete a calendar. Raises `Refused` if a job uses it, and `Conflict` while others keep changing it."""
        _checked(name)
        await retried(lambda: self._delete(name), Conflict)

    async def _delete(self, name: str) -> None:
        document = await self._documents.find(name)
        await self._check_unused(name)
        await self._documents.delete(document)
        try:  # a job was added meanwhile: its caller looks for the calendars again, too
            await retried(lambda: self._check_unused(name), StoreUnavailable)
        except Refused:
            await restore(self._documents, self._documents.value_of(document))
            raise

    @operation(Role.READ, OPEN)
    async def jobs(self, name: str) -> Sequence[JobId]:
        """Return the ids of the jobs that use the calendar."""
        await self.get(name)
        return [job.id async for job in self._jobs_of(name)]

    @jobs.within
    async def _jobs_within(self, sight: Sight, name: str) -> Sequence[JobId]:
        return [job_id for job_id in await self.jobs(name) if await sight.sees_id(job_id)]

    async def _state(self, name: str) -> object:
        """Return the calendar."""
        return await self.get(name)

    async def _check_unused(self, name: str) -> None:
        async for job in self._jobs_of(name):
            message = f"calendar: {name!r} can't be deleted, because the job {job.id!r} uses it"
            raise Refused(message, field="calendar", value=name, allowed="a calendar that no job uses")

    async def _jobs_of(self, name: str) -> AsyncIterator[Job]:
        async for job in all_jobs(self._store):
            if name in job.definition.calendars:
                yield job


async def follow_calendar(calendars: Calendars[Inside], name: str, follow: Callable[[Calendar], Calendar]) -> None:
    """Make a calendar what `follow` makes of it, as it is when it is written. Raises `NotFound`, and what that raises.

    All jobs that use it take over the new days.
    """
    await calendars._change(name, follow)


def _not_followed(name: str, left: Mapping[JobId, TokimoriError]) -> Refused:
    """Return the error for jobs that keep the old days, such as one that this version can't read."""
    faults = [f"{job_id} ({fault.message})" for job_id, fault in islice(left.items(), NAMED)]
    more = [f"{len(left) - NAMED} more"] if len(left) > NAMED else []
    return Refused(
        f"calendar: {name!r} was changed, and these jobs keep its old days: {', '.join([*faults, *more])}",
        field="calendar",
        value=name,
        allowed="the same again, when they can be edited",
    )


def _checked(name: str) -> str:
    check_word("calendar", name)
    return name


def changed_calendar(calendar: Calendar, changes: Mapping[str, object]) -> Calendar:
    """Return the calendar after these changes. Raises `InvalidInput`."""
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
        days = (
            value if value is None or isinstance(value, str) else [day_of(each) for each in many(name, value, "texts")]
        )
        return () if days is None else msgspec.convert(days, tuple[str, ...])
    except msgspec.ValidationError:
        raise InvalidInput(
            f"{name}: {value!r} is not a list of texts", field=name, value=value, allowed="texts"
        ) from None
