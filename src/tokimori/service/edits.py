"""What adding, editing, pausing and resuming make of a job: finished values for the store. Pure."""

from typing import NamedTuple

from msgspec.structs import replace

from tokimori.clock import Moment, format_moment
from tokimori.errors import InvalidSchedule
from tokimori.model.decide import Due, has_ended, skip_all
from tokimori.model.ids import Incarnation, JobId
from tokimori.model.job import Definition, Job, JobState, check_definition, schedule_of
from tokimori.model.run import Skip, SkipReason
from tokimori.schedules.schedule import Schedule

_WHY_SKIPPED = {
    JobState.ENABLED: SkipReason.MISFIRE,
    JobState.FINISHED: SkipReason.MISFIRE,
    JobState.PAUSED: SkipReason.PAUSED,
    JobState.PARKED: SkipReason.PARKED,
}


class Edit(NamedTuple):
    """A job's next value, and what becomes of its occurrences that are not decided yet."""

    job: Job
    skips: tuple[Skip, ...]


def new_job(job_id: JobId, definition: Definition, incarnation: Incarnation, now: Moment) -> Job:
    """A job as it is added. Raises `InvalidInput`, also where its schedule has no moment after now."""
    check_definition(definition)
    return Job(
        id=job_id,
        incarnation=incarnation,
        version=1,
        definition=definition,
        created=now,
        updated=now,
        anchor=now,
        fired_through=now,
        next_due=_first_moment(definition, schedule_of(definition, now, job_id), now),
    )


def edited(due: Due, definition: Definition, now: Moment) -> Edit:
    """The job under a new definition: what it has not decided up to now is skipped. Raises `InvalidInput`.

    Where its times change, `every …` counts from now on, and there must be a moment left.
    """
    check_definition(definition)
    job = due.job
    left = skip_all(due, schedule_of(job.definition, job.anchor, job.id), now, _WHY_SKIPPED[job.state])
    through = Moment(max(now, job.fired_through))
    if _times(definition) == _times(job.definition):
        anchor = job.anchor
        schedule = schedule_of(definition, anchor, job.id)
        upcoming = schedule.next_after(through)
    else:
        anchor = now
        schedule = schedule_of(definition, anchor, job.id)
        upcoming = _first_moment(definition, schedule, through)
    stopped = job.state in (JobState.PAUSED, JobState.PARKED)
    after = replace(
        job,
        version=job.version + 1,
        definition=definition,
        state=job.state if stopped else _state(schedule, upcoming),
        updated=now,
        anchor=anchor,
        fired_through=through,
        next_due=None if stopped else upcoming,
    )
    return Edit(after, left.skips)


def paused(job: Job, now: Moment, reason: str | None, by: str | None) -> Job:
    """The job, paused."""
    return replace(job, state=JobState.PAUSED, reason=reason, by=by, updated=now, next_due=None)


def resumed(due: Due, now: Moment) -> Edit:
    """The job, enabled again: what it missed is one range of skips, without catch-up."""
    job = due.job
    schedule = schedule_of(job.definition, job.anchor, job.id)
    plan = skip_all(due, schedule, now, _WHY_SKIPPED[job.state])
    after = replace(
        job,
        state=_state(schedule, plan.next_due),
        reason=None,
        by=None,
        updated=now,
        fired_through=plan.fired_through,
        next_due=plan.next_due,
    )
    return Edit(after, plan.skips)


def _times(definition: Definition) -> tuple[object, ...]:
    return definition.schedule, definition.time_zone, definition.gap, definition.fold


def _state(schedule: Schedule, upcoming: Moment | None) -> JobState:
    return JobState.FINISHED if has_ended(schedule, upcoming) else JobState.ENABLED


def _first_moment(definition: Definition, schedule: Schedule, after: Moment) -> Moment | None:
    upcoming = schedule.next_after(after)
    if has_ended(schedule, upcoming):
        raise InvalidSchedule(
            f"schedule: {definition.schedule!r} names no moment after {format_moment(after)}",
            field="schedule",
            value=definition.schedule,
            allowed="a schedule with a moment in the future",
        )
    return upcoming
