"""Rows of jobs for lists and pages."""

import asyncio
import re
import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from tokimori.clock import Moment
from tokimori.errors import InvalidInput
from tokimori.model.approval import awaits_approval
from tokimori.model.dependents import Edge
from tokimori.model.expectation import Alarm
from tokimori.model.ids import JobId
from tokimori.model.job import Definition, Job, JobState, edges_of
from tokimori.model.run import Run
from tokimori.model.transitions import RunState
from tokimori.schedules.explain import Explanation
from tokimori.schedules.schedule import Schedule, next_moments
from tokimori.schedules.sentence import MONTHS, sentence
from tokimori.service.definitions.definitions import target_fields
from tokimori.service.jobs.graph import how
from tokimori.service.jobs.writer import schedule_for
from tokimori.service.validation import MOST_LISTED
from tokimori.service.view_cache import Durations
from tokimori.service.why.stops import stopped
from tokimori.web.pictures import BARS, bars, median_of
from tokimori.web.run_rows import LONGEST_SAID
from tokimori.web.visit import Visit
from tokimori.web.words import Time, duration

WORST_FIRST: Final = (
    *("parked", "overdue", "failing", "held", "approval", "blocked", "running", "ready"),
    *("paused", "enabled", "finished", "deleted"),
)
"""The one order of states, for rows, counters and walls."""
LOW = 980
"""Of 1,000 runs so many succeed at least; else it is coloured."""
IN_A_STEP = 20
"""Number of rows made in one step of the loop."""
AT_ONCE = 50
"""Number of jobs whose last runs are read at once."""


class JobRow(NamedTuple):
    """A job as a list shows it."""

    id: str
    name: str
    state: str
    is_stopped: bool
    schedule: str
    sentence: str
    text: str
    zone: str
    next: Time | None
    bars: Markup
    median: str
    usual: int
    success: str
    is_low: bool
    queue: str
    owner: str


class Preview(NamedTuple):
    """The meaning of a schedule, or why a text is not a schedule."""

    zone: str
    sentence: str
    moments: Sequence[Time]
    warnings: Sequence[str]
    error: str | None = None
    allowed: str | None = None


async def job_rows(visit: Visit, jobs: Sequence[Job], overdue: Collection[str] = ()) -> Sequence[JobRow]:
    """Return the rows of these jobs, in the same order. Of held runs alone texts are read: if somebody is asked."""
    last, ends = dict[JobId, Sequence[Run]](), dict[JobId, Durations]()
    for first in range(0, len(jobs), AT_ONCE):
        ids = [job.id for job in jobs[first : first + AT_ONCE]]
        last |= await visit.service.runs.last(ids, BARS, longest=0)
        ends |= await visit.service.jobs.durations(ids)
    if any(run.state is RunState.HELD for runs in last.values() for run in runs):
        held = {
            each.id: each
            for each in await visit.service.runs.list(state="held", limit=MOST_LISTED, longest=LONGEST_SAID)
        }
        last = {job_id: [held.get(run.id, run) for run in runs] for job_id, runs in last.items()}
    rows: list[JobRow] = []
    for first in range(0, len(jobs), IN_A_STEP):
        await asyncio.sleep(0)  # others have their turn
        step = jobs[first : first + IN_A_STEP]
        rows += [job_row(visit, job, last.get(job.id, ()), job.id in overdue, ends[job.id]) for job in step]
    return rows


async def overdue(visit: Visit) -> Mapping[JobId, Alarm]:
    """Return the alarms of jobs that should have ended well by now."""
    return {
        JobId(each.name): each for each in await visit.service.expectations.alarms(limit=MOST_LISTED) if each.of_job
    }


def job_row(visit: Visit, job: Job, runs: Sequence[Run], is_overdue: bool, ends: Durations | None = None) -> JobRow:
    """Return the row of a job with its last runs, newest first, and how those of the last days went."""
    definition, usual, permille = job.definition, median_of(runs), _success(ends)
    schedule = _schedule(job)
    moments, meaning = _next_of(job, schedule, visit.now), _in_words(job, schedule)
    return JobRow(
        id=job.id,
        name=definition.name or "",
        state=worst(job, runs, is_overdue),
        is_stopped=stopped(job) is not None,
        schedule=meaning if schedule is None else briefly(meaning),
        sentence=meaning,
        text=definition.schedule or "",
        zone=definition.time_zone,
        next=visit.time(moments[0], definition.time_zone) if moments else None,
        bars=bars(runs[::-1]),
        median="" if usual is None else duration(usual),
        usual=usual or 0,
        success="" if permille is None else f"{permille / 10:g} %",
        is_low=permille is not None and permille < LOW,
        queue=definition.queue,
        owner=definition.owner or "",
    )


