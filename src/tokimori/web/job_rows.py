"""Jobs and schedules as the page shows them."""

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from tokimori.clock import Moment, format_moment
from tokimori.errors import InvalidInput
from tokimori.model.job import Definition, Job, JobState, edges_of, schedule_of
from tokimori.model.lanes import Pause
from tokimori.model.run import Run
from tokimori.schedules.explain import Explanation
from tokimori.schedules.schedule import next_moments
from tokimori.service.definitions import target_fields
from tokimori.service.graph import how
from tokimori.service.why.stops import standing
from tokimori.web.run_rows import RunRow, run_row
from tokimori.web.times import Time, time_of
from tokimori.web.view import api_path
from tokimori.web.words import distance, full_time

NEXT_TIMES_SHOWN = 3


class JobRow(NamedTuple):
    """A job as the list shows it."""

    id: str
    name: str | None
    description: str | None
    owner: str | None
    command: str
    state: str
    why: Sequence[str]
    is_stopped: bool
    way_back: str
    """The action that a stopped job needs: `resume`, or `resolve` if a failure has parked it."""
    path: str | None
    """Its path in the API, where there is one."""
    calendars: str
    schedule: str
    zone: str
    next_times: Sequence[Time]
    last_runs: Sequence[RunRow]
    parents: Sequence[str]
    """The jobs after which it runs, and on which end."""


class Preview(NamedTuple):
    """The meaning of a schedule, or why a text is not a schedule."""

    zone: str
    sentence: str
    moments: Sequence[Time]
    warnings: Sequence[str]
    error: str | None = None
    allowed: str | None = None


def job_row(job: Job, runs: Sequence[Run], pauses: Sequence[Pause], now: Moment) -> JobRow:
    """Return the row of a job with its last runs (newest first) and all pauses that exist."""
    definition, zone = job.definition, job.definition.time_zone
    return JobRow(
        id=job.id,
        name=definition.name,
        description=definition.description,
        owner=definition.owner,
        command=_command(definition),
        state=job.state.value,
        why=[reason.text for reason in standing(job, pauses)],
        is_stopped=job.state in (JobState.PAUSED, JobState.PARKED),
        way_back="resolve" if job.state is JobState.PARKED else "resume",
        path=api_path("jobs", job.id),
        calendars=_calendars(definition),
        schedule=definition.schedule or ("after other jobs" if definition.parents else "on demand"),
        zone=zone,
        next_times=[time_of(moment, zone, now) for moment in _next_of(job, now)],
        last_runs=[run_row(run, zone, now) for run in reversed(runs)],
        parents=[f"{edge.parent} {how(edge)}" for edge in edges_of(job.id, definition) if edge.child == job.id],
    )


def _next_of(job: Job, now: Moment) -> Sequence[Moment]:
    """Return the next moments of an enabled job; none where its schedule can't be read here, such as in a zone of
    tomorrow.
    """
    shown = NEXT_TIMES_SHOWN if job.runs_remaining is None else min(NEXT_TIMES_SHOWN, job.runs_remaining)
    try:
        schedule = schedule_of(job.definition, job.anchor, job.id, job.days_off)
    except InvalidInput:
        return ()
    return next_moments(schedule, now, shown) if job.state is JobState.ENABLED else ()


def preview(explanation: Explanation, now: Moment) -> Preview:
    """Return the preview for an explanation, its moments in its own time zone."""
    zone = explanation.time_zone
    moments = [
        Time(format_moment(moment), full_time(moment, zone), zone, distance(moment, now))
        for moment in explanation.moments
    ]
    return Preview(zone, explanation.sentence, moments, explanation.warnings)


def _calendars(definition: Definition) -> str:
    if not definition.calendars:
        return ""
    instead = "" if definition.shift is None else f", but on the {definition.shift} business day"
    return f"not on days off of {', '.join(definition.calendars)}{instead}"


def _command(definition: Definition) -> str:
    match target_fields(definition.target):
        case {"command": str() as text}:
            return text
        case {"command": tuple() as argv}:
            return shlex.join(argv)
        case {"url": str() as url, **others}:
            return f"{others.get('method') or ('POST' if 'body' in others else 'GET')} {url}"
        case {"function": str() as name}:
            return f"function {name}"
        case {"build": str() as name}:
            return f"build {name}"
        case _:
            return "noop"
