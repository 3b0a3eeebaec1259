"""Writer of jobs: it checks definitions as jobs are added, edited and deleted, and writes them."""

import asyncio
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import Clock, Moment, format_moment
from tokimori.engine.fire import LONGEST as STEP
from tokimori.engine.fire import decide_and_apply
from tokimori.errors import AlreadyExists, Conflict, FamilyChanged, InvalidInput, NotFound, Refused, StoreUnavailable
from tokimori.model.calendar import Calendar
from tokimori.model.checks import check_definition
from tokimori.model.decide import MOST_OCCURRENCES, Due
from tokimori.model.ids import JobId, RandomBytes, check_job_id, new_incarnation, uuid7
from tokimori.model.job import Definition, Job, JobState, schedule_of
from tokimori.model.run import Skip
from tokimori.model.sizes import check_reason
from tokimori.ports.store import Jobs, Store
from tokimori.schedules.schedule import Schedule
from tokimori.service.access import Beside, Judge
from tokimori.service.calendars import CALENDARS, DaysOff, read_again, read_days_off
from tokimori.service.definitions.definitions import check_readable, definition_from, patched, runs_remaining_in
from tokimori.service.definitions.edits import Edit, check_staying, edited, is_due, new_job, paused, resumed
from tokimori.service.definitions.imports import (
    PAIRS,
    Imported,
    Start,
    checked_limits,
    checked_pair,
    checked_starts,
    started,
)
from tokimori.service.documents import Documents
from tokimori.service.expectations import Expectations
from tokimori.service.jobs.family import check_childless, checked_family, deleted_with
from tokimori.service.long_work import Aside
from tokimori.service.notifiers import check_unnamed
from tokimori.service.operation import Inside
from tokimori.service.semaphores import Weights, placed
from tokimori.service.shared import Caller, Shared
from tokimori.service.store_calls import MOST_TRIES, Now, cancel_running, retried
from tokimori.service.validation import flag_of, many

Wanted = tuple[Definition, Mapping[str, object]]
"""A definition, and the fields by which it was said."""


def schedule_for(job: Job) -> Schedule:
    """Return the job's schedule, within its bounds and without its days off."""
    return schedule_of(job.definition, job.anchor, job.id, job.days_off)


def writer_on(shared: Shared, caller: Caller) -> "JobWriter":
    """Return the writer of a caller."""
    return JobWriter(
        store=shared.store,
        clock=shared.clock,
        now=shared.now,
        random=shared.random,
        aside=shared.aside,
        apart=shared.apart,
        calendars=Documents(shared.store, CALENDARS, shared.random),
        weights=Weights(shared.store_of_semaphores),
        expectations=Expectations(shared.store, shared.now, shared.random),
        author=caller.author,
        time_zone=caller.time_zone,
        judge=caller.judge,
    )


