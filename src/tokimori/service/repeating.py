"""The same again: a run with what another one had, and a job like another one, or itself under another id."""

from collections.abc import Mapping

from msgspec import to_builtins
from msgspec.structs import replace

from tokimori.clock import Moment, format_moment
from tokimori.engine.rewind import hasten, rewind
from tokimori.errors import AlreadyExists, NotFound, Refused, TokimoriError
from tokimori.model.dependents import Edge
from tokimori.model.ids import JobId, RunId, check_job_id, check_new_job_id, check_uuid
from tokimori.model.job import Job, JobState
from tokimori.model.notes import given_to, is_inherited
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.store import RunFilter
from tokimori.service.arguments import RequestArguments
from tokimori.service.declared import APPS
from tokimori.service.definitions import check_readable, definition_from, fields_of, job_fields_of
from tokimori.service.deleting import DeletingService
from tokimori.service.documents import Documents
from tokimori.service.edits import kept_since
from tokimori.service.given import flag_of, job_fields
from tokimori.service.jobs import schedule_for
from tokimori.service.notified import check_untold
from tokimori.service.requests import Asked


class RepeatingService(DeletingService):
    """The part of the service that repeats runs, and copies and renames jobs."""

    async def retry_run(self, run_id: str, key: str | None = None, *, force: bool = False) -> Asked:
        """Ask for a run now with the payload, the priority and the concurrency key of one that has ended.

        It is a new run, whose `details.retry_of` names the old one. `key` and `force` are those of `trigger`, as are
        the errors; `Refused` is also raised for a run that has not ended, or whose job is another one by now.
        """
        old = await self._store.get_run(RunId(check_uuid(run_id, field="run")))
        fields = RequestArguments(
            priority=old.priority, concurrency_key=old.concurrency_key, force=flag_of("force", force)
        )
        request, job, run = await self._wanted(old.job_id, key, given_to(old), fields)
        if old.state not in ENDS:
            message = f"the run {old.id} has not ended: it is {old.state}; `tokimori run cancel {old.id}` ends it"
            raise Refused(message, field="run", value=old.id, allowed="a run that has ended")
        if job.incarnation != old.incarnation:
            message = f"the job of the run {old.id} was deleted, and {old.job_id!r} is another one"
            raise Refused(message, field="run", value=old.id, allowed=f"`tokimori job trigger {old.job_id}`")
        details = replace(run.details, retry_of=old.id, inherited=is_inherited(old))
        return await self._keep(request, replace(run, details=details))

    async def rewind(self, job_id: str) -> Job:
        """Put a job back to now that a clock which was ahead has put ahead, although not all is known that it has run.

        Moments of which no run is known then come again. Raises `Refused` for a job that is not ahead of the time.
        """
        job = await self._store.get_job(check_job_id(job_id))
        check_readable(job.definition)
        now = await self._now()
        found = await rewind(self._store, job, schedule_for, now, force=True)
        if not isinstance(found, Job):
            message = (
                f"the job {job.id!r} is not ahead of the time: it is decided up to {format_moment(job.fired_through)}"
            )
            raise Refused(message, field="job", value=job.id, allowed="a job that `tokimori doctor` names so")
        await hasten(self._store, now, job.id)
        return found

    async def copy_job(self, job_id: str, new_id: str) -> Job:
        """Add a job with the definition of another one; the new job.

        It is paused where the other one is paused or parked, for the same reason. Which set declares the other one, and
        its runs, stay with that. Raises what `add` does.
        """
        job, new = await self._store.get_job(check_job_id(job_id)), check_new_job_id(new_id)
        check_readable(job.definition)
        reason = job.reason or f"copied from {job.id}, which was {job.state}"
        stops = job.state in (JobState.PAUSED, JobState.PARKED)
        limits: dict[str, int] = {} if job.runs_remaining is None else {new: job.runs_remaining}
        definition = definition_from(fields_of(job.definition))
        done = await self.import_all([(new, definition)], {new: reason} if stops else {}, limits)
        if new not in done.added:
            raise AlreadyExists(
                f"id: there is a job {new!r} already", field="id", value=new, allowed="an id not in use"
            )
        return await self._store.get_job(new)

    async def rename_job(self, job_id: str, new_id: str) -> Job:
        """Give a job another id: the job of that id, which decides what its schedule names from where the old one was.

        Jobs that name it run after the new one, or are run by it. Its runs so far keep the old id: to keys of requests
        and to backfills the job is a new one.
        A parked job becomes paused. If this is interrupted, the same call goes on: meanwhile the job is paused. Of one
        that was paused before there may then be two, and the call says so (`AlreadyExists`).

        Raises `Refused` for a job that a set or an app declares, of which runs have not ended or that is a notifier
        which jobs name, and what `add` and `update` do.
        """
        job, new = await self._store.get_job(check_job_id(job_id)), check_new_job_id(new_id)
        check_readable(job.definition)
        if (declared := job.definition.declared) is not None:
            message = f"the job {job.id!r} is declared by the set {declared.set!r}: rename it there"
            raise Refused(message, field="id", value=job.id, allowed=f"a job of no set, or a copy: `job copy {job.id}`")
        if any(job.id in app.jobs for app in await Documents(self._store, APPS, self._random).list()):
            message = f"an app declares the job {job.id!r}, and would add it again: rename it there"
            raise Refused(message, field="id", value=job.id, allowed=f"a job of no app, or a copy: `job copy {job.id}`")
        await check_untold(self._store, job.id)
        edges = [edge for edge in (await self._store.family()).edges if edge.declared_by != job.id]
        for other in await self._renamed_in(edges, job.id, new):
            await self._judged(other, (await self._store.get_job(other)).definition)
        renamed = await self._moved(job, new)
        for other, changes in (await self._renamed_in(edges, job.id, new)).items():
            await self.edit(other, changes)
        await self.delete(job.id)
        return renamed

    async def _moved(self, job: Job, new: JobId) -> Job:
        """Return the job under its new id; the old one stays, paused. Where that fails all is as before."""
        reason = f"being renamed to {new}"
        if job.state is not JobState.ENABLED and job.reason != reason:
            await self._check_idle(job)
            return await self.copy_job(job.id, new)
        old = await self.pause(job.id, reason)
        try:
            await self._check_idle(old)
            return await self._add(new, job_fields(job_fields_of(old)), lambda each: _going_on(each, old))
        except AlreadyExists:
            if job.reason != reason:
                await self.resume(job.id)
                raise
            added = await self._store.get_job(new)
            if added.definition != job.definition:  # not by an earlier call, but by somebody else
                raise
            return added
        except TokimoriError:
            await self.resume(job.id)
            raise

    async def _check_idle(self, job: Job) -> None:
        """Check that no run of the job would be cancelled, or run beside those of the new one. Raises `Refused`."""
        live = frozenset(RunState) - ENDS
        for run in await self._store.list_runs(RunFilter(job_id=job.id, states=live, limit=1, longest=0)):
            if run.incarnation == job.incarnation:
                message = f"runs of the job {job.id!r} have not ended, such as {run.id}"
                raise Refused(message, field="id", value=job.id, allowed="a job all of whose runs have ended")

    async def _renamed_in(self, edges: list[Edge], old: JobId, new: JobId) -> Mapping[JobId, Mapping[str, object]]:
        """Return the changes of jobs that name the old id, by their ids."""
        changes: dict[JobId, Mapping[str, object]] = {}
        for other in {edge.declared_by for edge in edges if old in (edge.parent, edge.child)}:
            try:
                definition = (await self._store.get_job(other)).definition
            except NotFound:  # it was deleted meanwhile
                continue
            parents = [
                {**to_builtins(each), "job": new if each.job == old else each.job} for each in definition.parents
            ]
            renames = definition.on_failure_job == old
            failure = {"on_failure_job": new} if renames else {}
            changes[other] = {**({"parents": parents} if parents else {}), **failure}
        return changes


def _going_on(new: Job, old: Job) -> Job:
    """Return the new job, of which what the old one has decided is decided, and whose intervals go on."""
    definition = replace(new.definition, fired_ahead=old.definition.fired_ahead)
    return kept_since(replace(new, anchor=old.anchor, definition=definition), Moment(old.fired_through + 1))
