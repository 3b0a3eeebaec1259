"""Resources: what a set declares beside jobs, which are calendars, pauses of queues and limits of semaphores.

Each name has a state, also if there is nothing of that name: a calendar without fields, a queue that is not paused,
a semaphore of one unit, as programs get one that nobody made. States are fields as JSON has them.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol, assert_never

from msgspec import Struct

from tokimori.errors import AlreadyExists, Conflict, InvalidInput, NotFound, Refused
from tokimori.model.calendar import Calendar
from tokimori.model.claim_rate import NO_RATE, parse_claim_rate
from tokimori.model.lanes import EVERYTHING
from tokimori.model.semaphores import DEFAULT_LIMIT, MOST_UNITS, is_rate_alone, rate_of_queue
from tokimori.model.sizes import check_reason
from tokimori.model.words import check_word
from tokimori.ports.semaphores import Semaphore
from tokimori.ports.semaphores import SemaphoreTable as SemaphoreStore
from tokimori.service.calendars import Calendars, changed_calendar, follow_calendar
from tokimori.service.operation import Inside
from tokimori.service.queues import Queues
from tokimori.service.semaphores import Semaphores
from tokimori.service.validation import MOST_LISTED, checked, mapping_of

State = Mapping[str, Any]
Part = Literal["calendars", "queues", "semaphores"]
PARTS: Final[tuple[Part, ...]] = ("calendars", "semaphores", "queues")
"""Where files say them, in the order in which they are applied: jobs come last."""
WORDS: Final[Mapping[Part, str]] = MappingProxyType(
    {"calendars": "calendar", "queues": "queue", "semaphores": "semaphore"}
)
"""What one of them is called."""
_NOT_PAUSED: Final[State] = MappingProxyType({"paused": False})
_ONE_UNIT: Final[State] = MappingProxyType({"limit": DEFAULT_LIMIT})


class Resources(Struct, frozen=True, kw_only=True):
    """The states of resources, by name."""

    calendars: dict[str, dict[str, Any]] = {}
    semaphores: dict[str, dict[str, Any]] = {}
    queues: dict[str, dict[str, Any]] = {}


class Kind(Protocol):
    """Resources of one kind."""

    absent: State
    """The state of a missing resource."""

    async def states(self, names: Collection[str]) -> Mapping[str, State]:
        """Return the state of each of these."""
        ...

    async def all(self) -> Mapping[str, State]:
        """Return all resources of this kind by name."""
        ...

    async def put(self, name: str, was: State, state: State) -> None:
        """Change the resource from one state to another. Raises `Conflict` if it is no longer in the first one, and
        `Refused` if the change is not allowed.
        """
        ...


# What people say


def read_resources(said: Mapping[Part, object]) -> Resources:
    """Return the resources that are said, by part and name. Raises `InvalidInput`, whose field begins so."""
    return Resources(**{part: _read_part(part, fields) for part, fields in said.items() if fields is not None})


def _read_part(part: Part, given: object) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name, fields in mapping_of(part, given, "fields by name").items():
        try:
            found[name] = dict(state_of(part, name, fields))
        except InvalidInput as fault:
            raise fault.below(part if fault.value == name else f"{part}.{name}") from None
    return found


def state_of(part: Part, name: str, fields: object) -> State:
    """Return the state that the fields of a resource say. Raises `InvalidInput`."""
    given = mapping_of(WORDS[part], fields, "fields")
    match part:
        case "calendars":
            return _fields_of(changed_calendar(Calendar(name=name), given))
        case "queues":
            return _queue(name, given)
        case "semaphores":
            check_word("semaphore", name)
            _check_fields("semaphore", given, ("limit", "rate"))
            if "limit" not in given:
                raise InvalidInput("limit: a semaphore needs it", field="limit", allowed=f"1..{MOST_UNITS}")
            limit, rate = checked("limit", given["limit"], MOST_UNITS), given.get("rate")
            return {"limit": limit} | ({} if rate is None else {"rate": str(parse_claim_rate(rate, field="rate"))})
        case _:
            assert_never(part)


def _queue(name: str, said: Mapping[str, object]) -> State:
    if name != EVERYTHING:
        check_word("queue", name)
    _check_fields("queue", said, ("paused", "reason", "rate"))
    rate, reason = said.get("rate"), said.get("reason")
    paused = said.get("paused", False if rate is not None else None)
    if not isinstance(paused, bool):
        raise InvalidInput(f"paused: {paused!r} is not allowed", field="paused", value=paused, allowed="true, false")
    if rate is not None and name == EVERYTHING:
        raise InvalidInput("rate: all queues together have none", field="rate", value=rate, allowed="one queue's rate")
    pace = {} if rate is None else {"rate": str(parse_claim_rate(rate, field="rate"))}
    if reason is None:
        return {"paused": paused, **pace}
    check_reason("reason", reason)
    if not paused:
        message = "reason: a queue that is not paused has none"
        raise InvalidInput(message, field="reason", value=reason, allowed="no reason, or paused = true")
    return {"paused": True, "reason": reason, **pace}


def _check_fields(word: str, said: Mapping[str, object], known: Collection[str]) -> None:
    for name, value in said.items():
        if name not in known:
            allowed = f"one of {', '.join(known)}"
            raise InvalidInput(f"{name}: a {word} has no such field", field=name, value=value, allowed=allowed)


def shown_state(state: State) -> dict[str, Any]:
    """Return the fields by which people say this state."""
    return {name: value for name, value in state.items() if value != []}


def _fields_of(calendar: Calendar) -> State:
    days: dict[str, Any] = {"dates": [*calendar.dates], "weekdays": [*calendar.weekdays]}
    return days if calendar.description is None else {"description": calendar.description, **days}


# What there is


class CalendarResources:
    """Calendars; `rewritten` are the ids of jobs that the set writes after them."""

    absent: State = MappingProxyType({})

    def __init__(self, calendars: Calendars[Inside], rewritten: Collection[str]) -> None:
        self._calendars, self._rewritten = calendars, rewritten

    async def states(self, names: Collection[str]) -> Mapping[str, State]:
        """Return the fields of each."""
        return {name: await self._state(name) for name in names}

    async def _state(self, name: str) -> State:
        try:
            return _fields_of(await self._calendars.get(name))
        except NotFound:
            return self.absent

    async def all(self) -> Mapping[str, State]:
        """Return all calendars."""
        return {calendar.name: _fields_of(calendar) for calendar in await self._calendars.list()}

    async def put(self, name: str, was: State, state: State) -> None:
        """Add, change or delete it; jobs that use it take over its days."""

        def follow(known: Calendar) -> Calendar:
            if _fields_of(known) != was:
                raise _changed_meanwhile("calendar", name)
            return Calendar(name=name, **state)

        if not was:
            try:
                await self._calendars.add(name, **state)
            except AlreadyExists:
                raise _changed_meanwhile("calendar", name) from None
        elif state:
            await follow_calendar(self._calendars, name, follow, self._rewritten)
        elif await self._state(name) == was:
            await self._calendars.delete(name)
        else:
            raise _changed_meanwhile("calendar", name)


class QueueResources:
    """Queues: their pauses and rates."""

    absent = _NOT_PAUSED

    def __init__(self, queues: Queues[Inside], store: SemaphoreStore) -> None:
        self._queues = queues
        self._store = store

    async def states(self, names: Collection[str]) -> Mapping[str, State]:
        """Return whether each is paused, and why."""
        known = await self.all()
        return {name: known.get(name, self.absent) for name in names}

    async def all(self) -> Mapping[str, State]:
        """Return all queues that are paused or have a rate, by name."""
        found: dict[str, State] = {
            pause.queue: {"paused": True} if pause.reason is None else {"paused": True, "reason": pause.reason}
            for pause in await self._queues.pauses()
        }
        after = first = rate_of_queue("")
        while page := await self._store.list_semaphores(after=after, limit=MOST_LISTED):
            for each in page:
                if not each.name.startswith(first):
                    return found
                name, after = each.name.removeprefix(first), each.name
                if each.rate is not None:
                    found[name] = {**found.get(name, self.absent), "rate": str(each.rate)}
        return found

    async def put(self, name: str, was: State, state: State) -> None:
        """Set its rate, pause or resume it."""
        queue = None if name == EVERYTHING else name
        if (await self.states([name]))[name] != was:
            raise _changed_meanwhile("queue", name)
        if queue is not None and state.get("rate") != was.get("rate"):
            await self._queues.set(queue, state.get("rate", NO_RATE))
        if not state["paused"]:
            await self._queues.resume(queue)
        elif (await self._queues.pause(queue, state.get("reason"))).reason != state.get("reason"):
            raise _changed_meanwhile("queue", name)


class SemaphoreResources:
    """Semaphores and their limits; `opened` gives the store that keeps them."""

    absent = _ONE_UNIT

    def __init__(self, semaphores: Semaphores[Inside], opened: Callable[[], Awaitable[SemaphoreStore]]) -> None:
        self._semaphores = semaphores
        self._opened = opened

    async def states(self, names: Collection[str]) -> Mapping[str, State]:
        """Return the limit of each, and the rate if it has one."""
        return {name: await self._state(name) for name in names}

    async def _state(self, name: str) -> State:
        try:
            return _of_semaphore(await (await self._opened()).get_semaphore(name))
        except NotFound:
            return self.absent

    async def all(self) -> Mapping[str, State]:
        """Return all but those of one unit and without a rate."""
        store, after, found = await self._opened(), "", dict[str, State]()
        while page := await store.list_semaphores(after=after, limit=MOST_LISTED):
            states = {each.name: _of_semaphore(each) for each in page if not is_rate_alone(each.name)}
            found |= {name: state for name, state in states.items() if state != self.absent}
            after = page[-1].name
        return found

    async def put(self, name: str, was: State, state: State) -> None:
        """Set the limit and rate of a semaphore. One of a single, free unit is deleted: its next user makes it."""
        if await self._state(name) != was:
            raise _changed_meanwhile("semaphore", name)
        await self._semaphores.set(name, state["limit"], state.get("rate", NO_RATE))
        if state == self.absent:
            with suppress(Refused, NotFound):
                await self._semaphores.delete(name)


def _of_semaphore(semaphore: Semaphore) -> State:
    return {"limit": semaphore.limit} | ({} if semaphore.rate is None else {"rate": str(semaphore.rate)})


def units_of(state: State) -> int:
    """Return the most units that one run can ever have of a semaphore in this state."""
    rate, limit = state.get("rate"), int(state["limit"])
    return limit if rate is None else min(limit, parse_claim_rate(rate, field="rate").units)


def state_after(was: State, wanted: State) -> State:
    """Return the state after the change.

    A pause keeps its first reason: a new one would need a new pause, and runs would start in between.
    """
    if not (was.get("paused") and wanted.get("paused")):
        return wanted
    return {name: value for name, value in {**was, "rate": wanted.get("rate")}.items() if value is not None}


def _changed_meanwhile(word: str, name: str) -> Conflict:
    message = f"{word} {name}: somebody has changed it meanwhile: apply the set again"
    return Conflict(message, field=word, value=name)
