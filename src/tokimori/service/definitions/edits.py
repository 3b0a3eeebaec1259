"""Edits of a job: add, edit, pause and resume, each as finished values for the store. Pure."""

from collections.abc import Callable, Collection, Generator
from typing import NamedTuple

from msgspec.structs import replace

from tokimori.clock import Moment, format_moment
from tokimori.errors import InvalidInput, InvalidSchedule, Outdated, Refused
from tokimori.model.decide import Due, decidable, has_ended, look_at, next_look, reckoned, skip_all
from tokimori.model.ids import Incarnation, JobId
from tokimori.model.job import Definition, Job, JobState, schedule_of
from tokimori.model.notifier import check_notifier
from tokimori.model.run import Skip, SkipReason
from tokimori.model.sizes import check_sizes
from tokimori.schedules.schedule import OnDemand, Schedule
from tokimori.schedules.zones import tzdata_version

_WHY_SKIPPED = {
    JobState.ENABLED: SkipReason.MISFIRE,
    JobState.FINISHED: SkipReason.MISFIRE,
    JobState.PAUSED: SkipReason.PAUSED,
    JobState.PARKED: SkipReason.PARKED,
}


def tag_of(job: Job) -> str:
    """Return the tag of the job: another text once the job was edited, or another job has its id."""
    return f"{job.version}.{job.incarnation:x}"


def check_tag(job: Job, tags: Collection[str] | None) -> None:
    """Refuse an edit of an outdated job, by its tags; None: any. Raises `Outdated`."""
    if tags is not None and tag_of(job) not in tags:
        raise Outdated(
            f"Somebody changed the job {job.id} since you read it: it has version {job.version} now. Read it again.",
            field="If-Match",
            value=", ".join(tags),
            allowed=tag_of(job),
        )


class Edit(NamedTuple):
    """The new value of a job, and the skips of its occurrences that were not decided yet."""

    job: Job
    skips: tuple[Skip, ...]


def new_job(
    job_id: JobId,
    definition: Definition,
    incarnation: Incarnation,
    now: Moment,
    runs_remaining: int | None = None,
    *,
    days_off: str | None = None,
    since: Moment | None = None,
) -> Job:
    """Return a new job of a checked definition.

    Raises `InvalidInput`, also if its schedule has no moment after now, or from `since` on.
    """
    check_notifier(job_id, definition.notifier, definition.notify)
    check_sizes(definition)
    schedule = schedule_of(definition, now, job_id, days_off)
    _check_moments(definition, schedule, now if since is None else Moment(since - 1), runs_remaining)
    return Job(
        id=job_id,
        incarnation=incarnation,
        version=1,
        definition=definition,
        created=now,
        updated=now,
        anchor=now,
        fired_through=now,
        next_due=next_look(definition, schedule.next_after(now), runs_remaining),
        runs_remaining=runs_remaining,
        tzdata=tzdata_version(),
        days_off=days_off,
    )


def kept_since(job: Job, since: Moment, not_before: Moment | None = None) -> Job:
    """Return a new job whose occurrences from `since` on are undecided.

    None is decided before `not_before`.
    """
    through = Moment(since - 1)
    schedule = schedule_of(job.definition, job.anchor, job.id, job.days_off)
    upcoming = next_look(job.definition, schedule.next_after(through), job.runs_remaining)
    later = upcoming if upcoming is None or not_before is None else max(upcoming, not_before)
    return replace(job, fired_through=through, next_due=later)


