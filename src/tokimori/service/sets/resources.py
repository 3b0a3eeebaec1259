"""Resources as the service applies and exports them: calendars, pauses of queues and limits of semaphores."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Self, assert_never

from msgspec import Struct
from msgspec.structs import replace

from tokimori.errors import NotFound
from tokimori.model.calendar import Calendar
from tokimori.model.ids import JobId, RandomBytes
from tokimori.model.job import Definition
from tokimori.ports.store import Store
from tokimori.service.calendars import CALENDARS, Calendars
from tokimori.service.documents import Documents
from tokimori.service.jobs.writer import JobWriter
from tokimori.service.operation import Inside
from tokimori.service.queues import Queues
from tokimori.service.semaphores import Semaphores, Weights
from tokimori.service.sets.declarations import ApplyWish, Declarations, ResourceStep
from tokimori.service.sets.resource_kinds import (
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
    units_of,
)
from tokimori.service.shared import Caller, Shared


class ResourceWork(Struct, frozen=True, kw_only=True):
    """Declarations of sets, as they are planned and carried out: resources, and `writer` for jobs."""

    shared: Shared
    caller: Caller
    writer: JobWriter
    calendars: Calendars[Inside]
    queues: Queues[Inside]
    semaphores: Semaphores[Inside]

    async def resources(self, set_name: str | None) -> Resources:
        """Return the resources that a set declares; None: all resources."""
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
                kind = QueueResources(self.queues, self.shared.store)
            case "semaphores":
                kind = SemaphoreResources(self.semaphores, self.shared.store_of_semaphores)
            case _:
                assert_never(part)
        opened = self.shared.store_of_semaphores if part == "semaphores" else self._own_store
        return Declarations(WORDS[part], kind, opened, self.shared.random)

    async def _own_store(self) -> Store:
        return self.shared.store

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
        """Return the same work, to which calendars and semaphores are as they will be."""
        days = {step.name: step.state for step in steps["calendars"]}
        limits = {step.name: units_of(step.state) for step in steps["semaphores"]}
        calendars = _CalendarsToBe(self.shared.store, days, self.shared.random)
        weights = Weights(self.shared.store_of_semaphores, limits)
        return replace(self, writer=replace(self.writer, calendars=calendars, weights=weights))


class _CalendarsToBe(Documents[Calendar]):
    """Calendars as they will be after the changes of a set."""

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
