"""The rules of runs for a token of some jobs or queues: a run is judged by its own job id and queue."""

from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.errors import Refused
from tokimori.model.ids import JobId, check_job_id, check_uuid
from tokimori.model.notes import given_to
from tokimori.model.retention import MOST_COUNTED, daily_counts, day_of
from tokimori.model.run import Run
from tokimori.model.statistics import statistics
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.store import RunFilter
from tokimori.service.access import AskedOperation, changes, reads
from tokimori.service.asking import MOST_LISTED
from tokimori.service.finding import MOST_PAGES, find_runs, seen_runs
from tokimori.service.given import many
from tokimori.service.requests import Asked as Ask
from tokimori.service.runs import RunDetails, RunSummary
from tokimori.service.scoped import jobs_within
from tokimori.service.sight import Sight, no_job, no_run, out_of_scope
from tokimori.service.why.reasons import Why

_Summary = TypeVar("_Summary", bound=RunSummary)


OF_JOB, OF_RUN = reads(Sight.sees_id, no_job), reads(Sight.sees_run_id, no_run)
TO_RUN = changes(Sight.sees_run_id, "id")
TO_JOB = changes(Sight.sees_id, "id")


async def why(asked: AskedOperation) -> Any:
    """Return the holders that are in scope; count the others."""
    found: Why = await (OF_RUN if asked.name == "why_run" else OF_JOB)(asked)
    if not await asked.sight.sees_id(found.job_id):  # what holds it is told of the job that has its id now
        return replace(found, reasons=())
    return await asked.sight.of_why(found)


async def read_run(asked: AskedOperation) -> Any:
    """Return a run, without what the job says that has its id now, where that is of others."""
    found: RunDetails = await OF_RUN(asked)
    if await asked.sight.sees_id(found.run.job_id):
        return found
    run = replace(found.run, payload=given_to(await asked.service._store.get_run(found.run.id)))
    return replace(_of_nobody(asked, found), run=run)


async def listed_runs(asked: AskedOperation) -> list[Run]:
    """Return runs, newest first. Raises `Refused` if too many runs of others lie between."""
    wanted: RunFilter = asked.first
    try:
        found = await seen_runs(asked.service.list_runs, wanted, asked.sight.sees_run)
    except Refused:
        await _check_there(asked, wanted.job_id)
        raise
    if not found:
        await _check_there(asked, wanted.job_id)
    return found


async def _check_there(asked: AskedOperation, job_id: str | None) -> None:
    """Raise `NotFound` if a job is named that is not within the scope: no run of it is shown."""
    if job_id is not None and not await asked.sight.sees_id(job_id):
        raise no_job(job_id)


async def found_runs(asked: AskedOperation) -> Any:
    """Return the runs of a search. A job that is named has to be in scope, or runs of it."""
    longest, job_of = asked.argument("longest"), jobs_within(asked.sight.scope, asked.service.get)
    found = await find_runs(asked.service.list_runs, job_of, asked.first, asked.sight.sees_run, longest=longest)
    if not found.runs:
        await _check_there(asked, asked.first.job_id)
    return found


async def last_runs(asked: AskedOperation) -> Any:
    """Return the last runs in scope, also those before newer runs of others."""
    for job_id in {check_job_id(each, field=asked.subject) for each in many(asked.subject, asked.first, "ids of jobs")}:
        await _check_there(asked, job_id)
    found = dict(await asked.go())
    for job_id, runs in found.items():
        if not all([await asked.sight.sees_run(run) for run in runs]):
            wanted = RunFilter(job_id=job_id, limit=asked.argument("limit"), longest=asked.argument("longest"))
            found[job_id] = await listed_runs(asked._replace(args=(wanted,), kwargs={}, method=asked.service.list_runs))
    return found


