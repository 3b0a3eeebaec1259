"""Sets: jobs and resources that files declare together. The store knows for each its set, and what was declared last.

So two sets never change or delete what is the other's, and what somebody has edited by hand is not lost in silence.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack

from msgspec.structs import replace

from tokimori.errors import Refused
from tokimori.model.access_token import Role
from tokimori.model.document import check_name
from tokimori.model.ids import check_job_id
from tokimori.model.job import set_of
from tokimori.model.lanes import EVERYTHING as ALL_QUEUES
from tokimori.model.words import check_word
from tokimori.service.access import OPEN, Sight, out_of_scope
from tokimori.service.definitions.arguments import CalendarArguments, JobArguments, QueueArguments, SemaphoreArguments
from tokimori.service.definitions.differences import APPS
from tokimori.service.documents import Documents
from tokimori.service.operation import OUTCOME, M, Part, operation
from tokimori.service.sets.resource_kinds import Resources, read_resources
from tokimori.service.sets.resources import ApplyTerms
from tokimori.service.sets.turns import SETS, SetState, no_set, state_of_set, turn_at
from tokimori.service.sets.work import Applied, SetWork, check_applicable
from tokimori.service.shared import Caller, Shared
from tokimori.service.store_calls import all_jobs
from tokimori.service.validation import flag_of, mapping_of
from tokimori.service.views.outside import list_of
from tokimori.service.views.resources import SetState as SetView

_DECLARED = ('"declared":',)
"""A text in the definition of each job that a set declares."""


class Sets(Part[M]):
    """Sets of jobs and resources. Every operation may raise `StoreError`."""

    noun, word = "sets", "set"

    def __init__(self, shared: Shared, caller: Caller, work: SetWork) -> None:
        self._shared, self._caller = shared, caller
        self._work = work

    @operation(Role.OPERATE, OPEN, audit=OUTCOME, event="applied", doing="Applying a set", reads_if="dry_run")
    async def apply(
        self,
        name: str,
        declared: Mapping[str, JobArguments],
        *,
        calendars: Mapping[str, CalendarArguments] | None = None,
        queues: Mapping[str, QueueArguments] | None = None,
        semaphores: Mapping[str, SemaphoreArguments] | None = None,
        prune: bool = False,
        take_over: bool = False,
        dry_run: bool = False,
    ) -> Applied:
        """Make the jobs of a set those that are declared here, by id, with the fields that `add` takes.

        The same holds of `calendars`, of `queues` that are paused or not, and of `semaphores` and their limits, by
        name. What the set does not declare any more is deleted with `prune`, and else kept: a queue is then resumed.
        What is of another set or of an app, and what somebody has added or edited by hand, is only changed with
        `take_over`. With `dry_run` nothing is. `runs_remaining` counts when a job is added, and never later; the reason
        of a pause is reported when it begins.

        Raises `Conflict` if something can't be changed, `InvalidInput`, whose field begins with the id of the job, or
        with `calendars.` and the name, and `Refused` if a job can't have new days off. Then nothing was changed.
        """
        check_word("set", name)
        terms = ApplyTerms(name, flag_of("prune", prune), flag_of("take_over", take_over))
        resources = read_resources({"calendars": calendars, "queues": queues, "semaphores": semaphores})
        if flag_of("dry_run", dry_run):
            return (await self._work.planned(terms, declared, resources)).applied
        shared, by = self._shared, self._caller.author
        async with AsyncExitStack() as stack:
            turn = apart = await stack.enter_async_context(turn_at(shared, by, name))
            if shared.semaphore_store is not None:
                store = await shared.semaphore_store.opened()
                apart = await stack.enter_async_context(turn_at(shared, by, name, store))
            plan = await self._work.planned(terms, declared, resources)
            check_applicable(plan.applied)
            in_two = apart is not turn and any(step.changes for step in plan.steps["semaphores"])
            work = self._work.beside(plan.wanted)
            await work.carry_out(plan, terms, lambda: work.under(turn, apart if in_two else None))
        return plan.applied

    @apply.within
    async def _apply_within(
        self,
        sight: Sight,
        name: str,
        declared: Mapping[str, JobArguments],
        *,
        calendars: Mapping[str, CalendarArguments] | None = None,
        queues: Mapping[str, QueueArguments] | None = None,
        semaphores: Mapping[str, SemaphoreArguments] | None = None,
        prune: bool = False,
        take_over: bool = False,
        dry_run: bool = False,
    ) -> Applied:
        """Apply a set if all that it declares, changes and deletes is in scope; the rest of it stays unnamed."""
        await _check_declared(sight, declared)

        async def applied(*, dry_run: bool) -> Applied:
            return await self.apply(
                name,
                declared,
                calendars=calendars,
                queues=queues,
                semaphores=semaphores,
                prune=prune,
                take_over=take_over,
                dry_run=dry_run,
            )

        try:
            plan = await applied(dry_run=True)
        except Refused as fault:  # it names jobs of others, that use a calendar which is everybody's
            raise out_of_scope("calendars") if fault.field == "calendar" else fault from None
        await _check_plan(sight, plan)
        done = plan if dry_run else await applied(dry_run=False)
        return replace(done, kept=tuple([job_id for job_id in done.kept if await sight.sees_id(job_id)]))

    @operation(Role.READ, OPEN, gives=list_of(SetView.made))
    async def list(self, name: str | None = None) -> Sequence[SetState]:
        """Return the states of sets, and of apps that declare jobs, by name; with a `name` only that one.

        Raises `NotFound`.
        """
        if name is not None:
            check_name("set", name)
        jobs = Counter(
            [
                each
                async for job in all_jobs(self._shared.store, like=_DECLARED)
                if (each := set_of(job.definition)) is not None
            ]
        )
        apps = Documents(self._shared.store, APPS, self._shared.random)
        async for part in apps.each():
            jobs[f"app/{part.name.rpartition('/')[0]}"] += len(apps.value_of(part).jobs)
        versions = {each.name: each for each in await Documents(self._shared.store, SETS, self._shared.random).list()}
        now, names = await self._shared.now(), {*jobs, *versions} if name is None else {*jobs, *versions} & {name}
        found = [state_of_set(each, versions.get(each), jobs[each], now) for each in sorted(names)]
        if name is not None and not found:
            raise no_set(name)
        return found

    @list.within
    async def _list_within(self, sight: Sight, name: str | None = None) -> Sequence[SetState]:
        """Return the sets with jobs in scope, and the number of these jobs."""
        seen = Counter(
            [set_of(job.definition) async for job in all_jobs(self._shared.store, like=_DECLARED) if sight.sees(job)]
        )
        found = [replace(each, jobs=seen[each.name]) for each in await self.list(name) if each.name in seen]
        if not found and name is not None:
            raise no_set(name)
        return found

    @operation(Role.READ, OPEN)
    async def resources(self, set_name: str | None = None) -> Resources:
        """Return the calendars, paused queues and limits of semaphores that a set declares; None: all."""
        if set_name is not None:
            check_word("set_name", set_name)
        return await self._work.resources(set_name)

    @resources.within
    async def _resources_within(self, sight: Sight, set_name: str | None = None) -> Resources:
        """Return pauses of queues in scope; the rest is everybody's."""
        found, owns = await self.resources(set_name), sight.scope.owns_queue
        return replace(
            found, queues={name: each for name, each in found.queues.items() if name == ALL_QUEUES or owns(name)}
        )


async def _check_declared(sight: Sight, declared: object) -> None:
    for job_id in mapping_of("declared", declared, "fields by id of the job"):
        checked = check_job_id(job_id)
        if not sight.scope.has_id(checked) or not await sight.may_become(checked):
            raise out_of_scope(f"jobs: {job_id!r}", job_id)


async def _check_plan(sight: Sight, plan: Applied) -> None:
    """Refuse changes of resources and jobs that are not in scope."""
    for part, changes in (("calendar", plan.calendars), ("semaphore", plan.semaphores), ("queue", plan.queues)):
        for name in (*changes.added, *changes.changed, *changes.adopted, *changes.removed, *changes.refused):
            if part != "queue" or not sight.scope.owns_queue(name):
                raise out_of_scope(f"{part}: {name!r}", name)
    for job_id in (*plan.removed, *plan.refused):
        if not await sight.sees_id(job_id):
            raise out_of_scope(f"prune: a job of the set {plan.set}")