class JobWriter(Struct, frozen=True, kw_only=True):
    """Writer of checked definitions. `calendars` and `weights` may be future ones; `beside` is written with them."""

    store: Store
    clock: Clock
    now: Now
    random: RandomBytes
    aside: Aside
    apart: bool
    calendars: Documents[Calendar]
    weights: Weights
    expectations: Expectations[Inside]
    author: str | None
    time_zone: str
    judge: Judge | None
    beside: Beside = {}

    def placed(self, definition: Definition) -> Definition:
        """Return the definition with the place of its semaphores filled in."""
        return placed(definition, apart=self.apart)

    async def add(self, job_id: str | None, said: Mapping[str, object], begun: Callable[[Job], Job]) -> Job:
        """Add a job with these fields, as `begun` makes it of a new one."""
        now = await self.now()
        definition = definition_from(said, time_zone=self.time_zone)
        checked = check_job_id(uuid7(now, self.random) if job_id is None else job_id)
        new, days = await self.new(checked, definition, now, runs_remaining_in(said))
        job = begun(new)
        try:
            await self._add_jobs([job])
        except Conflict:
            raise _id_in_use(checked) from None
        return await self.with_days(job, days)

    async def new(
        self, job_id: JobId, said: Definition, now: Moment, limit: int | None = None, since: Moment | None = None
    ) -> tuple[Job, DaysOff]:
        """Return the job as it is added, and whose days off it has. Raises `InvalidInput`."""
        definition = self.placed(said)
        await self.check_right(job_id, definition)
        await self.weights.check(definition)
        days = await read_days_off(self.calendars, definition.calendars)
        life = new_incarnation(self.random)
        return new_job(job_id, definition, life, now, limit, days_off=days.text, since=since), days

    async def check_right(self, job_id: JobId, definition: Definition) -> None:
        """Refuse a job that the caller may not make, and one whose name is expected elsewhere."""
        if self.judge is not None:
            await self.judge(job_id, definition, self.beside)
        await self.expectations._check_free(job_id, definition)

    async def with_days(self, job: Job, days: DaysOff) -> Job:
        """Return the job with its calendars' days of now: they may have changed while it was written."""
        if (await read_again(self.calendars, days)).text == job.days_off:
            return job
        return await self.refresh(job.id)

    async def _add_jobs(self, jobs: Sequence[Job]) -> None:
        """Add all of these jobs, or none. Retry if the edges between jobs change at the same time."""
        await self.expectations._of_jobs(jobs)

        async def act() -> None:
            await self.store.add_jobs(jobs, await checked_family(self.store, jobs))

        await retried(act, FamilyChanged, StoreUnavailable)

    async def import_all(
        self,
        jobs: Sequence[tuple[str, Definition]],
        paused_because: Mapping[str, str] | None = None,
        runs_remaining: Mapping[str, int] | None = None,
        starts: Mapping[str, Start] | None = None,
    ) -> Imported:
        """See `Jobs.import_all`."""
        limits, begun = checked_limits(runs_remaining), checked_starts(starts, paused_because)
        now = await self.now()
        new: dict[JobId, Job] = {}
        days: dict[JobId, DaysOff] = {}
        pairs = [checked_pair(pair) for pair in many("jobs", jobs, PAIRS)]
        together = replace(self, beside=dict(pairs))
        for place, (job_id, definition) in enumerate(pairs):
            if job_id in new:
                raise _id_in_use(job_id)
            await asyncio.sleep(0)  # on the loop of a node, runs have their turn
            try:
                start = begun.get(job_id, Start())
                check_definition(definition)  # a program may have made it, not `definition_from`
                job, days[job_id] = await together.new(job_id, definition, now, limits.get(job_id), start.since)
            except InvalidInput as fault:
                raise fault.below(f"jobs[{place}]") from None
            new[job_id] = started(job, start, now, self.author)
        try:
            await self._add_jobs(list(new.values()))
            added: Collection[JobId] = new
        except (Conflict, StoreUnavailable):
            added = await retried(lambda: self._add_missing(new), Conflict, StoreUnavailable)
        for job_id in added:
            await self.with_days(new[job_id], days[job_id])
        return Imported(added=tuple(added), unchanged=tuple(job_id for job_id in new if job_id not in added))

    async def _add_missing(self, new: Mapping[JobId, Job]) -> dict[JobId, Job]:
        """Add the jobs that are missing. Jobs that a first try added, though its reply was lost, count as added."""
        missing: dict[JobId, Job] = {}
        for job_id, job in new.items():
            try:
                found = await self.store.get_job(job_id)
            except NotFound:
                missing[job_id] = job
            else:
                if found.incarnation == job.incarnation:
                    missing[job_id] = job
        if missing:
            await self._add_jobs(list(missing.values()))
        return missing

    async def refresh(self, job_id: str) -> Job:
        """See `Jobs.refresh`."""
        return await self.edit(check_job_id(job_id), lambda _: {})

    async def edit(self, job_id: JobId, changes_of: Callable[[Job], Mapping[str, object]]) -> Job:
        """Change the fields of a job that `changes_of` names, as it is."""

        def wanted(job: Job) -> Wanted:
            changes = changes_of(job)
            return patched(job.definition, changes, time_zone=self.time_zone), changes

        return await self.rewrite(job_id, wanted)

    async def rewrite(self, job_id: JobId, wanted: Callable[[Job], Wanted]) -> Job:
        """Replace the definition of a job by the result of `wanted`."""

        async def act() -> tuple[Job, DaysOff]:
            return await self._try_rewrite(job_id, wanted)

        return await self.with_days(*await retried(act, Conflict, StoreUnavailable))

    async def _try_rewrite(self, job_id: JobId, wanted: Callable[[Job], Wanted]) -> tuple[Job, DaysOff]:
        now = await self.now()
        due = await self.store.get_due(job_id)
        fields, changes = wanted(due.job)
        definition = self.placed(fields)
        days = await read_days_off(self.calendars, definition.calendars)
        if (definition, days.text) == (due.job.definition, due.job.days_off) and "runs_remaining" not in changes:
            return due.job, days
        check_staying(due.job)
        if definition != due.job.definition:
            await self.check_right(job_id, definition)
        await self.weights.check(definition)

        async def edit_of(due: Due) -> Edit:
            remaining = runs_remaining_in(changes, due.job.runs_remaining)
            steps = partial(edited, due, definition, now, remaining, days.text)
            return await in_steps(self.store, due, steps, self.clock.monotonic)

        edit = await edit_of(as_decided(due, now))
        decided = await caught_up(self.store, due, now, self.random, schedule_for, monotonic=self.clock.monotonic)
        if decided is not due:
            edit = await edit_of(decided)
        family = await checked_family(self.store, [edit.job])
        await self.expectations._of_job(job_id, definition)
        await self.store.replace_job(decided.job, edit.job, edit.skips, family)
        return edit.job, days

    async def delete(self, job_id: str, *, cascade: bool = False, now: bool = False, force: bool = False) -> None:
        """See `Jobs.delete`."""
        checked_id = check_job_id(job_id)
        flag_of("now", now)
        if not flag_of("force", force):
            await check_unnamed(self.store, checked_id)
        if flag_of("cascade", cascade):
            await self._cut_off(checked_id, now=now)
        await check_childless(self.store, checked_id)
        await self.delete_alone(checked_id, now=now)

    async def delete_as_read(self, job: Job) -> None:
        """Delete a job, unless it was changed since it was read. Raises `Conflict`, and as `Jobs.delete` does."""
        await check_unnamed(self.store, job.id)
        await check_childless(self.store, job.id)
        await self._delete(job.id, job)

    async def delete_alone(self, checked_id: JobId, *, now: bool) -> None:
        """Delete one job without its descendants. Raises `Refused`."""
        if now:  # paused first: no new run starts, and an interrupted call can be repeated
            job = await self.pause(checked_id, "to be deleted")
            await cancel_running(self.store, self.now, job, "its job was deleted")
        try:
            await self._delete(checked_id)
        except Refused as fault:  # a child was added meanwhile: it would wait for a paused parent, unnoticed
            stays = f"; it stays paused: `tokimori job resume {checked_id}` enables it" if now else ""
            raise Refused(fault.message + stays, field="id", value=checked_id, allowed=fault.allowed) from None

    async def _delete(self, job_id: JobId, known: Job | None = None) -> None:
        try:
            await self.store.delete_job(job_id, await self.now(), known)
        except StoreUnavailable:
            with suppress(NotFound):  # the first try may have done it
                await self.store.delete_job(job_id, await self.now(), known)

    async def _cut_off(self, job_id: JobId, *, now: bool) -> None:
        """Delete jobs after which none runs first: the family is read once, and a stop on the way loses nothing."""
        edges = (await self.store.family()).edges
        going, cut = await self.aside.compute(lambda: deleted_with(edges, job_id))
        gone = frozenset(going)
        for child in cut:
            parents = (await self.store.get_job(child)).definition.parents
            kept = [msgspec.to_builtins(each) for each in parents if each.job not in gone]
            await self.edit(child, lambda _, kept=kept: {"parents": kept})  # type: ignore[misc]
        for child in reversed(going[1:]):
            with suppress(NotFound):  # somebody has deleted it meanwhile
                await self.delete_alone(child, now=now)

    async def pause(self, job_id: str, reason: str | None = None, *, now: bool = False) -> Job:
        """See `Jobs.pause`."""
        check_reason("reason", "" if reason is None else reason)
        flag_of("now", now)
        checked = check_job_id(job_id)
        job = await retried(lambda: self._pause(checked, reason), Conflict, StoreUnavailable)
        if now:
            why = "its job was paused" if reason is None else f"its job was paused: {reason}"
            await cancel_running(self.store, self.now, job, why)
        return job

    async def _pause(self, job_id: JobId, reason: str | None) -> Job:
        job = await self.store.get_job(job_id)
        if job.state is JobState.PAUSED:
            if job.reason != reason:
                check_staying(job)
            return job
        after = paused(job, await self.now(), reason, self.author)
        await self.store.replace_job(job, after)
        return after

    async def resume(self, job_id: str, *, late: bool = False) -> Job:
        """See `Jobs.resume`."""
        checked, decides = check_job_id(job_id), flag_of("late", late)
        return await retried(lambda: self._resume(checked, late=decides), Conflict, StoreUnavailable)

    async def _resume(self, job_id: JobId, *, late: bool) -> Job:
        due = await self.store.get_due(job_id)
        if due.job.state not in (JobState.PAUSED, JobState.PARKED):
            return due.job
        check_readable(due.job.definition)
        now = await self.now()
        await self.expectations._of_job(job_id, due.job.definition, since=now)
        edit = await in_steps(self.store, due, partial(resumed, due, now, late=late), self.clock.monotonic)
        await self.store.replace_job(due.job, edit.job, edit.skips)
        return edit.job


