"""Reasons why a job does not start. Pure."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from tokimori.clock import Moment
from tokimori.model.expectation import Alarm, AlarmKind
from tokimori.model.job import Definition, Job, JobState, limit_of, schedule_of
from tokimori.model.lanes import lane_of
from tokimori.model.policies import Misfire, Overlap
from tokimori.model.run import SkipReason
from tokimori.model.semaphores import wanted
from tokimori.model.target import Unreadable
from tokimori.model.transitions import RunState
from tokimori.schedules.schedule import Bounded, OnDemand, Schedule
from tokimori.schedules.zones import clock_text
from tokimori.service.reasons import Cause, Reason, Why
from tokimori.service.why.reading import WhyReading
from tokimori.service.why.run import NAMED, doubted, holder_of, unfired, why_run
from tokimori.service.why.stops import nobody_takes, stops_of_people, too_heavy, unreadable


def why_job(reading: WhyReading, job: Job) -> Why:
    """Return the reasons that hold the job, and the first of its runs that has not started (`reading.run`)."""
    return Why(job_id=job.id, state=job.state.value, reasons=tuple(dict.fromkeys(_of_job(reading, job))))


def _of_job(reading: WhyReading, job: Job) -> Iterator[Reason]:
    if job.state is JobState.DELETED:
        yield Reason(cause=Cause.DELETED, text=f"job {job.id} was deleted; it is known until its last run has ended")
        return
    yield from stops_of_people(job, reading.pauses)
    yield from unreadable(job)
    for name, weight in wanted(job.definition.semaphores):
        units = reading.units.get(name)
        if units is not None and units.fault is None and weight > units.limit:
            yield too_heavy(name, weight, units.limit)
    if (nobody := nobody_takes(lane_of(job.definition), reading.nodes)) is not None:
        yield nobody
    if reading.ahead:
        text = (
            f"a clock was ahead: it is decided up to {clock_text(job.fired_through, job.definition.time_zone)} already"
        )
        mend = f"a node puts it back within two minutes; if none does, `tokimori job rewind {job.id}`"
        yield Reason(cause=Cause.AHEAD, text=text, mend=mend)
    if reading.run is not None:
        yield from why_run(reading, reading.run).reasons
    if job.state in (JobState.ENABLED, JobState.FINISHED) and not isinstance(job.definition.target, Unreadable):
        yield from _skipped(reading, job)
        yield from _of_schedule(reading, job)


_SKIPS: Mapping[SkipReason, tuple[str, str]] = MappingProxyType(
    {
        SkipReason.OVERLAP: ("as many of its runs were active as max_running allows", "--on-overlap queue"),
        SkipReason.FULL: ("as many of its runs waited as max_waiting allows", "--max-waiting N"),
        SkipReason.MISFIRE: ("no node decided it in time", "--misfire all"),
        SkipReason.GRACE: ("no node decided it within its grace", "--grace SECONDS"),
    }
)


def _skipped(reading: WhyReading, job: Job) -> Iterator[Reason]:
    tail = reading.tail
    if tail is None or tail.reason not in _SKIPS:
        return
    why, option = _SKIPS[tail.reason]
    last = clock_text(tail.last, job.definition.time_zone)
    holders = [
        each for each in reading.siblings if each.state is RunState.RUNNING and tail.reason is SkipReason.OVERLAP
    ]
    yield Reason(
        cause=Cause.SKIPPED,
        text=f"its newest occurrence, {last}, became no run, because {why}",
        mend=f"`tokimori job update {job.id} {option}` keeps such ones; `tokimori job skips {job.id}` lists them",
        holders=tuple(holder_of(each, reading.nodes) for each in holders[:NAMED]),
        others=max(0, len(holders) - NAMED),
    )


def _of_schedule(reading: WhyReading, job: Job) -> Iterator[Reason]:
    """Yield the reasons of the schedule: the next moment, and why it is not earlier."""
    definition, now, zone = job.definition, reading.now, job.definition.time_zone
    trigger, update = f"`tokimori job trigger {job.id}` runs it now", f"`tokimori job update {job.id}"
    if definition.parents:
        after = ", ".join(dict.fromkeys(parent.job for parent in definition.parents))
        yield Reason(cause=Cause.PARENTS, text=f"it runs after {after}", mend=trigger)
        return
    schedule = schedule_of(definition, job.anchor, job.id, job.days_off)
    opens, closes = (schedule.first, schedule.last) if isinstance(schedule, Bounded) else (None, None)
    if isinstance(schedule, OnDemand):
        yield Reason(cause=Cause.ON_DEMAND, text="it has no schedule, and runs when somebody asks", mend=trigger)
    elif closes is not None and closes < now and job.next_due is None:
        text, mend = (
            f"its window closed at {clock_text(closes, zone)} (ends_at)",
            f"{update} --ends-at TIME` moves that",
        )
        yield Reason(cause=Cause.WINDOW, text=text, mend=mend)
    elif job.runs_remaining == 0:
        mend = f"{update} --runs-remaining N` asks for more"
        yield Reason(cause=Cause.FINISHED, text="all its runs have been made (runs_remaining is 0)", mend=mend)
    elif job.state is JobState.FINISHED or job.next_due is None:
        mend = f"{update} --schedule TEXT` gives it another one"
        yield Reason(cause=Cause.FINISHED, text="its schedule names no further moment", mend=mend)
    else:
        if opens is not None and opens > now:
            text = f"its window opens at {clock_text(opens, zone)} (starts_at)"
            yield Reason(cause=Cause.WINDOW, text=text, mend=f"{update} --starts-at TIME` moves that")
        yield from _days_off(job, schedule, now)
        if job.next_due > now:
            text = f"its next run is due at {clock_text(job.next_due, zone)}"
            yield Reason(cause=Cause.NOT_DUE, text=text, mend=trigger)
        elif any(node.runs_jobs for node in reading.nodes):
            yield doubted(reading) or unfired(reading, job.next_due, job)


def _days_off(job: Job, schedule: Schedule, now: Moment) -> Iterator[Reason]:
    """Yield the occurrence before now, or else the next one, if it falls on a day off."""
    if job.days_off is None:
        return
    base = schedule_of(job.definition, job.anchor, job.id)
    last, upcoming = base.last_before(Moment(now + 1)), base.next_after(now)
    if last is None or last < job.created or last == schedule.last_before(Moment(now + 1)):
        last = None
    missing = last or (upcoming if upcoming != schedule.next_after(now) else None)
    if missing is not None:
        names = job.definition.calendars
        text = f"{clock_text(missing, job.definition.time_zone)} falls on a day off in {', '.join(names)}"
        yield Reason(cause=Cause.DAY_OFF, text=text, mend=f"`tokimori calendar show {names[0]}` shows its days off")


def overdue(alarm: Alarm, zone: str) -> Reason:
    """Return the reason that no run of a job has ended well in time."""
    by, good = clock_text(alarm.expected_by, zone), alarm.last_good
    last = "no run has ended well" if good is None else f"the last good end was at {clock_text(good, zone)}"
    text = f"it is overdue: a good end was expected by {by}, and {last}"
    if alarm.kind is AlarmKind.FAILED:
        text = f"a failure of it was reported from outside, and {last}"
    return Reason(
        cause=Cause.OVERDUE, text=text, mend=f"`tokimori run list --job {alarm.name}` shows how its runs ended"
    )


def what_is_lost(definition: Definition) -> str | None:
    """Return which occurrences become no run though the job runs all that it misses; None if none is lost so."""
    skips = definition.on_overlap is Overlap.SKIP and limit_of(definition) != 0
    if definition.schedule is None or definition.misfire is not Misfire.ALL or not skips:
        return None
    return (
        "misfire all asks for a run of each missed occurrence, but on_overlap skip drops what is due while as many run "
        "as max_running allows: on_overlap queue keeps it"
    )
