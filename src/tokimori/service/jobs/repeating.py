"""Copies of jobs, and jobs under another id."""

from collections.abc import Mapping
from contextlib import suppress

from msgspec import to_builtins
from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.errors import AlreadyExists, Conflict, NotFound, Refused, TokimoriError
from tokimori.model.dependents import Edge
from tokimori.model.ids import JobId, check_job_id
from tokimori.model.job import Job, JobState
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.store import RunFilter
from tokimori.service.definitions.definitions import check_readable, definition_from, fields_of, job_fields_of
from tokimori.service.definitions.differences import APPS
from tokimori.service.definitions.edits import RENAMING, check_staying, kept_since
from tokimori.service.documents import Documents
from tokimori.service.jobs.writer import JobWriter
from tokimori.service.notifiers import check_unnamed
from tokimori.service.validation import job_fields


async def copied(writer: JobWriter, job_id: str, new_id: str) -> Job:
    """Add a job with the definition of another one: see `Jobs.copy`."""
    job, new = await writer.store.get_job(check_job_id(job_id)), check_job_id(new_id)
    check_readable(job.definition)
    reason = job.reason or f"copied from {job.id}, which was {job.state}"
    stops = job.state in (JobState.PAUSED, JobState.PARKED)
    limits: dict[str, int] = {} if job.runs_remaining is None else {new: job.runs_remaining}
    definition = definition_from(fields_of(job.definition))
    done = await writer.import_all([(new, definition)], {new: reason} if stops else {}, limits)
    if new not in done.added:
        raise AlreadyExists(f"id: there is a job {new!r} already", field="id", value=new, allowed="an id not in use")
    return await writer.store.get_job(new)


async def renamed(writer: JobWriter, job_id: str, new_id: str) -> Job:
    """Give a job another id: see `Jobs.rename`."""
    job, new = await writer.store.get_job(check_job_id(job_id)), check_job_id(new_id)
    check_readable(job.definition)
    if (declared := job.definition.declared) is not None:
        message = f"the job {job.id!r} is declared by the set {declared.set!r}: rename it there"
        raise Refused(message, field="id", value=job.id, allowed=f"a job of no set, or a copy: `job copy {job.id}`")
    if any(job.id in app.jobs for app in await Documents(writer.store, APPS, writer.random).list()):
        message = f"an app declares the job {job.id!r}, and would add it again: rename it there"
        raise Refused(message, field="id", value=job.id, allowed=f"a job of no app, or a copy: `job copy {job.id}`")
    await check_unnamed(writer.store, job.id)
    edges = [edge for edge in (await writer.store.family()).edges if edge.declared_by != job.id]
    for other in await _renamed_in(writer, edges, job.id, new):
        await writer.check_right(other, (await writer.store.get_job(other)).definition)
    old, renamed = await _moved(writer, job, new)
    for other, changes in (await _renamed_in(writer, edges, job.id, new)).items():
        said = job_fields(changes)
        await writer.edit(other, lambda _, said=said: said)  # type: ignore[misc]
    if (await writer.store.get_job(job.id)).reason == old.reason:
        with suppress(Conflict):
            await writer.delete_as_read(old)
            return renamed
    raise _changed_meanwhile(job.id, f", and {new!r} may differ from it: delete one of them")


def _changed_meanwhile(job_id: JobId, what: str) -> Conflict:
    message = f"the job {job_id!r} was stopped or changed while it was renamed{what}"
    return Conflict(message, field="id", value=job_id)


async def _moved(writer: JobWriter, job: Job, new: JobId) -> tuple[Job, Job]:
    """Return the job, paused, and the one under its new id. If that fails all is as before."""
    reason = f"{RENAMING}{new}"
    if job.state is not JobState.ENABLED and job.reason != reason:
        check_staying(job)
        await _check_idle(writer, job)
        return job, await copied(writer, job.id, new)
    old = await writer.pause(job.id, reason)
    if old.reason != reason:
        raise _changed_meanwhile(job.id, ": rename it again")
    try:
        await _check_idle(writer, old)
        return old, await writer.add(new, job_fields(job_fields_of(old)), lambda each: _going_on(each, old))
    except AlreadyExists:
        if job.reason != reason:
            await writer.resume(job.id)
            raise
        added = await writer.store.get_job(new)
        if added.definition != job.definition:  # not by an earlier call, but by somebody else
            raise
        return old, added
    except TokimoriError:
        await writer.resume(job.id)
        raise


async def _check_idle(writer: JobWriter, job: Job) -> None:
    """Refuse a job with unfinished runs, which would be cancelled or overlap those of the new job. Raises `Refused`."""
    live = frozenset(RunState) - ENDS
    for run in await writer.store.list_runs(RunFilter(job_id=job.id, states=live, limit=1, longest=0)):
        if run.incarnation == job.incarnation:
            message = f"runs of the job {job.id!r} have not ended, such as {run.id}"
            raise Refused(message, field="id", value=job.id, allowed="a job all of whose runs have ended")


async def _renamed_in(
    writer: JobWriter, edges: list[Edge], old: JobId, new: JobId
) -> Mapping[JobId, Mapping[str, object]]:
    """Return the changes of jobs that name the old id, by their ids."""
    changes: dict[JobId, Mapping[str, object]] = {}
    for other in {edge.declared_by for edge in edges if old in (edge.parent, edge.child)}:
        try:
            definition = (await writer.store.get_job(other)).definition
        except NotFound:  # it was deleted meanwhile
            continue
        parents = [{**to_builtins(each), "job": new if each.job == old else each.job} for each in definition.parents]
        renames = definition.on_failure_job == old
        failure = {"on_failure_job": new} if renames else {}
        changes[other] = {**({"parents": parents} if parents else {}), **failure}
    return changes


def _going_on(new: Job, old: Job) -> Job:
    """Return the new job with the decided occurrences and the running intervals of the old one."""
    definition = replace(new.definition, fired_ahead=old.definition.fired_ahead)
    return kept_since(replace(new, anchor=old.anchor, definition=definition), Moment(old.fired_through + 1))