def edited(
    due: Due,
    definition: Definition,
    now: Moment,
    runs_remaining: int | None,
    days_off: str | None = None,
    *,
    is_late: Callable[[], bool] = lambda: False,
) -> Generator[Skip, None, Edit]:
    """Return the job with a new definition; its occurrences up to now that are not decided yet are skipped.

    If the schedule changes, `every …` counts from now on, there must be a moment left, and occurrences that only wait
    for their delay are skipped too. The skips are counted in steps, as in `skip_all`. Raises `InvalidInput`.
    """
    job = due.job
    moved = job.definition.moved if definition.queue == job.definition.queue else now
    definition = replace(definition, moved=moved)
    check_notifier(job.id, definition.notifier, definition.notify)
    check_sizes(definition)
    anew = _times(definition) != _times(job.definition)
    last = look_at(job.definition, now) if anew else now
    before = schedule_of(job.definition, job.anchor, job.id, job.days_off)
    left = yield from skip_all(due, before, last, _WHY_SKIPPED[job.state], is_late)
    through = Moment(max(decidable(job.definition, last), job.fired_through))
    anchor = now if anew else left.anchor
    schedule = schedule_of(definition, anchor, job.id, days_off)
    if anew or runs_remaining != job.runs_remaining:
        _check_moments(definition, schedule, through, runs_remaining)
    upcoming = next_look(definition, schedule.next_after(through), runs_remaining)
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
        runs_remaining=runs_remaining,
        tzdata=tzdata_version(),
        days_off=days_off,
    )
    return Edit(after, left.skips)


def paused(job: Job, now: Moment, reason: str | None, by: str | None) -> Job:
    """Return the job in state `paused`."""
    return replace(job, state=JobState.PAUSED, reason=reason, by=by, updated=now, next_due=None)


RENAMING = "being renamed to "
"""The beginning of the reason for which a job is paused while it gets another id."""


def check_staying(job: Job) -> None:
    """Refuse to change a job that is being renamed: its new one would not have the change. Raises `Refused`."""
    if job.state is JobState.PAUSED and (job.reason or "").startswith(RENAMING):
        message = f"the job {job.id!r} is {job.reason}"
        allowed = f"the new job; or `tokimori job resume {job.id}` before, if the renaming was interrupted"
        raise Refused(message, field="id", value=job.id, allowed=allowed)


def is_due(job: Job, now: Moment) -> bool:
    """Return whether the job has undecided occurrences up to now."""
    return job.state is JobState.ENABLED and job.next_due is not None and job.next_due <= now


def resumed(
    due: Due, now: Moment, *, late: bool = False, is_late: Callable[[], bool] = lambda: False
) -> Generator[Skip, None, Edit]:
    """Return the job, enabled again; the occurrences that it missed become one range of skips and are not made up for.

    They are counted in steps, as in `skip_all`. `late`: they are still to be decided, by the job's misfire policy.
    """
    job = due.job
    schedule = schedule_of(job.definition, job.anchor, job.id, job.days_off)
    if late:
        plan = reckoned(job, schedule)
    else:
        plan = yield from skip_all(due, schedule, now, _WHY_SKIPPED[job.state], is_late)
    after = replace(
        job,
        state=_state(schedule, plan.next_due),
        reason=None,
        by=None,
        updated=now,
        anchor=plan.anchor,
        fired_through=plan.fired_through,
        next_due=plan.next_due if not late or plan.next_due is None else max(plan.next_due, now),
        tzdata=plan.tzdata,
    )
    return Edit(after, plan.skips)


def _times(definition: Definition) -> tuple[object, ...]:
    return definition.schedule, definition.time_zone, definition.gap, definition.fold, definition.anchored_on


def _state(schedule: Schedule, upcoming: Moment | None) -> JobState:
    return JobState.FINISHED if has_ended(schedule, upcoming) else JobState.ENABLED


def _check_moments(definition: Definition, schedule: Schedule, after: Moment, runs_remaining: int | None) -> None:
    if has_ended(schedule, schedule.next_after(after)):
        raise InvalidSchedule(
            f"schedule: {definition.schedule!r} names no moment after {format_moment(after)}{_bounds(definition)}",
            field="schedule",
            value=definition.schedule,
            allowed="a schedule with a moment in the future",
        )
    if runs_remaining is not None and isinstance(schedule, OnDemand):
        raise InvalidInput(
            "runs_remaining: only scheduled runs are counted, and the job runs on demand",
            field="runs_remaining",
            value=runs_remaining,
            allowed="a schedule with moments beside it",
        )


def _bounds(definition: Definition) -> str:
    return "" if definition.ends_at is None else f" and up to {definition.ends_at}"
