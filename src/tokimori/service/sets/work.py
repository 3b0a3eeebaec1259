"""Plans of changes by sets, and their execution."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Self, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tokimori.errors import Conflict, InvalidInput, NotFound, Refused
from tokimori.model.ids import JobId, check_job_id
from tokimori.model.job import Declaration, Definition, Job, edges_of, set_of
from tokimori.model.notifier import notifier_id
from tokimori.model.target import Unreadable
from tokimori.service.calendars import Calendars, read_days_off
from tokimori.service.definitions.definitions import definition_from, runs_remaining_in, with_memory_of
from tokimori.service.definitions.differences import (
    APPS,
    DeclarationState,
    FieldChange,
    declaration_state,
    differences,
    digest_of,
    without_count,
)
from tokimori.service.definitions.edits import edited
from tokimori.service.documents import Documents
from tokimori.service.jobs.family import checked_family
from tokimori.service.jobs.writer import in_steps, writer_on
from tokimori.service.notifiers import notifies
from tokimori.service.queues import Queues
from tokimori.service.schema import StoreOpened
from tokimori.service.semaphores import Semaphores
from tokimori.service.sets.resource_kinds import PARTS, WORDS, Part, Resources
from tokimori.service.sets.resources import ApplyTerms, Changes, Fate, ResourceStep, ResourceWork, changes_of
from tokimori.service.sets.turns import SetTurn
from tokimori.service.shared import Caller, Shared
from tokimori.service.store_calls import all_jobs, cancel_run
from tokimori.service.validation import job_fields

_Name = TypeVar("_Name", bound=str)
_T = TypeVar("_T")
_SHOWN = 10
"""Number of refused jobs named in the error."""


class Applied(Changes, frozen=True, kw_only=True):
    """Effect of a set: the ids of its jobs by outcome, and the same for resources.

    `adopted` are as declared, but belonged to no set or another one before. `kept` are no longer declared, and stay
    without `prune`. `refused` gives reasons; if there is one, nothing is done.
    """

    set: str
    calendars: Changes = Changes()
    queues: Changes = Changes()
    semaphores: Changes = Changes()


class SetPlan(Struct, frozen=True, kw_only=True):
    """Declared jobs, and jobs in the store that differ; `steps` are those of resources."""

    applied: Applied
    steps: Mapping[Part, Sequence[ResourceStep]]
    wanted: Mapping[JobId, Definition]
    counts: Mapping[str, int]
    stale: Sequence[JobId]


class SetWork(ResourceWork, frozen=True, kw_only=True):
    """A set of jobs and resources, as it is planned and carried out."""

    def beside(self, wanted: Mapping[JobId, Definition]) -> Self:
        """Return the same work, which writes each job together with these."""
        return replace(self, writer=replace(self.writer, beside=wanted))

    async def under(self, turn: SetTurn, apart: SetTurn | None) -> "SetWork":
        """Return the same work, whose changes take effect only while it is this turn.

        `apart`: the turn in the store of semaphores, if they have one of their own. Raises `Conflict`.
        """
        shared = replace(self.shared, store=await turn.store())
        if apart is not None:
            shared = replace(shared, semaphore_store=StoreOpened(await apart.store()))
        return work_on(shared, self.caller).beside(self.writer.beside)

    async def planned(self, terms: ApplyTerms, declared: object, resources: Resources) -> SetPlan:
        """Return the planned changes and the refusals. Raises `InvalidInput`."""
        name = terms.set
        wanted, counts = await _read(name, declared, self.caller.time_zone)
        known = {job.id: job async for job in all_jobs(self.shared.store)}
        of_apps = await self._jobs_of_apps()
        found = {
            job_id: _fate(known[job_id], definition, take_over=terms.take_over, of_app=job_id in of_apps)
            async for job_id, definition in _each(wanted)
            if job_id in known
        }
        gone = [job for job in known.values() if set_of(job.definition) == name and job.id not in wanted]
        refused: dict[str, str] = {job_id: fate for job_id, fate in found.items() if isinstance(fate, str)}
        removed = [job.id for job in gone] if terms.prune else []
        refused |= dict(_not_prunable(known, wanted, removed, take_over=terms.take_over))
        steps = await self._steps(terms, resources, _final(known, wanted, removed))
        await self._as_declared(steps).beside(wanted)._check_all(known, wanted, counts)
        changed = [step for step in steps["calendars"] if step.fate is Fate.CHANGED]
        staying = (job async for job_id, job in _each(known) if job_id not in removed and not found.get(job_id))
        await self._calendars_to_be(changed).check_jobs(staying)
        kept = [job_id for job_id in wanted if job_id in known and found[job_id] == ()]
        applied = Applied(
            set=name,
            added=tuple(job_id for job_id in wanted if job_id not in known),
            changed={job_id: fate for job_id, fate in found.items() if fate and not isinstance(fate, str)},
            adopted=tuple(job_id for job_id in kept if set_of(known[job_id].definition) != name),
            removed=tuple(job_id for job_id in removed if job_id not in refused),
            kept=() if terms.prune else tuple(job.id for job in gone),
            unchanged=tuple(job_id for job_id in kept if set_of(known[job_id].definition) == name),
            refused=refused,
            **{part: changes_of(each) for part, each in steps.items()},
        )
        stale = [job_id for job_id in found if known[job_id].definition != _following(known[job_id], wanted[job_id])]
        return SetPlan(applied=applied, steps=steps, wanted=wanted, counts=counts, stale=stale)

    async def _jobs_of_apps(self) -> Collection[str]:
        return {
            job_id
            for known in await Documents(self.shared.store, APPS, self.shared.random).list()
            for job_id in known.jobs
        }

    async def _check_all(
        self, known: Mapping[JobId, Job], wanted: Mapping[JobId, Definition], counts: Mapping[str, int]
    ) -> None:
        """Check all jobs as adding and editing them would, and how they run after each other. Raises `InvalidInput`."""
        checked, ids = [], {*known, *wanted}
        async for job_id, definition in _each(wanted):
            try:
                _check_edges(job_id, definition, ids)
                new = job_id not in known
                job = await (self._as_new(job_id, definition, counts) if new else self._as_edited(job_id, definition))
                checked.append(job)
            except InvalidInput as fault:
                raise fault.below(job_id) from None
        await checked_family(self.shared.store, checked)

    async def _as_new(self, job_id: JobId, definition: Definition, counts: Mapping[str, int]) -> Job:
        job, _ = await self.writer.new(job_id, definition, await self.shared.now(), counts.get(job_id))
        return job

    async def _as_edited(self, job_id: JobId, wanted: Definition) -> Job:
        try:
            due = await self.shared.store.get_due(job_id)
        except NotFound:
            message = f"job {job_id}: another apply, or somebody, deletes it at the same time: apply the set again"
            raise Conflict(message, field="jobs", value=job_id) from None
        definition = self.writer.placed(wanted)
        if isinstance(due.job.definition.target, Unreadable) or due.job.definition == _following(due.job, definition):
            self.writer.weights.check_lowered(due.job.definition)
            return due.job
        await self.writer.check_right(job_id, definition)
        await self.writer.weights.check(definition)
        days = await read_days_off(self.writer.calendars, definition.calendars)
        steps = partial(edited, due, definition, await self.shared.now(), due.job.runs_remaining, days.text)
        return (await in_steps(None, due, steps, self.shared.clock.monotonic)).job

    async def carry_out(self, plan: SetPlan, terms: ApplyTerms, on: Callable[[], Awaitable["SetWork"]]) -> None:
        """Carry out the plan. `on` returns the work for each change."""

        async def follow(job_id: JobId) -> None:
            await (await on())._follow(job_id, plan.wanted[job_id], take_over=terms.take_over)

        async def remove(job_id: JobId) -> None:
            await (await on())._remove(job_id, terms)

        await self._carry_out(terms.set, plan.steps, on, begins=True)
        if plan.applied.added:
            await (await on())._add_declared(plan)
        await _in_turns(plan.stale, follow)
        await _in_turns(map(JobId, plan.applied.removed), remove)
        await self._carry_out(terms.set, plan.steps, on, begins=False)

    async def _add_declared(self, plan: SetPlan) -> None:
        new = [(job_id, plan.wanted[JobId(job_id)]) for job_id in plan.applied.added]
        counts = {job_id: count for job_id, count in plan.counts.items() if job_id in plan.applied.added}
        imported = await self.writer.import_all(new, runs_remaining=counts)
        if imported.unchanged:
            raise Conflict(
                f"jobs: somebody has added {', '.join(imported.unchanged)} meanwhile: apply the set again",
                field="jobs",
                value=list(imported.unchanged),
            )

    async def _follow(self, job_id: JobId, wanted: Definition, *, take_over: bool) -> None:
        """Give a job its definition, unless it was changed since the plan."""

        def rewritten(job: Job) -> Definition:
            fate = _fate(job, wanted, take_over=take_over)
            if isinstance(fate, str):
                raise Conflict(f"job {job_id}: {fate}", field="jobs", value=job_id)
            return _following(job, wanted)

        await self.writer.rewrite(job_id, lambda job: (rewritten(job), {}))

    async def _remove(self, job_id: JobId, terms: ApplyTerms) -> None:
        """Delete a job, unless it was edited or adopted by another set since the plan."""
        with suppress(NotFound):
            job = await self.shared.store.get_job(job_id)
            if set_of(job.definition) == terms.set and (terms.take_over or not _is_edited(job.definition)):
                with suppress(Conflict):
                    return await self.writer.delete_as_read(job)
            message = f"job {job_id}: somebody has changed it meanwhile: apply the set again"
            raise Conflict(message, field="jobs", value=job_id)


def work_on(shared: Shared, caller: Caller) -> SetWork:
    """Return the work of a caller."""
    writer = writer_on(shared, caller)

    async def cancel(run_id: str, reason: str) -> object:
        return await cancel_run(shared.store, shared.now, run_id, reason)

    return SetWork(
        shared=shared,
        caller=caller,
        writer=writer,
        calendars=Calendars(shared.store, shared.random, writer.refresh),
        queues=Queues(shared.store, shared.now, caller.author, cancel),
        semaphores=Semaphores(shared.store_of_semaphores),
    )


def changes_in(applied: Applied) -> Mapping[str, Changes]:
    """Return the changes of each kind that a set declares, by its word, in the order of applying."""
    resources: dict[str, Changes] = {WORDS[part]: getattr(applied, part) for part in PARTS}
    return {**resources, "job": applied}


def check_applicable(applied: Applied) -> None:
    """Check that nothing is refused. Raises `Conflict`."""
    refused = {
        f"{word} {name}": why for word, each in changes_in(applied).items() for name, why in each.refused.items()
    }
    if refused:
        named = [f"{what}: {why}" for what, why in refused.items()]
        more = [] if len(named) <= _SHOWN else [f"and {len(named) - _SHOWN} more"]
        raise Conflict(
            "\n".join(["nothing was changed", *named[:_SHOWN], *more]),
            field="jobs" if applied.refused else "set",
            value=list(applied.refused or refused),
            allowed="things of this set, unchanged since its last apply; any with --take-over (take_over=True)",
        )


async def _read(name: str, declared: object, zone: str) -> tuple[Mapping[JobId, Definition], Mapping[str, int]]:
    """Return the definitions with their declarations, and a new job's number of runs. Raises `InvalidInput`."""
    wanted: dict[JobId, Definition] = {}
    counts: dict[str, int] = {}
    async for text, fields in _each(_mapping("declared", declared)):
        job_id = check_job_id(text)
        terms = job_fields(_mapping(job_id, fields))
        try:
            definition = definition_from(without_count(terms), time_zone=zone)
            count = runs_remaining_in(terms)
        except InvalidInput as fault:
            raise fault.below(job_id) from None
        wanted[job_id] = replace(definition, declared=Declaration(set=name, digest=digest_of(definition)))
        if count is not None:
            counts[job_id] = count
    return wanted, counts


