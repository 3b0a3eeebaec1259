"""Jobs as people and programs use them: they add, edit, trigger, stop and delete them."""

from collections.abc import Collection, Mapping, Sequence
from typing import Unpack

from msgspec.structs import replace

from tokimori.clock import Moment, format_moment
from tokimori.engine.rewind import hasten, rewind
from tokimori.errors import Refused
from tokimori.model.access_token import Role
from tokimori.model.backfill import Backfill
from tokimori.model.ids import check_job_id
from tokimori.model.job import Definition, Job, JobState
from tokimori.model.run import Run
from tokimori.ports.store import Store
from tokimori.service.access import JOB, OPEN, WHOLE, Sight, deleted_alone, out_of_scope
from tokimori.service.definitions.arguments import JobArguments, Payload, PlainRequest, RequestArguments
from tokimori.service.definitions.definitions import check_readable, replacing
from tokimori.service.definitions.edits import check_tag, kept_since
from tokimori.service.definitions.imports import Imported, Start
from tokimori.service.definitions.requests import RequestedRun
from tokimori.service.jobs.backfill import Backfills
from tokimori.service.jobs.deleting import MOST_DELETED, DeletedJobs, delete_some
from tokimori.service.jobs.reads import JobReads
from tokimori.service.jobs.repeating import copied, renamed
from tokimori.service.jobs.requesting import CancelledRuns, RunRequests, cancel_some
from tokimori.service.jobs.writer import schedule_for
from tokimori.service.notifiers import without_names
from tokimori.service.operation import OUTCOME, REQUEST, STATE, Inside, M, composed, operation
from tokimori.service.orders import Orders
from tokimori.service.shared import Caller, Shared
from tokimori.service.validation import When, flag_of, job_fields, many, mapping_of, moment_of
from tokimori.service.views.jobs import DeletedJobs as DeletedJobsView
from tokimori.service.views.jobs import Job as JobView
from tokimori.service.views.outside import list_of
from tokimori.service.views.runs import Backfill as BackfillView
from tokimori.service.views.runs import RequestedRun as RequestedRunView
from tokimori.service.views.runs import Run as RunView