def worst(job: Job, runs: Sequence[Run], is_overdue: bool) -> str:
    """Return the worst word that is true of a job with these last runs, newest first."""
    states = {"approval" if awaits_approval(run) else run.state.value for run in runs}
    true = {job.state.value, *(states & {"held", "approval", "blocked", "running", "ready"})}
    ended = next((run for run in runs if run.state in (RunState.SUCCEEDED, RunState.FAILED)), None)
    true |= {"failing"} if ended is not None and ended.state is RunState.FAILED else set()
    true |= {"overdue"} if is_overdue else set()
    return next(word for word in WORST_FIRST if word in true)


def _success(ends: Durations | None) -> int | None:
    """Return how many of 1,000 have succeeded, rounded down: a failure among many is seen."""
    ended = 0 if ends is None else ends.succeeded + ends.failed
    return 1_000 * ends.succeeded // ended if ends is not None and ended else None


def in_words(job: Job) -> str:
    """Return the schedule of a job in few words."""
    schedule = _schedule(job)
    return _in_words(job, schedule) if schedule is None else briefly(_in_words(job, schedule))


_BRIEF: Final = (
    (re.compile(rf"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*day\b|\b({'|'.join(MONTHS)})\b"), lambda found: found[0][:3]),
    (re.compile(" through "), lambda _: "–"),
    (re.compile(r"(?<=\d) of the month|, at minute 0$|, counted from when the job is added"), lambda _: ""),
    (re.compile(r"^at (\S+), every day"), lambda found: f"daily at {found[1]}"),
    (re.compile(r"^at minute (\d+) of every hour"), lambda found: f"hourly at :{found[1]:0>2}"),
    (re.compile(r", at minute (\d+)$"), lambda found: f" at :{found[1]:0>2}"),
)


def briefly(meaning: str) -> str:
    """Return the meaning of a schedule as a list has room for it: `hourly at :12`, `at 08:00, Mon–Fri`."""
    for pattern, instead in _BRIEF:
        meaning = pattern.sub(instead, meaning)
    return meaning


def _in_words(job: Job, schedule: Schedule | None) -> str:
    text, parents = job.definition.schedule, job.definition.parents
    if text is None:
        return f"after {', '.join(parent.job for parent in parents)}" if parents else "on demand"
    words = text if schedule is None else sentence(schedule).removesuffix(".")
    return f"{words[0].lower()}{words[1:]}" if words[1:2].islower() else words


def _schedule(job: Job) -> Schedule | None:
    """Return the schedule of a job; None for none, and if it can't be read here, such as in a zone of tomorrow."""
    try:
        return None if job.definition.schedule is None else schedule_for(job)
    except InvalidInput:
        return None


def _next_of(job: Job, schedule: Schedule | None, now: Moment) -> Sequence[Moment]:
    if schedule is None or job.state is not JobState.ENABLED or job.runs_remaining == 0:
        return ()
    return next_moments(schedule, now, 1)


def preview(visit: Visit, explanation: Explanation) -> Preview:
    """Return the preview for an explanation, its moments in its own time zone."""
    zone = explanation.time_zone
    own = visit._replace(zone=zone)
    return Preview(zone, explanation.sentence, [own.time(each) for each in explanation.moments], explanation.warnings)


def unread(zone: str, fault: InvalidInput) -> Preview:
    """Return the preview of a text that is no schedule."""
    return Preview(zone, "", (), (), fault.message, fault.allowed)


def after(job: Job) -> Sequence[str]:
    """Return the jobs after which it runs, and on which end."""
    edges: Sequence[Edge] = edges_of(job.id, job.definition)
    return [f"{edge.parent} {how(edge)}" for edge in edges if edge.child == job.id]


def calendars(definition: Definition) -> str:
    """Return the effect of the calendars of a job in words; empty for none."""
    if not definition.calendars:
        return ""
    instead = "" if definition.shift is None else f", but on the {definition.shift} business day"
    return f"not on days off of {', '.join(definition.calendars)}{instead}"


def command(definition: Definition) -> str:
    """Return the target of a job on one line."""
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


def groups(rows: Sequence[JobRow], by: Mapping[str, str]) -> Sequence[tuple[str, str, Sequence[JobRow]]]:
    """Return the rows by group: its name, what hurts in it, and its rows. `by` says the group of each job."""
    found: dict[str, list[JobRow]] = {}
    for row in rows:
        found.setdefault(by[row.id], []).append(row)
    return [(name, _hurts(each), each) for name, each in found.items()]


def _hurts(rows: Sequence[JobRow]) -> str:
    states = Counter(row.state for row in rows)
    parts = [
        f"{states[word]} {'to approve' if word == 'approval' else word}"
        for word in WORST_FIRST[: WORST_FIRST.index("enabled")]
        if states[word]
    ]
    return " · ".join([str(len(rows)), *([", ".join(parts)] if parts else [])])
