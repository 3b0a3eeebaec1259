"""Jobs and runs of ours as Kala's JSON. Pure."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tokimori.clock import Moment, format_moment, parse_moment
from tokimori.errors import InvalidInput
from tokimori.foreign.kala.shapes import (
    LOCAL,
    REMOTE,
    ZERO_TIME,
    JobRequest,
    JobStat,
    KalaJob,
    KalaStats,
    Metadata,
    Remote,
    epsilon_seconds,
    read_schedule,
)
from tokimori.foreign.kala.translator import job_request_of, target_of
from tokimori.model.job import Definition, Job, JobState
from tokimori.model.retention import DailyCount
from tokimori.model.run import Run
from tokimori.model.target import Command, Http
from tokimori.model.transitions import ENDS, RunState
from tokimori.service.definitions.definitions import target_fields

STOPPED = frozenset({JobState.PAUSED, JobState.PARKED})
"""The states in which Kala calls a job disabled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownJob:
    """Job with its newest runs, newest first, and the number of ended ones by outcome."""

    job: Job
    runs: Sequence[Run]
    counts: Sequence[DailyCount]
    children: Sequence[str]


def kala_job(known: KnownJob) -> KalaJob:
    """Return the job. A member is as the program wrote it if our job still says the same."""
    job, definition, given = known.job, known.job.definition, job_request_of(known.job.definition.foreign)
    target = definition.target
    as_typed = _is_target(given, known.job)
    metadata = metadata_of(known)
    return KalaJob(
        name=definition.name or job.id,
        id=job.id,
        command=given.command if as_typed else command_of(definition),
        owner=definition.owner or "",
        disabled=job.state in STOPPED,
        dependent_jobs=tuple(known.children) or None,
        parent_jobs=tuple(parent.job for parent in definition.parents) or None,
        on_failure_job=definition.on_failure_job or "",
        schedule=_schedule(given, definition),
        retries=definition.retry.attempts - 1,
        epsilon=_epsilon(given, definition),
        success_count=metadata.success_count,
        last_success=metadata.last_success,
        error_count=metadata.error_count,
        last_error=metadata.last_error,
        last_attempted_run=metadata.last_attempted_run,
        next_run_at=stamp(job.next_due),
        delimiters=given.delimiters,
        resume_at_next_scheduled_time=given.resume_at_next_scheduled_time,
        metadata=metadata,
        type=REMOTE if isinstance(target, Http) else LOCAL,
        remote_properties=given.remote_properties if as_typed else _remote(definition),
        stats=job_stats(known.runs) or None,
        is_done=_is_done(known),
    )


def metadata_of(known: KnownJob) -> Metadata:
    """Return the metadata of the runs. Runs that are gone by now count as one attempt each."""
    ended = [run for run in known.runs if _began(run) is not None]
    succeeded, failed = _total(known.counts, RunState.SUCCEEDED), _total(known.counts, RunState.FAILED)
    more = sum(run.failures - (run.state is RunState.FAILED) for run in known.runs)
    return Metadata(
        success_count=succeeded,
        last_success=_newest(run.ended for run in ended if run.state is RunState.SUCCEEDED),
        error_count=failed + max(more, 0),
        last_error=_newest(run.ended for run in ended if run.state is RunState.FAILED),
        last_attempted_run=_newest(run.started or _began(run) for run in known.runs),
        number_of_finished_runs=succeeded + failed,
    )


def job_stats(runs: Sequence[Run]) -> tuple[JobStat, ...]:
    """Return the runs that were attempted and have ended, the oldest first."""
    return tuple(
        _job_stat(run, began, run.ended)
        for run in reversed(runs)
        if run.ended is not None and (began := _began(run)) is not None
    )


