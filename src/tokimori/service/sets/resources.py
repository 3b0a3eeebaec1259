"""Resources of sets (calendars, queues, semaphores) as they are applied and exported, and who declares them.

A declaration is a small document in the same store as the resource itself. It is written before the resource is changed
and again afterwards. So of two sets that declare one name exactly one gets it, and what was interrupted goes on when
the set is applied again.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, Self, assert_never

from msgspec import Struct
from msgspec.structs import replace

from tokimori.errors import AlreadyExists, Conflict, NotFound
from tokimori.model.calendar import Calendar
from tokimori.model.document import texts_of
from tokimori.model.ids import JobId, RandomBytes
from tokimori.model.job import Definition
from tokimori.ports.documents import Documents as DocumentStore
from tokimori.ports.store import Store
from tokimori.service.calendars import Calendars, CalendarsToBe
from tokimori.service.definitions.differences import FieldChange, changes_between, digest_of_fields
from tokimori.service.documents import DocumentKind, Documents
from tokimori.service.jobs.writer import JobWriter
from tokimori.service.operation import Inside
from tokimori.service.queues import Queues
from tokimori.service.semaphores import Semaphores, Weights
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
    state_after,
    units_of,
)
from tokimori.service.shared import Caller, Shared


class Owned(Struct, frozen=True, kw_only=True):
    """Declaration of a resource by a set; `left`: digests of the states in which the set has left it.

    It has two of them while a change is under way.
    """

    name: str
    set: str
    left: tuple[str, ...]


DECLARATIONS = DocumentKind("declaration", *texts_of(Owned))


class Fate(StrEnum):
    """Fates of a resource; `FORGOTTEN` is gone already, and no set declares it any more."""

    ADDED = "added"
    CHANGED = "changed"
    ADOPTED = "adopted"
    REMOVED = "removed"
    KEPT = "kept"
    UNCHANGED = "unchanged"
    REFUSED = "refused"
    FORGOTTEN = "forgotten"


class Changes(Struct, frozen=True, kw_only=True):
    """Changes of resources of a kind, or of jobs, by name."""

    added: tuple[str, ...] = ()
    changed: dict[str, tuple[FieldChange, ...]] = {}
    adopted: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    refused: dict[str, str] = {}


class ApplyTerms(NamedTuple):
    """Manner in which a set is applied."""

    set: str
    prune: bool
    take_over: bool


class ResourceStep(NamedTuple):
    """Step of one resource: its state `was`, the state to be, and `why` it is refused."""

    name: str
    fate: Fate
    known: Owned | None
    was: State
    state: State
    why: str = ""

    @property
    def changes(self) -> bool:
        """Return whether the step writes anything."""
        if self.fate is Fate.UNCHANGED and self.known is not None:
            return self.known.left != (digest_of_fields(self.state),)
        return self.fate not in (Fate.KEPT, Fate.REFUSED)


class _Found(NamedTuple):
    """Facts of a name: its declaring set, its state, and the state of a missing resource."""

    name: str
    known: Owned | None
    was: State
    absent: State


class Declarations:
    """The resources of one kind that sets declare. `opened` gives the store that keeps them."""

    def __init__(
        self, word: str, kind: Kind, opened: Callable[[], Awaitable[DocumentStore]], random: RandomBytes
    ) -> None:
        self._word = word
        self.kind = kind
        self._opened = opened
        self._random = random

    async def plan(
        self, terms: ApplyTerms, wanted: Mapping[str, State], in_use: Mapping[str, str]
    ) -> Sequence[ResourceStep]:
        """Return the steps. `in_use` says by name why a resource can't be removed."""
        owned = await self._owned()
        gone = [name for name, each in owned.items() if each.set == terms.set and name not in wanted]
        states, absent = await self.kind.states([*wanted, *gone]), self.kind.absent
        found = {name: _Found(name, owned.get(name), states[name], absent) for name in states}
        steps = [_declared(terms, found[name], state) for name, state in wanted.items()]
        known = [name for name in gone if terms.prune or states[name] != absent]
        return [*steps, *(_undeclared_step(terms, found[name], owned[name], in_use.get(name)) for name in known)]

    async def states(self, set_name: str | None) -> Mapping[str, State]:
        """Return the resources that a set declares; None: all resources."""
        if set_name is None:
            return await self.kind.all()
        owned = await self._owned()
        return await self.kind.states([name for name, each in owned.items() if each.set == set_name])

    async def carry_out(self, set_name: str, step: ResourceStep) -> None:
        """Carry out a step of this set. Raises `Conflict` if the resource was changed at the same time."""
        documents = await self._documents()
        if step.known is not None and step.fate in (Fate.REMOVED, Fate.FORGOTTEN):
            await self._disown(documents, step, step.known)
        else:
            await self._follow(documents, set_name, step)

    async def _follow(self, documents: Documents[Owned], set_name: str, step: ResourceStep) -> None:
        before, after, known = digest_of_fields(step.was), digest_of_fields(step.state), step.known
        if before != after:
            begun = Owned(name=step.name, set=set_name, left=(before, after))
            await self._own(documents, known, begun)
            await self.kind.put(step.name, step.was, step.state)
            known = begun
        await self._own(documents, known, Owned(name=step.name, set=set_name, left=(after,)))

    async def _owned(self) -> Mapping[str, Owned]:
        return {each.name: each for each in await (await self._documents()).list(self._key(""))}

    async def _own(self, documents: Documents[Owned], known: Owned | None, owned: Owned) -> None:
        """Replace the known declaration under compare-and-set: of concurrent writers one succeeds."""

        def follow(found: Owned) -> Owned:
            if found != known:
                raise self._declared_meanwhile(owned.name)
            return owned

        try:
            if known is None:
                await documents.add(self._key(owned.name), owned)
            else:
                await documents.change(self._key(owned.name), follow)
        except (AlreadyExists, NotFound):
            raise self._declared_meanwhile(owned.name) from None

    async def _disown(self, documents: Documents[Owned], step: ResourceStep, known: Owned) -> None:
        """Remove the declaration, unless another set declares the resource. One that is gone counts as removed."""
        try:
            document = await documents.find(self._key(known.name))
        except NotFound:
            return
        if documents.value_of(document) != known:
            raise self._declared_meanwhile(known.name)
        if step.fate is Fate.REMOVED:
            await self.kind.put(step.name, step.was, step.state)
        await documents.delete(document)

    def _declared_meanwhile(self, name: str) -> Conflict:
        message = f"{self._word} {name}: somebody declares it at the same time: apply the set again"
        return Conflict(message, field=self._word, value=name)

    def _key(self, name: str) -> str:
        return f"{self._word}/{name}"

    async def _documents(self) -> Documents[Owned]:
        return Documents(await self._opened(), DECLARATIONS, self._random)