async def summaries(asked: AskedOperation) -> Any:
    """Return runs as a list shows them. A job that is not in scope counts as gone."""
    for run in many(asked.subject, asked.first, "runs"):
        if isinstance(run, Run) and not await asked.sight.sees_run(run):
            raise no_job(run.job_id)
    found: list[RunSummary] = list(await asked.go())
    return [each if await asked.sight.sees_id(each.run.job_id) else _of_nobody(asked, each) for each in found]


def _of_nobody(asked: AskedOperation, summary: _Summary) -> _Summary:
    """Return the run as one of a job that is gone: of the one that has its id now nothing is told."""
    return replace(summary, time_zone=asked.service.time_zone, is_job_deleted=True)


async def counted(asked: AskedOperation) -> Any:
    """Count runs of a queue one by one, the newest 20,000: what was pruned of a job says no queue."""
    service, job_id = asked.service, check_job_id(asked.first)
    if not asked.sight.scope.queues:
        return await OF_JOB(asked)
    runs, is_all = await _ended_runs(asked, job_id)
    if not runs:
        await _check_there(asked, job_id)
    is_there = await asked.sight.sees_id(job_id)
    looked = 1 if is_all else MOST_COUNTED + 1
    rows = [(day_of(run.ended or Moment(0)), str(run.state), 1, 0, looked) for run in runs]
    all_skips = asked._replace(method=service.skips, args=(job_id, MOST_LISTED), kwargs={})
    skips = await skips_since_moved(all_skips) if is_there else ()
    rows += [(day_of(skip.last), str(skip.reason), skip.count, 0, 1) for skip in skips]
    if asked.name == "counts":
        return daily_counts(rows)
    zone = (await service.get(job_id)).definition.time_zone if is_there else service.time_zone
    measured = [run for run in runs if run.state is not RunState.CANCELLED][:MOST_LISTED]
    return statistics(job_id, daily_counts(rows), measured, zone)


async def _ended_runs(asked: AskedOperation, job_id: JobId) -> tuple[list[Run], bool]:
    """Return the runs of a job within the scope that have ended, newest first, and if these are all."""
    found: list[Run] = []
    wanted = RunFilter(job_id=job_id, states=ENDS, limit=MOST_LISTED, longest=0)
    for _ in range(MOST_PAGES):
        page = await asked.service.list_runs(wanted)
        found += [run for run in page if await asked.sight.sees_run(run)]
        if len(page) < MOST_LISTED:
            return found, True
        wanted = replace(wanted, before=page[-1].id)
    return found, False


async def skips_since_moved(asked: AskedOperation) -> Any:
    """Return the skips of a job since it is in its queue."""
    job, found = await asked.service.get(asked.first), await asked.go()
    since = job.definition.moved if asked.sight.scope.queues else None
    return [skip for skip in found if skip.first >= (since or 0)]


async def retried(asked: AskedOperation) -> Any:
    """Check that a new run may be asked for of the job that has the id now."""
    if await asked.sight.sees_run_id(asked.first):
        old = (await asked.service.get_run(asked.first)).run
        if await asked.sight.sees_id(old.job_id):
            return await asked.go()
    raise out_of_scope(f"id: {asked.first!r}", asked.first)


async def requested(asked: AskedOperation) -> Any:
    """Return a run of a job, perhaps in the name of another run."""
    requests = many("requests", asked.argument("requests"), "requests") if asked.name == "trigger_many" else []
    named = [each.get("parent") for each in (asked.kwargs, *requests) if isinstance(each, Mapping)]
    for parent in dict.fromkeys(check_uuid(each, field="parent") for each in named if each is not None):
        if not await asked.sight.sees_run_id(parent):
            raise out_of_scope(f"parent: {parent!r}", parent)
    answer = await TO_JOB(asked)
    runs: list[Run] = answer if isinstance(answer, list) else [answer.run if isinstance(answer, Ask) else answer]
    for run in runs:
        if not await asked.sight.sees_run(run):  # it was asked for under the key while the job was in another queue
            raise out_of_scope("key: its run", asked.first)
    return answer
