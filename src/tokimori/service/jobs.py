"""Jobs as people and programs use them: they add, edit, stop and delete them."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from copy import copy
from typing import Self, Unpack

import msgspec

from tokimori.clock import Clock, Moment
from tokimori.errors import AlreadyExists, Conflict, FamilyChanged, InvalidInput, NotFound, Refused, StoreUnavailable
from tokimori.model.decide import Due
from tokimori.model.ids import JobId, RandomBytes, check_job_id, check_new_job_id, new_incarnation, uuid7
from tokimori.model.job import Definition, Job, JobState, schedule_of
from tokimori.model.sizes import check_reason
from tokimori.ports.secrets import Cipher
from tokimori.ports.store import Store
from tokimori.schedules.schedule import Schedule
from tokimori.service.arguments import JobArguments
from tokimori.service.asking import MOST_LISTED, checked, retried
from tokimori.service.audit import Audit
from tokimori.service.calendars import Calendars
from tokimori.service.catching_up import caught_up, reckoned
from tokimori.service.days_off import CALENDARS, DaysOff, read_again, read_days_off
from tokimori.service.definitions import check_readable, definition_from, patched, replacing, runs_remaining_in
from tokimori.service.documents import Documents
from tokimori.service.edits import Edit, check_tag, edited, kept_since, new_job, paused, resumed
from tokimori.service.expectations import Expectations
from tokimori.service.family import check_childless, checked_family, going_with
from tokimori.service.given import When, check_author, flag_of, job_fields, many, mapping_of, moment_of
from tokimori.service.imports import PAIRS, Imported, Start, checked_limits, checked_pair, checked_starts, started
from tokimori.service.judge import Beside, Judge
from tokimori.service.notified import check_untold
from tokimori.service.operation import Async
from tokimori.service.queues import Queues
from tokimori.service.runs import RunService
from tokimori.service.schema import StoreOnDemand
from tokimori.service.secrets import Secrets
from tokimori.service.semaphores import Semaphores, placed
from tokimori.service.shown import Foreseen
from tokimori.service.store_time import Now
from tokimori.service.tasks import Tasks
from tokimori.service.tokens import Tokens
from tokimori.service.weights import Weights

Wanted = tuple[Definition, Mapping[str, object]]  # and the fields by which it was said


class JobService(RunService):
    """The part of the service that changes jobs. `author` is recorded with every order.

    Semaphores may be in a store of their own (`semaphore_store`), which is opened when it is first needed. `now` tells
    the time by which jobs fire: the store's, unless it is given; `clock` only measures how long something takes.
    `cipher` encrypts secrets. `trusts_time` tells whether its node decides by its clock now, `stops` whether it stops.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        random: RandomBytes,
        *,
        time_zone: str = "UTC",
        author: str | None = None,
        parent: Callable[[], str | None] = lambda: None,
        traceparent: Callable[[], str | None] = lambda: None,
        semaphore_store: StoreOnDemand | None = None,
        now: Now | None = None,
        cipher: Cipher | None = None,
        trusts_time: Callable[[], bool] = lambda: True,
        stops: Callable[[], bool] = lambda: False,
    ) -> None:
        self._parent, self._traceparent, weights = parent, traceparent, Weights(self._store_of_semaphores)
        super().__init__(store, clock, random, time_zone=time_zone, weights=weights, now=now, stops=stops)
        self._semaphore_store, self._cipher, self._trusts_time = semaphore_store, cipher, trusts_time
        self._calendars = Documents(store, CALENDARS, random)
        self.semaphores: Semaphores[Async] = Semaphores(self._store_of_semaphores)
        self._foreseen = Foreseen(store.mark)
        self._judge: Judge | None = None
        self._beside: Beside = {}
        self._act_as(author)

    def acting_as(self, author: str | None) -> Self:
        """Return the same service for another author, who is recorded with its orders. Nothing is opened."""
        check_author(author)
        other = copy(self)
        other._act_as(author)
        return other

    def _act_as(self, author: str | None) -> None:
        self._author = author
        self.calendars: Calendars[Async] = Calendars(self._store, self._random, self.refresh)
        self.queues: Queues[Async] = Queues(self._store, self._now, author, self._cancel)
        self.audit: Audit[Async] = Audit(self._store, self._now, self._random, author)
        self.expectations: Expectations[Async] = Expectations(self._store, self._now, self._random)
        self.tokens: Tokens[Async] = Tokens(self._store, self._now, self._random, author)
        self.secrets: Secrets[Async] = Secrets(self._store, self._now, self._random, author, self._cipher)
        self.tasks: Tasks[Async] = Tasks(self, self._store, self._now, self._random, author)

    async def _store_of_semaphores(self) -> Store:
        return self._store if self._semaphore_store is None else await self._semaphore_store.opened()

    def _placed(self, definition: Definition) -> Definition:
        return placed(definition, apart=self._semaphore_store is not None)

    async def add(self, job_id: str | None = None, /, **fields: Unpack[JobArguments]) -> Job:
        """Add a job, described by the fields of `JobFields`; its id is a new UUID if none is given.

        Durations may be timedeltas, `starts_at` and `ends_at` aware datetimes.

        Raises `InvalidInput` and `AlreadyExists`.
        """
        return await self._add(job_id, job_fields(fields), lambda job: job)

    async def add_since(
        self, job_id: str, since: When, /, not_before: When | None = None, **fields: Unpack[JobArguments]
    ) -> Job:
        """Add a job that was kept elsewhere so far: what it names from `since` on is decided here, the past too.

        With `misfire="all"` it is run, each moment once. Nothing is decided before `not_before`. Else as `add`.
        """
        said = job_fields(fields)
        zone = str(said.get("time_zone") or self.time_zone)
        first = moment_of("since", since, zone)
        earliest = None if not_before is None else moment_of("not_before", not_before, zone)
        return await self._add(job_id, said, lambda job: kept_since(job, first, earliest))

    async def _add(self, job_id: str | None, said: Mapping[str, object], begun: Callable[[Job], Job]) -> Job:
        now = await self._now()
        definition = definition_from(said, time_zone=self.time_zone)
        checked = check_new_job_id(uuid7(now, self._random) if job_id is None else job_id)
        new, days = await self._new(checked, definition, now, runs_remaining_in(said))
        job = begun(new)
        try:
            await self._add_jobs([job])
        except Conflict:
            raise _taken(checked) from None
        return await self._kept(job, days)

    async def _new(
        self, job_id: JobId, said: Definition, now: Moment, limit: int | None = None, since: Moment | None = None
    ) -> tuple[Job, DaysOff]:
        """Return the job as it is added, and whose days off it has. Raises `InvalidInput`."""
        definition = self._placed(said)
        await self._judged(job_id, definition)
        await self._weights.check(definition)
        days = await read_days_off(self._calendars, definition.calendars)
        life = new_incarnation(self._random)
        return new_job(job_id, definition, life, now, limit, days_off=days.text, since=since), days

    async def _judged(self, job_id: JobId, definition: Definition) -> None:
        if self._judge is not None:
            await self._judge(job_id, definition, self._beside)
        await self.expectations._check_free(job_id, definition)

    async def _kept(self, job: Job, days: DaysOff) -> Job:
        """Return the job with its calendars' days of now: they may have changed while it was written."""
        if (await read_again(self._calendars, days)).text == job.days_off:
            return job
        return await self.refresh(job.id)

    async def _add_jobs(self, jobs: Sequence[Job]) -> None:
        """Add all of these jobs, or none. It is tried again if the edges between jobs change meanwhile."""
        await self.expectations._of_jobs(jobs)

        async def act() -> None:
            await self._store.add_jobs(jobs, await checked_family(self._store, jobs))

        await retried(act, FamilyChanged, StoreUnavailable)

    async def import_all(
        self,
        jobs: Sequence[tuple[str, Definition]],
        paused_because: Mapping[str, str] | None = None,
        runs_remaining: Mapping[str, int] | None = None,
        starts: Mapping[str, Start] | None = None,
    ) -> Imported:
        """Add the jobs whose ids are free, all in one transaction, and leave the others as they are.

        `paused_because` gives reasons by id: these jobs are added paused. `runs_remaining` gives by id how many
        scheduled runs there are to be, and `starts` how jobs go on that were kept elsewhere so far. Raises
        `InvalidInput` if any job is invalid; `AlreadyExists` if two have the same id.
        """
        limits, begun = checked_limits(runs_remaining), checked_starts(starts, paused_because)
        now, together = await self._now(), copy(self)
        new: dict[JobId, Job] = {}
        days: dict[JobId, DaysOff] = {}
        pairs = [checked_pair(pair) for pair in many("jobs", jobs, PAIRS)]
        together._beside = dict(pairs)
        for place, (job_id, definition) in enumerate(pairs):
            if job_id in new:
                raise _taken(job_id)
            await asyncio.sleep(0)  # on the loop of a node, runs have their turn
            try:
                start = begun.get(job_id, Start())
                job, days[job_id] = await together._new(job_id, definition, now, limits.get(job_id), start.since)
            except InvalidInput as fault:
                raise fault.below(f"jobs[{place}]") from None
            new[job_id] = started(job, start, now, self._author)
        try:
            await self._add_jobs(list(new.values()))
            added: Collection[JobId] = new
        except (Conflict, StoreUnavailable):
            added = await retried(lambda: self._add_missing(new), Conflict, StoreUnavailable)
        for job_id in added:
            await self._kept(new[job_id], days[job_id])
        return Imported(added=tuple(added), unchanged=tuple(job_id for job_id in new if job_id not in added))

    async def _add_missing(self, new: Mapping[JobId, Job]) -> dict[JobId, Job]:
        """Add the jobs that are missing. Jobs that a first try added, though its reply was lost, count as added."""
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
        """Jobs by id, from the first one behind `after`."""
        first = None if after is None else check_job_id(after, field="after")
        return await self._store.list_jobs(after=first, limit=checked("limit", limit, MOST_LISTED))

    async def update(self, job_id: str, /, **changes: Unpack[JobArguments]) -> Job:
        """Change fields of a job (`JobFields`) like a JSON merge patch; None brings the default of a field back.

        Occurrences up to now are first decided by the old definition. Raises `InvalidInput`, and `Conflict` while
        others keep changing the job.
        """
        said = job_fields(changes)
        return await self._edit(check_job_id(job_id), lambda _: said)

    async def edit(
        self, job_id: str, said: Mapping[str, object], *, whole: bool = False, tags: Collection[str] | None = None
    ) -> Job:
        """Do what `update` does. `whole`: fields that are not said get their defaults back.

        `tags`: only if the tag of the job (`tag_of`) is one of these; else `Outdated` is raised.
        """
        fields, anew = job_fields(mapping_of("said", said, "fields of a job")), flag_of("whole", whole)
        known = None if tags is None else frozenset(map(str, many("tags", tags, "tags of a job")))

        def changes_of(job: Job) -> Mapping[str, object]:
            check_tag(job, known)
            return replacing(job, fields) if anew else fields

        return await self._edit(check_job_id(job_id), changes_of)

    async def refresh(self, job_id: str) -> Job:
        """Bring a job up to date with the days of its calendars and with the store that now keeps its semaphores.

        Its definition only names them. A job that is up to date stays as it is. Raises `Refused` for a definition that
        can't be read, and `Conflict` while others keep changing the job.
        """
        return await self._edit(check_job_id(job_id), lambda _: {})

    async def _edit(self, job_id: JobId, changes_of: Callable[[Job], Mapping[str, object]]) -> Job:
        def wanted(job: Job) -> Wanted:
            changes = changes_of(job)
            return patched(job.definition, changes, time_zone=self.time_zone), changes

        return await self._rewrite(job_id, wanted)

    async def _rewrite(self, job_id: JobId, wanted: Callable[[Job], Wanted]) -> Job:
        """Give a job the definition that `wanted` makes of what it is."""

        async def act() -> tuple[Job, DaysOff]:
            return await self._try_rewrite(job_id, wanted)

        return await self._kept(*await retried(act, Conflict, StoreUnavailable))

    async def _try_rewrite(self, job_id: JobId, wanted: Callable[[Job], Wanted]) -> tuple[Job, DaysOff]:
        now = await self._now()
        due = await self._store.get_due(job_id)
        said, changes = wanted(due.job)
        definition = self._placed(said)
        days = await read_days_off(self._calendars, definition.calendars)
        if (definition, days.text) == (due.job.definition, due.job.days_off) and "runs_remaining" not in changes:
            return due.job, days
        if definition != due.job.definition:
            await self._judged(job_id, definition)
        await self._weights.check(definition)

        def edit_of(due: Due) -> Edit:
            return edited(due, definition, now, runs_remaining_in(changes, due.job.runs_remaining), days.text)

        edit = await reckoned(self._aside, due, now, edit_of)
        decided = await caught_up(self._store, due, now, self._random, schedule_for, monotonic=self._clock.monotonic)
        if decided is not due:
            edit = await reckoned(self._aside, decided, now, edit_of)
        family = await checked_family(self._store, [edit.job])
        await self.expectations._of_job(job_id, definition)
        await self._store.replace_job(decided.job, edit.job, edit.skips, family)
        return edit.job, days

    async def delete(self, job_id: str, *, cascade: bool = False, now: bool = False, force: bool = False) -> None:
        """Delete a job and cancel its runs that have not started. Running ones go on; with `now` they are cancelled.

        Raises `Refused` if other jobs run after it, and for a notifier that jobs name, unless you `force` it. With
        `cascade` jobs that have no other parent go too, with all that run after them; other ones lose this parent.
        """
        checked_id = check_job_id(job_id)
        flag_of("now", now)
        if not flag_of("force", force):
            await check_untold(self._store, checked_id)
        if flag_of("cascade", cascade):
            await self._cut_off(checked_id, now=now)
        await check_childless(self._store, checked_id)
        await self._delete_alone(checked_id, now=now)

    async def _delete_alone(self, checked_id: JobId, *, now: bool) -> None:
        """Delete this job and no other. Raises `Refused`."""
        if now:  # paused first: nothing starts behind what is cancelled, and who dies on the way can be asked again
            job = await self.pause(checked_id, "to be deleted")
            await self._cancel_running(job, "its job was deleted")
        try:
            await self._delete(checked_id)
        except Refused as fault:  # somebody has added a child meanwhile: it would wait in silence for a paused parent
            stays = f"; it stays paused: `tokimori job resume {checked_id}` enables it" if now else ""
            raise Refused(fault.message + stays, field="id", value=checked_id, allowed=fault.allowed) from None

    async def _delete(self, job_id: JobId) -> None:
        try:
            await self._store.delete_job(job_id, await self._now())
        except StoreUnavailable:
            with suppress(NotFound):  # the first try may have done it
                await self._store.delete_job(job_id, await self._now())

    async def _cut_off(self, job_id: JobId, *, now: bool) -> None:
        """Delete jobs after which none runs first: the family is read once, and a stop on the way loses nothing."""
        edges = (await self._store.family()).edges
        going, cut = await self._aside.compute(lambda: going_with(edges, job_id))
        gone = frozenset(going)
        for child in cut:
            parents = (await self._store.get_job(child)).definition.parents
            await self.update(child, parents=[msgspec.to_builtins(each) for each in parents if each.job not in gone])
        for child in reversed(going[1:]):
            with suppress(NotFound):  # somebody has deleted it meanwhile
                await self._delete_alone(child, now=now)

    async def pause(self, job_id: str, reason: str | None = None, *, now: bool = False) -> Job:
        """Pause a job: from now on none of its runs is claimed. A paused job stays as it is.

        Its running runs go on; with `now` they are cancelled, on whatever node they are.
        """
        check_reason("reason", "" if reason is None else reason)
        flag_of("now", now)
        checked = check_job_id(job_id)
        job = await retried(lambda: self._pause(checked, reason), Conflict, StoreUnavailable)
        if now:
            await self._cancel_running(job, "its job was paused" if reason is None else f"its job was paused: {reason}")
        return job

    async def _pause(self, job_id: JobId, reason: str | None) -> Job:
        job = await self._store.get_job(job_id)
        if job.state is JobState.PAUSED:
            return job
        after = paused(job, await self._now(), reason, self._author)
        await self._store.replace_job(job, after)
        return after

    async def resume(self, job_id: str, *, late: bool = False) -> Job:
        """Enable a paused or parked job; what it missed is skipped, or (`late`) decided by its misfire policy."""
        checked, decides = check_job_id(job_id), flag_of("late", late)
        return await retried(lambda: self._resume(checked, late=decides), Conflict, StoreUnavailable)

    async def _resume(self, job_id: JobId, *, late: bool) -> Job:
        due = await self._store.get_due(job_id)
        if due.job.state not in (JobState.PAUSED, JobState.PARKED):
            return due.job
        check_readable(due.job.definition)
        now = await self._now()
        await self.expectations._of_job(job_id, due.job.definition, since=now)
        edit = await self._aside.compute(lambda: resumed(due, now, late=late))
        await self._store.replace_job(due.job, edit.job, edit.skips)
        return edit.job

    async def resolve(self, job_id: str) -> Job:
        """Enable a job that a failure has parked. Raises `Refused` for a job that is not parked."""
        job = await self._store.get_job(check_job_id(job_id))
        if job.state is not JobState.PARKED:
            hint = f": resume it with `tokimori job resume {job.id}`" if job.state is JobState.PAUSED else ""
            message = f"the job {job.id!r} is {job.state}, not parked{hint}"
            raise Refused(message, field="state", value=job.state, allowed="a parked job")
        return await self.resume(job_id)


def schedule_for(job: Job) -> Schedule:
    """Return the job's schedule, within its bounds and without its days off."""
    return schedule_of(job.definition, job.anchor, job.id, job.days_off)


def _taken(job_id: JobId) -> AlreadyExists:
    return AlreadyExists(f"id: there is a job {job_id!r} already", field="id", value=job_id, allowed="an id not in use")