def changes_of(steps: Sequence[ResourceStep]) -> Changes:
    """Return the steps by outcome."""
    names = {fate: tuple(step.name for step in steps if step.fate is fate) for fate in Fate}
    return Changes(
        added=names[Fate.ADDED],
        changed={step.name: changes_between(step.was, step.state) for step in steps if step.fate is Fate.CHANGED},
        adopted=names[Fate.ADOPTED],
        removed=names[Fate.REMOVED],
        kept=names[Fate.KEPT],
        unchanged=names[Fate.UNCHANGED],
        refused={step.name: step.why for step in steps if step.fate is Fate.REFUSED},
    )


# The rules


def _declared(terms: ApplyTerms, found: _Found, wanted: State) -> ResourceStep:
    """Return the step of a resource that the set declares."""
    name, known, was, absent = found
    state = state_after(was, wanted)
    why = None if terms.take_over else _why_not(terms.set, found, wanted)
    if why is not None:
        return ResourceStep(name, Fate.REFUSED, known, was, state, why)
    if was == state:
        fate = Fate.UNCHANGED if known is not None and known.set == terms.set else Fate.ADOPTED
    else:
        is_new = was == absent and (known is None or not absent)
        fate = Fate.ADDED if is_new else Fate.CHANGED
    return ResourceStep(name, fate, known, was, state)


def _why_not(set_name: str, found: _Found, wanted: State) -> str | None:
    if found.known is not None and found.known.set != set_name:
        return f"it is of the set {found.known.set}"
    left = (digest_of_fields(found.absent),) if found.known is None else found.known.left
    if digest_of_fields(found.was) in (*left, digest_of_fields(wanted)):
        return None
    if found.known is None:
        return "somebody has made it by hand, and it differs"
    fields = ", ".join(each.field for each in changes_between(found.was, wanted))
    return f"it was changed by hand since ({fields})"


def _undeclared_step(terms: ApplyTerms, found: _Found, known: Owned, in_use: str | None) -> ResourceStep:
    """Return the step of a resource that the set does not declare any more."""
    name, _, was, absent = found
    if was == absent:
        return ResourceStep(name, Fate.FORGOTTEN, known, was, absent)
    if not terms.prune:
        return ResourceStep(name, Fate.KEPT, known, was, was)
    if not terms.take_over and digest_of_fields(was) not in known.left:
        in_use = "was changed by hand since"
    if in_use is not None:
        return ResourceStep(name, Fate.REFUSED, known, was, was, f"it is not declared any more, but {in_use}")
    return ResourceStep(name, Fate.REMOVED, known, was, absent)


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
                kind: Kind = CalendarResources(self.calendars, self.writer.beside)
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
        self, terms: ApplyTerms, resources: Resources, final: Mapping[JobId, Definition]
    ) -> Mapping[Part, Sequence[ResourceStep]]:
        """Return the steps of the resources, if these jobs exist in the end."""
        used = {name: f"the job {job_id} uses it" for job_id, each in final.items() for name in each.calendars}
        return {
            part: await self._declarations(part).plan(
                terms, getattr(resources, part), used if part == "calendars" else {}
            )
            for part in PARTS
        }

    def _as_declared(self, steps: Mapping[Part, Sequence[ResourceStep]]) -> Self:
        """Return the same work, to which calendars and semaphores are as they will be."""
        limits = {step.name: units_of(step.state) for step in steps["semaphores"]}
        calendars = self._calendars_to_be(steps["calendars"])
        weights = Weights(self.shared.store_of_semaphores, limits)
        return replace(self, writer=replace(self.writer, calendars=calendars, weights=weights))

    def _calendars_to_be(self, steps: Sequence[ResourceStep]) -> CalendarsToBe:
        states = {step.name: Calendar(name=step.name, **step.state) if step.state else None for step in steps}
        return CalendarsToBe(self.shared.store, states, self.shared.random)