def _id_in_use(job_id: JobId) -> AlreadyExists:
    return AlreadyExists(f"id: there is a job {job_id!r} already", field="id", value=job_id, allowed="an id not in use")


LONGEST = 10.0
"""Seconds for which an edit of a job waits until occurrences before it are decided."""


def as_decided(due: Due, now: Moment) -> Due:
    """Return the job as if all that is due were decided, for a check of an edit before it is."""
    through = max(due.job.fired_through, now)
    return replace(due, job=replace(due.job, fired_through=through)) if is_due(due.job, now) else due


class EditOf(Protocol):
    """An edit that counts its skips in steps, and yields the present count at each pause."""

    def __call__(self, *, is_late: Callable[[], bool]) -> Generator[Skip, None, Edit]:
        """Make the edit."""
        ...


async def in_steps(store: Jobs | None, due: Due, edit_of: EditOf, monotonic: Callable[[], float]) -> Edit:
    """Return the edit, and yield to the loop every few milliseconds while it counts skips, perhaps of years.

    Raises `Refused` if that takes too long. The count so far is stored if there is a store, and a repeated request goes
    on from it.
    """
    began = turn = monotonic()
    steps = edit_of(is_late=lambda: monotonic() > turn + STEP)
    while True:
        try:
            skip = next(steps)
        except StopIteration as end:
            edit: Edit = end.value
            return edit
        if store is not None and monotonic() > began + LONGEST:
            job = replace(due.job, version=due.job.version + 1, fired_through=skip.last)
            await store.replace_job(due.job, job, (skip,))
            raise _too_slow(job)
        await asyncio.sleep(0)
        turn = monotonic()


