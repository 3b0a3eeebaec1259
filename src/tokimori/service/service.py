"""Everything that a door can ask for, checked and carried out."""

from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from heapq import merge
from itertools import islice
from typing import Self

import msgspec

from tokimori.clock import Clock, Moment
from tokimori.engine.fire import decide_and_apply
from tokimori.errors import AlreadyExists, Conflict, FamilyChanged, InvalidInput, NotFound, Refused, StoreUnavailable
from tokimori.model.calendar import decode_days_off
from tokimori.model.decide import Due
from tokimori.model.dependents import Edge
from tokimori.model.ids import JobId, Lane, RandomBytes, check_job_id, new_incarnation, uuid7
from tokimori.model.job import Definition, Job, JobState, edges_of, lane_of, schedule_of
from tokimori.model.pause import Pause
from tokimori.model.retention import DailyCount
from tokimori.model.run import Run, Skip
from tokimori.model.words import check_text
from tokimori.ports.nodes import NodeRecord
from tokimori.ports.store import SchemaStatus, Store
from tokimori.schedules.business_days import Shift
from tokimori.schedules.explain import Explanation, explain, explained
from tokimori.schedules.schedule import Fold, Gap, Reboot, Schedule
from tokimori.service.asking import MOST_LISTED, MOST_TRIES, checked, chosen, retried
from tokimori.service.calendars import Calendars
from tokimori.service.copying import KindCopied, Tell, copy_store
from tokimori.service.definitions import check_readable, definition_from, patched, runs_remaining_in
from tokimori.service.edits import edited, new_job, paused, resumed
from tokimori.service.family import check_childless, checked_family, dependents_of
from tokimori.service.graph import around, how
from tokimori.service.queues import Queues, binding, sentence
from tokimori.service.runs import RunService
from tokimori.service.schema import StoreOnDemand
from tokimori.service.semaphores import Semaphores

MOST_MOMENTS = 10_000
LONGEST_LANE = 2048
"""Characters that every store can keep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What an import did with its jobs."""

    added: tuple[JobId, ...]
    unchanged: tuple[JobId, ...]


