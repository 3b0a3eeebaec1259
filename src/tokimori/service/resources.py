"""Resources as the service applies and exports them: calendars, pauses of queues and limits of semaphores."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from typing import Self, assert_never

from tokimori.errors import NotFound
from tokimori.model.calendar import Calendar
from tokimori.model.ids import JobId, RandomBytes
from tokimori.model.job import Definition
from tokimori.model.words import check_word
from tokimori.ports.store import Store
from tokimori.service.days_off import CALENDARS
from tokimori.service.declarations import ApplyWish, Declarations, ResourceStep
from tokimori.service.documents import Documents
from tokimori.service.jobs import JobService
from tokimori.service.resource_kinds import (
    PARTS,
    WORDS,
    CalendarResources,
    Kind,
    Part,
    QueueResources,
    Resources,
    SemaphoreResources,
    State,
    shown_state,
)
from tokimori.service.weights import Weights


class ResourceService(JobService):
    """The part of the service that knows what sets declare beside jobs."""

    async def resources(self, set_name: str | None = None) -> Resources:
        """Return the calendars, paused queues and limits of semaphores that a set declares; None: all that there
        are.
        """
        if set_name is not None:
            check_word("set_name", set_name)
        found = {part: await self._declarations(part).states(set_name) for part in PARTS}
        return Resources(
            **{part: {name: shown_state(state) for name, state in found[part].items() if state} for part in PARTS}
        )

    def _declarations(self, part: Part) -> Declarations:
        """Return the resources of a kind. What says whose they are lies in the store that keeps them."""
        match part:
            case "calendars":
                kind: Kind = CalendarResources(self.calendars)
            case "queues":
                kind = QueueResources(self.queues)
            case "semaphores":
                kind = SemaphoreResources(self.semaphores, self._store_of_semaphores)
            case _:
                assert_never(part)
        opened = self._store_of_semaphores if part == "semaphores" else self._own_store
        return Declarations(WORDS[part], kind, opened, self._random)

    async def _own_store(self) -> Store:
        return self._store

    async def _carry_out(
        self,
        name: str,
        steps: Mapping[Part, Sequence[ResourceStep]],
        on: Callable[[], Awaitable[Self]],
        *,
        begins: bool,
    ) -> None:
        """Carry out the steps: what jobs need comes before them, what ends comes after them, in reverse."""
        for part in PARTS if begins else reversed(PARTS):
            absent = self._declarations(part).kind.absent
            for step in steps[part]:
                if step.changes and (step.state != absent) == begins:
                    await (await on())._declarations(part).carry_out(name, step)

    async def _steps(
        self, wish: ApplyWish, resources: Resources, final: Mapping[JobId, Definition]
    ) -> Mapping[Part, Sequence[ResourceStep]]:
        """Return the steps of the resources, if these jobs exist in the end."""
        used = {name: f"the job {job_id} uses it" for job_id, each in final.items() for name in each.calendars}
        return {
            part: await self._declarations(part).plan(
                wish, getattr(resources, part), used if part == "calendars" else {}
            )
            for part in PARTS
        }

    def _as_declared(self, steps: Mapping[Part, Sequence[ResourceStep]]) -> Self:
        """Return the same service, to which calendars and semaphores are as they will be."""
        other = copy(self)
        days = {step.name: step.state for step in steps["calendars"]}
        other._calendars = _CalendarsToBe(self._store, days, self._random)
        limits = {step.name: step.state["limit"] for step in steps["semaphores"]}
        other._weights = Weights(self._store_of_semaphores, limits)
        return other


class _CalendarsToBe(Documents[Calendar]):
    """Calendars as they will be, where these have become what they are to be."""

    def __init__(self, store: Store, states: Mapping[str, State], random: RandomBytes) -> None:
        super().__init__(store, CALENDARS, random)
        self._states = states

    async def get(self, name: str) -> Calendar:
        """Return the calendar. Raises `NotFound`."""
        state = self._states.get(name)
        if state is None:
            return await super().get(name)
        if not state:
            raise NotFound(f"there is no calendar {name!r}", field="calendar", value=name)
        return Calendar(name=name, **state)