async def _each(named: Mapping[_Name, _T]) -> AsyncIterator[tuple[_Name, _T]]:
    """Yield each of them. A node has its turn between two: a thousand jobs take longer than a run may be late."""
    for pair in named.items():
        await asyncio.sleep(0)
        yield pair


def _check_edges(job_id: JobId, definition: Definition, ids: Collection[JobId]) -> None:
    """Check that the jobs exist, or are declared, after which this one runs or that run after it."""
    for edge in edges_of(job_id, definition):
        field, other = ("parents", edge.parent) if edge.child == job_id else ("on_failure_job", edge.child)
        if other not in ids:
            raise InvalidInput(f"{field}: there is no job {other!r}", field=field, value=other, allowed="ids of jobs")


def _mapping(field: str, given: object) -> Mapping[str, Any]:
    if isinstance(given, Mapping):
        return given
    raise InvalidInput(
        f"{field}: {given!r} is not a mapping", field=field, value=given, allowed="fields by id of the job"
    )


def _following(job: Job, wanted: Definition) -> Definition:
    """Return the definition of a job that follows its declaration."""
    return replace(with_memory_of(wanted, job.definition), declared=wanted.declared)


def _fate(job: Job, wanted: Definition, *, take_over: bool, of_app: bool = False) -> str | tuple[FieldChange, ...]:
    """Return the changes of a job that follows its declaration, or why it may not, as a text."""
    old, new = job.definition.declared, wanted.declared
    if isinstance(job.definition.target, Unreadable):
        return "this version of Tokimori can't read its definition"
    changes = differences(job.definition, wanted)
    if take_over or new is None:
        return changes
    if old is not None and old.set != new.set:
        return f"it is of the set {old.set}"
    if of_app:
        return "an app declares it"
    match declaration_state(job.definition, new.digest, None if old is None else old.digest):
        case DeclarationState.EDITED:
            return f"it was edited by hand since ({', '.join(each.field for each in changes)})"
        case DeclarationState.STRANGE:
            return "somebody has added it by hand, and it differs"
        case DeclarationState.SAME | DeclarationState.AS_DECLARED:
            return changes