class Service(RunService):
    """One store, as people and programs use it. `author` is kept with what they order.

    Semaphores may be in a store of their own (`semaphore_store`), which is opened when it is needed. Every method may
    raise `StoreError`; those that name a job or a run raise `NotFound` where there is none.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        random: RandomBytes,
        *,
        time_zone: str = "UTC",
        author: str | None = None,
        semaphore_store: StoreOnDemand | None = None,
    ) -> None:
        super().__init__(store, clock, random, time_zone=time_zone, semaphores=Semaphores(self._of_semaphores, clock))
        self._semaphore_store = semaphore_store
        self._act_as(author)

    def acting_as(self, author: str | None) -> Self:
        """The same service for somebody else, to whom what is ordered through it is put down. Nothing is opened."""
        other = copy(self)
        other._act_as(author)
        return other

    def _act_as(self, author: str | None) -> None:
        self._author = author
        self.calendars = Calendars(self._store, self.refresh)
        self.queues = Queues(self._store, self._clock, author, self.cancel)

    async def _of_semaphores(self) -> Store:
        return self._store if self._semaphore_store is None else await self._semaphore_store.opened()

    def _placed(self, definition: Definition) -> Definition:
        """The definition, saying where its semaphores are. Raises `InvalidInput`."""
        apart = self._semaphore_store is not None and bool(definition.semaphores)
        placed = msgspec.structs.replace(definition, apart=apart)
        if apart and len(lane_of(placed)) > LONGEST_LANE:
            raise InvalidInput(
                "semaphores: their names are too long for one job, where they are in another store",
                field="semaphores",
                value=",".join(definition.semaphores),
                allowed=f"fewer or shorter names: with the queue and the labels {LONGEST_LANE} characters in all",
            )
        return placed

    # Jobs

    def define(self, fields: Mapping[str, object]) -> Definition:
        """The definition that the fields of `JobFields` say, in this service's zone unless they name one."""
        return definition_from(fields, time_zone=self.time_zone)

    async def add(self, wanted: Definition | Mapping[str, object], job_id: str | None = None) -> Job:
        """Add a job, said by a definition or in the fields of `JobFields`, under a new UUID if no id is given.

        Raises `InvalidInput` and `AlreadyExists`.
        """
        definition = self._placed(wanted if isinstance(wanted, Definition) else self.define(wanted))
        runs_remaining = None if isinstance(wanted, Definition) else runs_remaining_in(wanted)
        now = self._clock.now()
        checked = check_job_id(uuid7(now, self._random) if job_id is None else job_id)
        await self.semaphores.check_weights(definition)
        days_off = await self.calendars.days_off(definition.calendars)
        job = new_job(checked, definition, new_incarnation(self._random), now, runs_remaining, days_off=days_off)
        try:
            await self._add_jobs([job])
        except Conflict:
            raise _taken(checked) from None
        return await self._kept(job)

    async def _kept(self, job: Job) -> Job:
        """The job; with its calendars' days of now, which may have been edited while it was written."""
        if await self.calendars.days_off(job.definition.calendars) == job.days_off:
            return job
        return await self.refresh(job.id)

    async def _add_jobs(self, jobs: Sequence[Job]) -> None:
        """Add them all, or none; again where which jobs run after which changes under our hands."""

        async def act() -> None:
            await self._store.add_jobs(jobs, await checked_family(self._store, jobs))

        await retried(act, FamilyChanged, StoreUnavailable)

    async def import_all(
        self, jobs: Sequence[tuple[str, Definition]], paused_because: Mapping[str, str] | None = None
    ) -> Imported:
        """Add those whose ids are free, and leave the others as they are: all in one transaction, or nothing.

        Those in `paused_because`, which gives reasons by id, are added paused. Raises `InvalidInput` if any job is
        invalid, or two have one id.
        """
        now = self._clock.now()
        new: dict[JobId, Job] = {}
        for job_id, said in jobs:
            checked, definition = check_job_id(job_id), self._placed(said)
            if checked in new:
                raise _taken(checked)
            await self.semaphores.check_weights(definition)
            days_off = await self.calendars.days_off(definition.calendars)
            job = new_job(checked, definition, new_incarnation(self._random), now, days_off=days_off)
            reason = (paused_because or {}).get(job_id)
            new[checked] = job if reason is None else paused(job, now, reason, self._author)
        try:
            await self._add_jobs(list(new.values()))
            added: Collection[JobId] = new
        except (Conflict, StoreUnavailable):
            added = await retried(lambda: self._add_missing(new), Conflict, StoreUnavailable)
        for job_id in added:
            await self._kept(new[job_id])
        return Imported(added=tuple(added), unchanged=tuple(job_id for job_id in new if job_id not in added))

    async def _add_missing(self, new: Mapping[JobId, Job]) -> dict[JobId, Job]:
        """Add those that are not there; ours from a first try whose reply was lost count as added."""
        missing: dict[JobId, Job] = {}
        for job_id, job in new.items():
            try:
                found = await self._store.get_job(job_id)
            except NotFound:
                missing[job_id] = job
            else:
                if found.incarnation == job.incarnation:
                    missing[job_id] = job
        if missing:
            await self._add_jobs(list(missing.values()))
        return missing

    async def list(self, after: str | None = None, limit: int = MOST_LISTED) -> Sequence[Job]:
        """Jobs by id, those greater than `after`."""
        first = None if after is None else check_job_id(after)
        return await self._store.list_jobs(after=first, limit=checked("limit", limit, MOST_LISTED))

    async def _jobs(self, *, idle: bool = False) -> AsyncIterator[Job]:
        after: JobId | None = None
        while page := await self._store.list_jobs(after=after, limit=MOST_LISTED, idle=idle):
            for job in page:
                yield job
            after = page[-1].id

    async def update(self, job_id: str, changes: Mapping[str, object]) -> Job:
        """Change fields of `JobFields`, as a JSON merge patch: a null brings the default back.

        Everything up to now is first decided by the old definition. Raises `InvalidInput`, and `Conflict` where others
        keep changing the job.
        """
        checked = check_job_id(job_id)
        return await self._kept(await retried(lambda: self._update(checked, changes), Conflict, StoreUnavailable))

    async def refresh(self, job_id: str) -> Job:
        """Bring a job up to date with what its definition only names: the days of its calendars, and the store of its
        semaphores. This is an edit without changes; a job that is up to date stays as it is.

        Raises `Refused` for a definition that can't be read, and `Conflict` where others keep changing the job.
        """
        return await self.update(job_id, {})

    async def _update(self, job_id: JobId, changes: Mapping[str, object]) -> Job:
        now = self._clock.now()
        due = await self._store.get_due(job_id)
        definition = self._placed(patched(due.job.definition, changes, time_zone=self.time_zone))
        days_off = await self.calendars.days_off(definition.calendars)
        if (definition, days_off) == (due.job.definition, due.job.days_off) and "runs_remaining" not in changes:
            return due.job
        await self.semaphores.check_weights(definition)
        edit = edited(due, definition, now, runs_remaining_in(changes, due.job.runs_remaining), days_off)
        decided = await self._decided(due, now)
        if decided is not due:
            edit = edited(decided, definition, now, runs_remaining_in(changes, decided.job.runs_remaining), days_off)
        family = await checked_family(self._store, [edit.job])
        await self._store.replace_job(decided.job, edit.job, edit.skips, family)
        return edit.job

    async def _decided(self, due: Due, now: Moment) -> Due:
        """The job after its occurrences up to now are decided; what a full catch-up leaves is skipped by the edit."""
        for _ in range(MOST_TRIES):
            job = due.job
            if job.state is not JobState.ENABLED or job.next_due is None or job.next_due > now:
                break
            await decide_and_apply(self._store, [due], now, self._random, _schedule_for)
            due = await self._store.get_due(job.id)
        return due

    async def delete(self, job_id: str, *, cascade: bool = False, now: bool = False) -> None:
        """Forget the job; its runs that have not started are cancelled, those that run go on unless it is to be `now`.

        Raises `Refused` where other jobs run after it. With `cascade` those go too that have no other parent (and what
        runs after them), and the others lose this one.
        """
        checked_id = check_job_id(job_id)
        if cascade:
            await self._cut_off(checked_id, now=now)
        await check_childless(self._store, checked_id)
        if now:  # paused first: nothing starts behind what is cancelled, and who dies on the way can be asked again
            job = await self.pause(checked_id, "to be deleted")
            await self._cancel_running(job, "its job was deleted")
        try:
            await self._store.delete_job(checked_id, self._clock.now())
        except StoreUnavailable:
            with suppress(NotFound):  # the first try may have done it
                await self._store.delete_job(checked_id, self._clock.now())

    async def _cut_off(self, job_id: JobId, *, now: bool) -> None:
        for child in await dependents_of(self._store, job_id):
            parents = (await self._store.get_job(child)).definition.parents
            others = [msgspec.to_builtins(parent) for parent in parents if parent.job != job_id]
            if others:
                await self.update(child, {"parents": others})
            else:
                await self.delete(child, cascade=True, now=now)

    async def pause(self, job_id: str, reason: str | None = None, *, now: bool = False) -> Job:
        """From now on nothing of the job is claimed. A paused job stays as it is.

        What runs goes on to its end; with `now` it is cancelled, on whatever node it is.
        """
        check_text("reason", reason or "")
        checked = check_job_id(job_id)
        job = await retried(lambda: self._pause(checked, reason), Conflict, StoreUnavailable)
        if now:
            await self._cancel_running(job, "its job was paused" if reason is None else f"its job was paused: {reason}")
        return job

    async def _pause(self, job_id: JobId, reason: str | None) -> Job:
        job = await self._store.get_job(job_id)
        if job.state is JobState.PAUSED:
            return job
        after = paused(job, self._clock.now(), reason, self._author)
        await self._store.replace_job(job, after)
        return after

    async def resume(self, job_id: str) -> Job:
        """Enable a paused or parked job; what it missed is recorded as skipped. Others stay as they are."""
        checked = check_job_id(job_id)
        return await retried(lambda: self._resume(checked), Conflict, StoreUnavailable)

    async def _resume(self, job_id: JobId) -> Job:
        due = await self._store.get_due(job_id)
        if due.job.state not in (JobState.PAUSED, JobState.PARKED):
            return due.job
        check_readable(due.job.definition)
        edit = resumed(due, self._clock.now())
        await self._store.replace_job(due.job, edit.job, edit.skips)
        return edit.job

    async def resolve(self, job_id: str) -> Job:
        """Enable a job that a failure has parked. Raises `Refused` for one that is not parked."""
        job = await self._store.get_job(check_job_id(job_id))
        if job.state is not JobState.PARKED:
            raise Refused(f"{job.id} is {job.state}", field="state", value=job.state, allowed="a parked job")
        return await self.resume(job_id)

    async def next_times(self, job_id: str, n: int = 10, after: Moment | None = None) -> Sequence[Moment]:
        """The next moments that the job's schedule names, whatever its state; no more than it has runs remaining."""
        job = await self.get(job_id)
        start = self._clock.now() if after is None else after
        wanted = checked("n", n, MOST_MOMENTS)
        return [moment for _, moment in islice(() if job.state is JobState.DELETED else _moments(job, start), wanted)]

    async def upcoming(self, n: int = 20, after: Moment | None = None) -> Sequence[tuple[Job, Moment]]:
        """The next moments of all enabled jobs together, soonest first."""
        start = self._clock.now() if after is None else after
        jobs = [job async for job in self._jobs() if job.state is JobState.ENABLED]
        merged = merge(*(_moments(job, start) for job in jobs), key=lambda pair: (pair[1], pair[0].id))
        return list(islice(merged, checked("n", n, MOST_MOMENTS)))

    async def explain(
        self,
        text: str,
        time_zone: str | None = None,
        n: int = 5,
        after: Moment | None = None,
        *,
        gap: str = Gap.SHIFT,
        fold: str = Fold.FIRST,
        calendars: Sequence[str] = (),
        shift: str | None = None,
    ) -> Explanation:
        """What a schedule's text means to a job added now. Raises `InvalidSchedule`, and `InvalidInput` otherwise."""
        days_off = await self.calendars.days_off(calendars)
        return explain(
            text,
            zone=time_zone or self.time_zone,
            after=self._clock.now() if after is None else after,
            n=checked("n", n, MOST_MOMENTS),
            gap=chosen(Gap, "gap", gap),
            fold=chosen(Fold, "fold", fold),
            days_off=None if days_off is None else decode_days_off(days_off),
            shift=None if shift is None else chosen(Shift, "shift", shift),
        )

    async def explain_job(self, job_id: str, n: int = 5, after: Moment | None = None) -> Explanation:
        """What the job's schedule means, and its next moments as `next_times` gives them."""
        job = await self.get(job_id)
        explanation = explained(
            job.definition.schedule or "on demand",
            _schedule_for(job),
            zone=job.definition.time_zone,
            after=self._clock.now() if after is None else after,
            n=checked("n", n, MOST_MOMENTS),
        )
        pauses = await self.pauses_of(job_id)
        hindrances = [*map(sentence, pauses), *await self.too_heavy(job_id)]
        warnings = (*explanation.warnings, *(f"Nothing of it starts: {each}." for each in hindrances))
        if job.state is JobState.DELETED:
            warnings = ("It was deleted, and is known until the last of its runs has ended.",)
        if job.definition.parents:
            ends = [f"{edge.parent} {how(edge)}" for edge in edges_of(job.id, job.definition) if edge.child == job.id]
            return replace(explanation, sentence=f"After {', '.join(ends)}.", warnings=warnings)
        return replace(explanation, moments=tuple(await self.next_times(job_id, n, after)), warnings=warnings)

    async def pauses_of(self, job_id: str) -> Sequence[Pause]:
        """The pauses of the job's queue and of everything, whatever the job's own state."""
        return binding((await self.get(job_id)).definition.queue, await self.queues.pauses())

    async def too_heavy(self, job_id: str) -> Sequence[str]:
        """Which weights of the job are above a limit, a sentence each: until that is raised nothing of it starts."""
        return await self.semaphores.too_heavy((await self.get(job_id)).definition)

    async def skips(self, job_id: str, limit: int = 100) -> Sequence[Skip]:
        """The job's occurrences that became no run, newest first; none of a deleted job."""
        if (await self.get(job_id)).state is JobState.DELETED:
            return ()
        return await self._store.skips(check_job_id(job_id), limit=checked("limit", limit, MOST_LISTED))

    async def graph(self, job_id: str | None = None) -> Sequence[Edge]:
        """Which jobs run after which, by parent; with an id only what is above and below that job."""
        checked_id = None if job_id is None else (await self.get(job_id)).id
        edges = sorted((await self._store.family()).edges)
        return edges if checked_id is None else around(edges, checked_id)

    async def counts(self, job_id: str) -> Sequence[DailyCount]:
        """What ended and what was skipped by day and outcome, of all that ever had this id, pruned or not.

        Raises `NotFound` where nothing has or had it.
        """
        checked = check_job_id(job_id)
        counts = await self._store.counts(checked)
        if not counts:
            await self._store.get_job(checked)
        return counts

    # Starts

    async def trigger_reboot(self, host: str, boot_id: str, serves: Callable[[Lane], bool]) -> Sequence[Run]:
        """Ask for a run of every `@reboot` job whose lane the node of this host serves: once per host and boot."""
        runs: list[Run] = []
        async for job in self._jobs(idle=True):
            if isinstance(_schedule_for(job), Reboot) and serves(lane_of(job.definition)):
                with suppress(NotFound, Refused):  # deleted or paused meanwhile
                    runs.append(await self.trigger(job.id, f"reboot:{host}:{boot_id}"))
        return runs

    # Nodes and the store itself

    async def nodes(self) -> Sequence[NodeRecord]:
        """Living nodes and programs first, then those that went."""
        return await self._store.list_nodes()

    async def schema(self) -> SchemaStatus:
        """Which migrations have been applied."""
        return await self._store.schema()

    async def migrate(self) -> SchemaStatus:
        """Apply what is pending. Raises `SchemaMismatch` for a newer schema."""
        return await self._store.migrate()

    async def schema_script(self, *, whole: bool = False) -> str:
        """What `migrate` would do as SQL, or all that makes the tables of an empty store. Raises `Refused`."""
        return await self._store.script(whole=whole)

    async def check_schema(self) -> Sequence[str]:
        """How the store's tables differ from what this version made of them, a sentence each. Raises `Refused`."""
        return await self._store.differences()

    async def copy_to(self, target: Store, tell: Tell = lambda _step: None) -> Sequence[KindCopied]:
        """Copy everything to another open store, as `copy_store` says; `tell` hears how far it is."""
        return await copy_store(self._store, target, tell)


def _schedule_for(job: Job) -> Schedule:
    return schedule_of(job.definition, job.anchor, job.id, job.days_off)


def _moments(job: Job, after: Moment) -> Iterator[tuple[Job, Moment]]:
    schedule = _schedule_for(job)
    left = job.runs_remaining
    while left != 0 and (moment := schedule.next_after(after)) is not None:
        yield job, moment
        after, left = moment, None if left is None else left - 1


def _taken(job_id: JobId) -> AlreadyExists:
    return AlreadyExists(f"id: there is a job {job_id!r} already", field="id", value=job_id, allowed="an id not in use")
