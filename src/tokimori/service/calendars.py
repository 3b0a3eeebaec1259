"""Calendars: named days off, and the jobs that use them."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple, Protocol, Unpack

import msgspec
from msgspec.structs import replace

from tokimori.errors import AlreadyExists, Conflict, InvalidInput, NotFound, Refused, StoreUnavailable, TokimoriError
from tokimori.model.access_token import Role
from tokimori.model.calendar import Calendar, days_off_of, decode_calendar, encode_calendar, encode_days_off
from tokimori.model.ids import JobId, RandomBytes
from tokimori.model.job import Job, schedule_of
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


class CalendarsToBe(Documents[Calendar]):
    """Calendars as they will be after these changes; None: it is deleted."""

    def __init__(self, store: DocumentStore, changes: Mapping[str, Calendar | None], random: RandomBytes) -> None:
        super().__init__(store, CALENDARS, random)
        self._changes = changes

    async def get(self, name: str) -> Calendar:
        """Return the calendar. Raises `NotFound`."""
        found = self._changes[name] if name in self._changes else await super().get(name)
        if found is None:
            raise NotFound(f"there is no calendar {name!r}", field="calendar", value=name)
        return found

    async def check_jobs(self, jobs: AsyncIterable[Job]) -> None:
        """Refuse changes if some of these jobs can't have the new days off. Raises `Refused`.

        A job that this version can't read does not count: it keeps no other one from new days.
        """
        if not (names := [name for name, calendar in self._changes.items() if calendar is not None]):
            return
        known, left = dict[tuple[str, ...], DaysOff](), dict[JobId, TokimoriError]()
        async for job in jobs:
            used = job.definition.calendars
            if any(name in used for name in names):
                await asyncio.sleep(0)  # on the loop of a node, runs have their turn
                days = known[used] = known.get(used) or await read_days_off(self, used)
                if (fault := _fault_with(job, days)) is not None:
                    left[job.id] = fault
        if left:
            what = f"{', '.join(map(repr, names))} can't be changed so, as these jobs can't have the new days"
            raise _refused(names[0], what, left, allowed="other days, or first another schedule of these jobs")


def _fault_with(job: Job, days: DaysOff) -> InvalidInput | None:
    """Return why the job can't have these days off; None if it can, or if this version can't read it."""
    with suppress(InvalidInput):
        schedule_of(job.definition, job.anchor, job.id, job.days_off)
        try:
            schedule_of(job.definition, job.anchor, job.id, days.text)
        except InvalidInput as fault:
            return fault
    return None


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
        self._store, self._random = store, random
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
        `Conflict` while others keep changing it, and `Refused` if a job can't have the new days: then nothing was
        changed, unless the error names jobs that keep the old ones.
        """
        to_be = {name: changed_calendar(await self.get(name), changes)}
        await CalendarsToBe(self._store, to_be, self._random).check_jobs(self._jobs_of(name))
        return await self._change(name, lambda known: changed_calendar(known, changes))

    async def _change(
        self, name: str, change: Callable[[Calendar], Calendar], rewritten: Collection[str] = ()
    ) -> Calendar:
        calendar = await self._documents.change(_checked(name), change)
        left: dict[JobId, TokimoriError] = {}
        async for job in self._jobs_of(name):
            try:
                await self._refresh(job.id)
            except NotFound:
                continue  # deleted meanwhile
            except (Conflict, InvalidInput, Refused) as fault:
                if job.id not in rewritten:
                    left[job.id] = fault
        if left:
            what = f"{name!r} was changed, and these jobs keep its old days"
            raise _refused(name, what, left, allowed="the same again, when they can be edited")
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


async def follow_calendar(
    calendars: Calendars[Inside], name: str, follow: Callable[[Calendar], Calendar], rewritten: Collection[str]
) -> None:
    """Make a calendar what `follow` makes of it, as it is when it is written. Raises `NotFound`, and what that raises.

    All jobs that use it take over the new days; of those that are rewritten next, none has to.
    """
    await calendars._change(name, follow, rewritten)


def _refused(name: str, what: str, left: Mapping[JobId, TokimoriError], *, allowed: str) -> Refused:
    """Return the error for jobs that can't have the days of a calendar."""
    faults = [f"{job_id} ({fault.message})" for job_id, fault in islice(left.items(), NAMED)]
    more = [f"{len(left) - NAMED} more"] if len(left) > NAMED else []
    message = f"calendar: {what}: {', '.join([*faults, *more])}"
    return Refused(message, field="calendar", value=name, allowed=allowed)


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