class Jobs(JobReads[M]):
    """Jobs. Every operation may raise `StoreError`, and `NotFound` for an unknown job."""

    def __init__(self, shared: Shared, caller: Caller) -> None:
        super().__init__(shared, caller)
        self._requests = RunRequests(shared, caller)
        self._orders = Orders(shared, caller)
        self._backfills = Backfills(shared.store, shared.now, shared.random, shared.aside)

    def _on(self, store: Store) -> "Jobs[Inside]":
        """Return the jobs of the same caller, written to this store: the same one, guarded."""
        return Jobs(replace(self._shared, store=store), self._caller)

    # Definitions

    @operation(Role.OPERATE, OPEN, audit=STATE, event="added", gives=JobView.made)
    async def add(self, job_id: str | None = None, /, **fields: Unpack[JobArguments]) -> Job:
        """Add a job, described by the fields of `help(tokimori.JobArguments)`; its id is a new UUID if none is given.

        Durations may be timedeltas, `starts_at` and `ends_at` aware datetimes.

        Raises `InvalidInput` and `AlreadyExists`.
        """
        return await self._writer.add(job_id, job_fields(fields), lambda job: job)

    @operation(Role.OPERATE, OPEN, audit=STATE, event="added", doing="Adding jobs", gives=JobView.made)
    async def add_since(
        self, job_id: str, since: When, /, not_before: When | None = None, **fields: Unpack[JobArguments]
    ) -> Job:
        """Add a job that another system has run until now.

        Its occurrences from `since` on are decided here, past ones included; with `misfire="all"` each of them runs
        once. None is decided before `not_before`. Otherwise it is like `add`.
        """
        terms = job_fields(fields)
        zone = str(terms.get("time_zone") or self._caller.time_zone)
        first = moment_of("since", since, zone)
        earliest = None if not_before is None else moment_of("not_before", not_before, zone)
        return await self._writer.add(job_id, terms, lambda job: kept_since(job, first, earliest))

    @operation(Role.OPERATE, OPEN, audit=OUTCOME, event="imported", of="jobs", doing="Adding jobs")
    async def import_all(
        self,
        jobs: Sequence[tuple[str, Definition]],
        paused_because: Mapping[str, str] | None = None,
        runs_remaining: Mapping[str, int] | None = None,
        starts: Mapping[str, Start] | None = None,
    ) -> Imported:
        """Add the jobs whose ids are free, all in one transaction, and leave the others as they are.

        `paused_because` gives reasons by id: these jobs are added paused. `runs_remaining` gives by id the number of
        scheduled runs that remain, and `starts` the moments from which moved jobs go on. Raises `InvalidInput` if any
        job is invalid; `AlreadyExists` if two have the same id.
        """
        return await self._writer.import_all(jobs, paused_because, runs_remaining, starts)

    @operation(Role.OPERATE, JOB, audit=STATE, event="changed", doing="Changing a job", gives=JobView.made)
    async def update(self, job_id: str, /, **changes: Unpack[JobArguments]) -> Job:
        """Change fields of a job (`JobFields`) like a JSON merge patch; None brings the default of a field back.

        Occurrences up to now are first decided by the old definition. Raises `InvalidInput`, and `Conflict` while other
        callers keep changing the job.
        """
        terms = job_fields(changes)
        return await self._writer.edit(check_job_id(job_id), lambda _: terms)

    @operation(Role.OPERATE, JOB, audit=STATE, event="changed", doing="Changing a job", gives=JobView.made)
    async def edit(
        self, job_id: str, said: Mapping[str, object], *, whole: bool = False, tags: Collection[str] | None = None
    ) -> Job:
        """Update a job as `update` does. `whole`: fields that are not given get their defaults.

        `tags`: the job's tag (`tag_of`) must be one of these, else `Outdated` is raised.
        """
        fields, anew = job_fields(mapping_of("said", said, "fields of a job")), flag_of("whole", whole)
        known = None if tags is None else frozenset(map(str, many("tags", tags, "tags of a job")))

        def changes_of(job: Job) -> Mapping[str, object]:
            check_tag(job, known)
            return replacing(job, fields) if anew else fields

        return await self._writer.edit(check_job_id(job_id), changes_of)

    @operation(Role.OPERATE, JOB, audit=STATE, event="changed", gives=JobView.made)
    async def refresh(self, job_id: str) -> Job:
        """Bring a job up to date with the days of its calendars and with the store that now keeps its semaphores.

        Its definition only names them. A job that is up to date stays as it is. Raises `Refused` for a definition that
        can't be read, and `Conflict` while other callers keep changing the job.
        """
        return await self._writer.refresh(job_id)

    @operation(Role.OPERATE, JOB, audit=STATE, event="added", gives=JobView.made)
    async def copy(self, job_id: str, new_id: str) -> Job:
        """Add a job with the definition of another one, and return it.

        It is paused if the other one is paused or parked, for the same reason. Which set declares the other one, and
        its runs, stay with that. Raises what `add` does.
        """
        return await copied(self._writer, job_id, new_id)

    @operation(Role.OPERATE, JOB, audit=OUTCOME, event="renamed", gives=JobView.made)
    async def rename(self, job_id: str, new_id: str) -> Job:
        """Give a job another id.

        The renamed job decides its schedule from the place that the old one had reached. Jobs that name the old id
        follow the new one. Runs so far keep the old id: for keys of requests and for backfills the job is a new one. A
        parked job becomes paused. If the call is interrupted the job is paused; repeat the call to finish. If the job
        was paused before, both jobs may then exist, and the call raises `AlreadyExists`. Other changes of the job are
        refused meanwhile; `Conflict` says that it was stopped or enabled. Raises `Refused` for a job that a set or an
        app declares, that has unfinished runs, or that is a notifier in use; otherwise as `add` and `update`.
        """
        return await renamed(self._writer, job_id, new_id)

    @rename.within
    async def _rename_within(self, sight: Sight, job_id: str, new_id: str) -> Job:
        """Give a job another id, also in the jobs that name it. Jobs outside the scope are not shown."""
        for other in {edge.declared_by for edge in await self.graph(job_id) if job_id in (edge.parent, edge.child)}:
            if not await sight.sees_id(other):
                raise out_of_scope(f"id: a job of others that names {job_id!r}", job_id)
        return await deleted_alone(sight, job_id, without_names(job_id, self.rename(job_id, new_id)))

    # Stopping

    @operation(Role.OPERATE, JOB, audit=STATE, event="paused", gives=JobView.made)
    async def pause(self, job_id: str, reason: str | None = None, *, now: bool = False) -> Job:
        """Pause a job: from now on none of its runs is claimed. A paused job stays as it is.

        Its running runs go on; with `now` they are cancelled, on every node.
        """
        return await self._writer.pause(job_id, reason, now=now)

    @operation(Role.OPERATE, JOB, audit=STATE, event="resumed", gives=JobView.made)
    async def resume(self, job_id: str, *, late: bool = False) -> Job:
        """Enable a paused or parked job. Missed occurrences are skipped, with `late` decided by its misfire policy."""
        return await self._writer.resume(job_id, late=late)

    @operation(Role.OPERATE, JOB, audit=STATE, event="resolved", gives=JobView.made)
    async def resolve(self, job_id: str) -> Job:
        """Enable a job that a failure has parked. Raises `Refused` for a job that is not parked."""
        job = await self._store.get_job(check_job_id(job_id))
        if job.state is not JobState.PARKED:
            hint = f": resume it with `tokimori job resume {job.id}`" if job.state is JobState.PAUSED else ""
            message = f"the job {job.id!r} is {job.state}, not parked{hint}"
            raise Refused(message, field="state", value=job.state, allowed="a parked job")
        return await self._writer.resume(job_id)

    @operation(Role.OPERATE, JOB, audit=STATE, event="changed", gives=JobView.made)
    async def rewind(self, job_id: str) -> Job:
        """Reset a job to now after a clock that was ahead has moved it into the future.

        Its runs need not all be known: moments without a known run then come again. Raises `Refused` for a job that is
        not ahead of the time.
        """
        job = await self._store.get_job(check_job_id(job_id))
        check_readable(job.definition)
        now = await self._now()
        found = await rewind(self._store, job, schedule_for, now, force=True)
        await hasten(self._store, now, job.id)
        if not isinstance(found, Job):
            message = (
                f"the job {job.id!r} is not ahead of the time: it is decided up to {format_moment(job.fired_through)}"
            )
            raise Refused(message, field="job", value=job.id, allowed="a job that `tokimori doctor` names so")
        return found

    @operation(Role.OPERATE, JOB, audit=STATE, event="deleted")
    async def delete(self, job_id: str, *, cascade: bool = False, now: bool = False, force: bool = False) -> None:
        """Delete a job and cancel its runs that have not started. Running runs go on; with `now` they are cancelled.

        Raises `Refused` if other jobs run after it, and for a notifier that jobs name, unless `force` is set. `cascade`
        also deletes children without another parent, and their children; other children lose this parent.
        """
        await self._writer.delete(job_id, cascade=cascade, now=now, force=force)

    @delete.within
    async def _delete_within(
        self, sight: Sight, job_id: str, *, cascade: bool = False, now: bool = False, force: bool = False
    ) -> None:
        """Delete a job, and with `cascade` all that run after it."""
        if cascade and not await sight.sees_all_after(check_job_id(job_id)):
            raise out_of_scope("cascade: a job that runs after it")
        await deleted_alone(
            sight, job_id, without_names(job_id, self.delete(job_id, cascade=cascade, now=now, force=force))
        )

    @composed(DeletedJobsView.made)
    async def delete_all(self, confirm: str, *, now: bool = False) -> DeletedJobs:
        """Delete every job that exists at the beginning, by calls of `delete_some`.

        `confirm` must be the text `all`. After an interruption call it again for the rest.
        """
        done = await self.delete_some(confirm, now=now)
        jobs, kept = [*done.jobs], dict(done.kept)
        while done.next is not None:
            done = await self.delete_some(confirm, after=done.next, until=done.until, now=now)
            jobs += done.jobs
            kept |= done.kept
        return DeletedJobs(jobs=tuple(jobs), kept=kept, until=done.until, next=None)

    @operation(Role.ADMIN, WHOLE, audit=OUTCOME, event="deleted", doing="Deleting all jobs", gives=DeletedJobsView.made)
    async def delete_some(
        self,
        confirm: str | None = None,
        *,
        after: str | None = None,
        until: When | None = None,
        limit: int = MOST_DELETED,
        now: bool = False,
        foreign: bool = False,
        dry_run: bool = False,
    ) -> DeletedJobs:
        """Delete the first jobs by id, from the first one behind `after`, each after those that run after it.

        Only jobs added up to `until` (now by default) are deleted, with `foreign` only those of Kala's API. Other jobs
        that run after them are treated as by `delete` with `cascade`, runs as by `delete`. `limit` is the largest
        number of jobs. `confirm` must be the text `all`, unless it is a `dry_run`, which deletes nothing. Raises
        `InvalidInput`.
        """
        return await delete_some(
            self._writer, confirm, after=after, until=until, limit=limit, now=now, foreign=foreign, dry_run=dry_run
        )

    # Runs of a job

    @operation(Role.OPERATE, JOB, audit=REQUEST, doing="Running a job", gives=RunView.made)
    async def trigger(
        self, job_id: str, key: str | None = None, payload: Payload | None = None, **fields: Unpack[RequestArguments]
    ) -> Run:
        """Request a run of a job, now or at a moment. `Request` documents the fields.

        A dict or a list as payload is written as JSON. Durations are seconds or timedeltas, moments aware datetimes or
        texts.

        Return the new run, or the existing one of the same key. In a program that was started by a run, that run is the
        parent unless `parent` names another. Raises `InvalidInput`, and `Refused` for a job that is paused or parked
        (unless `force`) or has the largest allowed number of waiting runs.
        """
        return (await self._request(job_id, key, payload, fields)).run

    @trigger.within
    async def _trigger_within(
        self,
        sight: Sight,
        job_id: str,
        key: str | None = None,
        payload: Payload | None = None,
        **fields: Unpack[RequestArguments],
    ) -> Run:
        await sight.check_parents([fields])
        run = await self.trigger(job_id, key, payload, **fields)
        await sight.check_answers(job_id, [run])
        return run

    @operation(Role.OPERATE, JOB, audit=REQUEST, doing="Running a job", gives=RequestedRunView.made)
    async def request(
        self, job_id: str, key: str | None = None, payload: Payload | None = None, **fields: Unpack[RequestArguments]
    ) -> RequestedRun:
        """Trigger a run as `trigger` does, and return the outcome of the request too."""
        return await self._request(job_id, key, payload, fields)

    @request.within
    async def _request_within(
        self,
        sight: Sight,
        job_id: str,
        key: str | None = None,
        payload: Payload | None = None,
        **fields: Unpack[RequestArguments],
    ) -> RequestedRun:
        await sight.check_parents([fields])
        answer = await self.request(job_id, key, payload, **fields)
        await sight.check_answers(job_id, [answer.run])
        return answer

    async def _request(
        self, job_id: str, key: str | None, payload: Payload | None, fields: RequestArguments
    ) -> RequestedRun:
        request, _, run = await self._requests.wanted(job_id, key, payload, fields)
        return await self._requests.store(request, run)

    @operation(Role.OPERATE, JOB, audit=REQUEST, doing="Running jobs", gives=list_of(RunView.made))
    async def trigger_many(
        self, job_id: str, requests: Sequence[PlainRequest], *, parent: str | None = None
    ) -> Sequence[Run]:
        """Trigger many runs of a job, each described by a dict of the arguments of `trigger`; return these in order.

        If one request is invalid no run is made. Runs of one moment and priority start in the given order. Some hundred
        are stored at a time, all of them or none. A later error says how many runs exist; with keys the whole call may
        be repeated. `force`, `debounce`, `throttle` and `replace` are not allowed. If one of some hundred is `unique`
        they are stored one by one. `parent` is that of requests that name none. Raises the errors of `trigger`.
        """
        return await self._requests.store_many(job_id, requests, parent)

    @trigger_many.within
    async def _trigger_many_within(
        self, sight: Sight, job_id: str, requests: Sequence[PlainRequest], *, parent: str | None = None
    ) -> Sequence[Run]:
        await sight.check_parents([{"parent": parent}, *many("requests", requests, "requests")])
        runs = await self.trigger_many(job_id, requests, parent=parent)
        await sight.check_answers(job_id, runs)
        return runs

    @operation(Role.OPERATE, JOB, audit=OUTCOME, doing="Backfilling a job", gives=BackfillView.made)
    async def backfill(
        self, job_id: str, first: When, last: When, *, max_running: int = 0, dry_run: bool = False
    ) -> Backfill:
        """Make runs for the occurrences from `first` to `last` (included) that have none; return its state.

        At most `max_running` of them are active at a time (0: no limit): ask again until none is missing. `dry_run`
        makes no runs. A text without offset is a time in the job's zone. Raises `InvalidInput`, and `Refused` for a
        paused or parked job.
        """
        only_looks = flag_of("dry_run", dry_run)
        span = await self._span(job_id, first, last)
        return await self._backfills.make(job_id, *span, max_running, bounds=self._caller.bounds, dry_run=only_looks)

    @operation(Role.OPERATE, JOB, audit=OUTCOME, doing="Cancelling a backfill", gives=BackfillView.made)
    async def cancel_backfill(self, job_id: str, first: When, last: When) -> Backfill:
        """Cancel a backfill of these occurrences: its runs that have not ended, and the making of more."""
        span = await self._span(job_id, first, last)
        return await self._backfills.cancel(job_id, *span, self._caller.bounds)

    async def _span(self, job_id: str, first: When, last: When) -> tuple[Moment, Moment]:
        zone = (await self._store.get_job(check_job_id(job_id))).definition.time_zone
        return moment_of("first", first, zone), moment_of("last", last, zone)

    @operation(Role.OPERATE, JOB, audit=OUTCOME, doing="Restarting the runs of a job", gives=list_of(RunView.made))
    async def restart(self, job_id: str) -> Sequence[Run]:
        """Restart all runs of a job that run on nodes, at most 1,000, and return them.

        Raises `Refused` for a job that never lets a run begin again.
        """
        return await self._orders.restart_all(await self.get(job_id))

    @composed()
    async def cancel(self, job_id: str, reason: str = "cancelled by hand") -> int:
        """Cancel all unfinished runs of a job on every node, and return their number. The job itself goes on.

        After an interruption call it again for the rest.
        """
        done = await self.cancel_some(job_id, reason)
        cancelled = done.cancelled
        while done.next is not None:
            done = await self.cancel_some(job_id, reason, done.next)
            cancelled += done.cancelled
        return cancelled

    @operation(Role.OPERATE, JOB, audit=OUTCOME, doing="Cancelling runs")
    async def cancel_some(
        self, job_id: str, reason: str = "cancelled by hand", before: str | None = None
    ) -> CancelledRuns:
        """Cancel the newest runs of a job that have not ended, at most 100: of those older than the run `before`."""
        return await cancel_some(self._store, self._now, await self.get(job_id), reason, before)

    async def _state(self, job_id: str) -> object:
        """Return the job, for the audit log."""
        return await self.get(job_id)