def kala_stats(jobs: Sequence[KalaJob], now: Moment) -> KalaStats:
    """Return the figures of all jobs together."""
    disabled = sum(job.disabled for job in jobs)
    errors, successes = sum(job.error_count for job in jobs), sum(job.success_count for job in jobs)
    times = [job.next_run_at for job in jobs if job.next_run_at != ZERO_TIME]
    upcoming = min(times, key=parse_moment, default=ZERO_TIME)
    last = max((job.last_attempted_run for job in jobs), key=parse_moment, default=ZERO_TIME)
    return KalaStats(
        active_jobs=len(jobs) - disabled,
        disabled_jobs=disabled,
        jobs=len(jobs),
        error_count=errors,
        success_count=successes,
        next_run_at=upcoming,
        last_attempted_run=last,
        created=format_moment(now),
        old_active_jobs=len(jobs) - disabled,
        old_disabled_jobs=disabled,
        old_jobs=len(jobs),
        old_error_count=errors,
        old_success_count=successes,
        old_next_run_at=upcoming,
        old_last_attempted_run=last,
        old_created=format_moment(now),
    )


def stamp(moment: Moment | None) -> str:
    """Return the moment as Go writes it."""
    return ZERO_TIME if moment is None else format_moment(moment)


def command_of(definition: Definition) -> str:
    """Return the command of a job that was added at another door; empty if it has none."""
    match definition.target:
        case Command(shell=str() as shell):
            return shell
        case Command(argv=argv):
            return shlex.join(argv)
        case _:
            return ""


def _job_stat(run: Run, began: Moment, ended: Moment) -> JobStat:
    ran_at, retries, success = format_moment(began), run.attempt - 1, run.state is RunState.SUCCEEDED
    lasted = max(ended - began, 0) * 1000
    return JobStat(
        job_id=run.job_id,
        ran_at=ran_at,
        number_of_retries=retries,
        success=success,
        execution_duration=lasted,
        old_job_id=run.job_id,
        old_ran_at=ran_at,
        old_number_of_retries=retries,
        old_success=success,
        old_execution_duration=lasted,
    )


def _began(run: Run) -> Moment | None:
    """Return the beginning of the first attempt of an ended run; None if it had none. For a run of several attempts
    this is the moment at which it was made; for one that could not start, its end.

    Of a run with several its row says only when the run was made. One that could not be started failed as it ended.
    """
    if run.state not in ENDS or (run.started is None and run.state is not RunState.FAILED):
        return None
    return run.created if run.attempt > 1 else run.started or run.ended


def _total(counts: Iterable[DailyCount], state: RunState) -> int:
    return sum(count.count for count in counts if count.outcome == state.value)


def _newest(moments: Iterable[Moment | None]) -> str:
    return stamp(max((moment for moment in moments if moment is not None), default=None))


def _is_target(request: JobRequest, job: Job) -> bool:
    """Return whether the job still does what the program asked for."""
    if not request.name:
        return False
    try:
        wanted = target_of(request, job.id)
    except InvalidInput:
        return False
    found = target_fields(job.definition.target)
    command = wanted.get("command")
    if command is not None:
        return found == {"command": tuple(command)}
    wanted = {name: value for name, value in wanted.items() if name != "timeout" and value is not None}
    return found == {**wanted, "expect": tuple(wanted["expect"])}


def _remote(definition: Definition) -> Remote:
    """Return the request of a job that was added at another door."""
    match definition.target:
        case Http(url=url, method=method, headers=headers, body=body, expect=expect):
            return Remote(
                url=url,
                method=method or "",
                body=body or "",
                headers={name: (value,) for name, value in headers.items()} or None,
                timeout=round(definition.timeout or 0),
                expected_response_codes=expect or None,
            )
        case _:
            return Remote()


def _schedule(request: JobRequest, definition: Definition) -> str:
    if definition.schedule is None:
        return request.schedule if definition.parents else ""
    try:
        return request.schedule if read_schedule(request.schedule).text == definition.schedule else definition.schedule
    except InvalidInput:
        return definition.schedule


def _epsilon(request: JobRequest, definition: Definition) -> str:
    seconds = definition.retry.epsilon
    try:
        if definition.schedule is None or epsilon_seconds(request.epsilon) == seconds:
            return request.epsilon
    except InvalidInput:
        pass
    return "" if seconds is None else f"PT{seconds:g}S"


def _is_done(known: KnownJob) -> bool:
    """Return whether no run is planned: its schedule has ended, or it has none (a child, too) and has run."""
    job, definition = known.job, known.job.definition
    if definition.schedule is not None:
        return job.state is JobState.FINISHED
    return any(run.state in ENDS for run in known.runs)