async def caught_up(
    store: Store,
    due: Due,
    now: Moment,
    random: RandomBytes,
    schedule_for: Callable[[Job], Schedule],
    *,
    monotonic: Callable[[], float],
) -> Due:
    """Return the job after its occurrences up to now are decided. If a catch-up is full, the edit skips the rest.

    Raises `Refused` if that takes too long. Decisions so far are stored, and a repeated request goes on from them.
    """
    tries, left, end = MOST_TRIES, MOST_TRIES * MOST_OCCURRENCES, monotonic() + LONGEST
    while min(tries, left) > 0 and is_due(job := due.job, now):
        if monotonic() > end:
            raise _too_slow(job)
        decided = await decide_and_apply(store, [due], now, random, schedule_for, monotonic=monotonic)
        tries, left = tries - (not decided.applied), left - sum(plan.walked for plan in decided.applied)
        due = await store.get_due(job.id)
    return due


def _too_slow(job: Job) -> Refused:
    return Refused(
        f"the job {job.id!r} has missed so many occurrences that they are decided up to "
        f"{format_moment(job.fired_through)} only, and an edit begins behind them: ask again, it goes on from there",
        field="id",
        value=job.id,
        allowed=f"the same again, or `tokimori job pause {job.id}` before: what a paused job has missed is skipped",
    )