def _not_prunable(
    known: Mapping[JobId, Job], wanted: Mapping[JobId, Definition], removed: Sequence[JobId], *, take_over: bool
) -> Iterator[tuple[JobId, str]]:
    """Yield the jobs that can't be pruned, and why."""
    final = _final(known, wanted, removed)
    waiting = dict(_parents_among(frozenset(removed), final))
    notifiers = {notifier_id(name) for each in final.values() for names in each.notify.values() for name in names}
    for job_id in removed:
        definition = known[job_id].definition
        if job_id in waiting:
            yield job_id, f"it is not declared any more, but {waiting[job_id]} runs after it"
        elif job_id in notifiers:
            name = next(each for each, said in final.items() if notifies(said, job_id))
            yield job_id, f"it is not declared any more, but {name} notifies it"
        elif not take_over and _is_edited(definition):
            yield job_id, "it is not declared any more, but was edited by hand since"


def _is_edited(definition: Definition) -> bool:
    """Return whether a declared job was edited by hand."""
    return definition.declared is not None and digest_of(definition) != definition.declared.digest


def _final(
    known: Mapping[JobId, Job], wanted: Mapping[JobId, Definition], removed: Sequence[JobId]
) -> Mapping[JobId, Definition]:
    """Return the jobs that there will be."""
    going = frozenset(removed)
    return {**{job_id: job.definition for job_id, job in known.items() if job_id not in going}, **wanted}


def _parents_among(going: Collection[JobId], jobs: Mapping[JobId, Definition]) -> Iterator[tuple[JobId, JobId]]:
    """Yield (parent, child) if the parent is among those that go, and the child stays."""
    for job_id, definition in jobs.items():
        for edge in edges_of(job_id, definition):
            if edge.parent in going and edge.child == job_id:
                yield edge.parent, job_id


async def _in_turns(ids: Iterable[JobId], act: Callable[[JobId], Awaitable[object]]) -> None:
    """Act on each job, and retry refused ones after the others: one job may depend on another.

    Raise what is still refused at the end.
    """
    waiting = list(ids)
    while waiting:
        refused: dict[JobId, Exception] = {}
        for each in waiting:
            try:
                await act(each)
            except (Refused, InvalidInput) as fault:
                refused[each] = fault
        if len(refused) == len(waiting):
            raise refused[waiting[0]]
        waiting = list(refused)
