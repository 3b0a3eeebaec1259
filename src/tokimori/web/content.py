"""What the page shows, read from the service, as texts for the templates."""

import shlex
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from tokimori.clock import Clock, Moment, format_moment
from tokimori.errors import InvalidInput, NotFound, StoreUnavailable
from tokimori.model.ids import RunId, check_job_id, check_uuid
from tokimori.model.job import Definition, Job, JobState, edges_of, schedule_of
from tokimori.model.pause import EVERYTHING, Pause
from tokimori.model.run import Run, asked_by
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.nodes import NodeRecord
from tokimori.ports.store import RunFilter
from tokimori.schedules.explain import Explanation
from tokimori.schedules.schedule import next_moments
from tokimori.service.definitions import target_fields
from tokimori.service.graph import how, tree
from tokimori.service.outputs import whole
from tokimori.service.queues import binding
from tokimori.service.runs import RunDetails
from tokimori.service.semaphores import SemaphoreDetails
from tokimori.service.service import Service
from tokimori.web.words import clock_time, distance, duration, full_time, zone_name

JOBS_SHOWN = 50
RUNS_SHOWN = 30
LAST_RUNS_SHOWN = 8
NEXT_TIMES_SHOWN = 3
MOMENTS_SHOWN = 10
SEMAPHORES_SHOWN = 50
HOLDERS_SHOWN = 5
_BEFORE_START = frozenset({RunState.WAITING, RunState.READY, RunState.BLOCKED})


class View(NamedTuple):
    """What of everything is looked at; the parameters of the page's address."""

    job: str | None = None
    """Only runs of this job are listed."""
    run: str | None = None
    """This run is shown with its attempts and output."""
    attempt: str | None = None
    """Of this attempt the output is shown; the newest by default."""
    after: str | None = None
    """Jobs behind this id."""
    before: str | None = None
    """Runs older than this one."""
    schedule: str | None = None
    """This text is explained."""
    zone: str | None = None
    """The zone in which it is meant."""

    def link(self, **changes: str | int | None) -> str:
        """The address of the same view but for these changes."""
        values = {**self._asdict(), **changes}
        query = urlencode({name: value for name, value in values.items() if value is not None})
        return f"/?{query}" if query else "/"


class Time(NamedTuple):
    """A moment: for machines, for people in its zone, and how far away it is."""

    rfc3339: str
    text: str
    zone: str
    away: str


class RunRow(NamedTuple):
    """A run as the list shows it."""

    id: str
    job_id: str
    is_job_deleted: bool
    state: str
    origin: str
    began: Time
    is_started: bool
    duration: str
    exit: str


class JobRow(NamedTuple):
    """A job as the list shows it."""

    id: str
    name: str | None
    description: str | None
    owner: str | None
    command: str
    state: str
    why: str
    is_stopped: bool
    way_back: str
    """What a stopped one needs: `resume`, or `resolve` where a failure has parked it."""
    calendars: str
    schedule: str
    zone: str
    next_times: Sequence[Time]
    last_runs: Sequence[RunRow]
    parents: Sequence[str]
    """What it runs after, and on which end."""


class AttemptRow(NamedTuple):
    """An attempt of the run that is shown."""

    number: int
    outcome: str
    host: str
    pid: str
    node_id: str
    started: Time | None
    ended: Time | None
    duration: str
    exit: str
    error: str | None


class RunPanel(NamedTuple):
    """The run that is shown."""

    row: RunRow
    parent: str | None
    nominal: Time
    due: Time
    error: str | None
    cancel: str | None
    is_over: bool
    attempts: Sequence[AttemptRow]
    output_of: int
    output: str | None
    output_size: int


class Preview(NamedTuple):
    """What a schedule means, or why a text is none."""

    zone: str
    sentence: str
    moments: Sequence[Time]
    warnings: Sequence[str]
    error: str | None = None
    allowed: str | None = None


class NodeRow(NamedTuple):
    """A node that takes part."""

    id: str
    host: str
    pid: int
    version: str
    labels: Sequence[str]
    concurrency: int
    started: Time


class SemaphoreRow(NamedTuple):
    """A semaphore, and the first who hold it."""

    name: str
    limit: int
    used: int
    waiting: int
    holders: Sequence[str]


class PauseRow(NamedTuple):
    """That a queue, or everything, is paused; `path` is where its resume is asked for."""

    what: str
    since: Time
    by: str | None
    reason: str | None
    path: str


class Content(NamedTuple):
    """All that the page shows; `more_…` is the address of what comes next."""

    view: View
    pauses: Sequence[PauseRow]
    jobs: Sequence[JobRow]
    more_jobs: str | None
    runs: Sequence[RunRow]
    more_runs: str | None
    panel: RunPanel | None
    nodes: Sequence[NodeRow]
    semaphores: Sequence[SemaphoreRow]
    of_job: Preview | None
    """Of the job whose runs are listed."""
    graph: Sequence[str]
    """What is above and below that job, as a tree; empty where it is alone."""
    of_text: Preview | None
    """Of the text that somebody typed."""
    zone: str
    """Where a typed text is meant, unless somebody says otherwise."""


async def content(service: Service, clock: Clock, view: View) -> Content:
    """What the page shows for this view. Raises `InvalidInput`, `NotFound` and `StoreError`."""
    now = clock.now()
    jobs = await service.list(view.after, JOBS_SHOWN)
    runs = await service.summaries(await service.list_runs(_filter(view)))
    nodes = [node for node in await service.nodes() if node.runs_jobs]
    pauses = await service.queues.pauses()
    return Content(
        view=view,
        pauses=[_pause_row(pause, service.time_zone, now) for pause in pauses],
        jobs=[await _job_row(service, job, pauses, now) for job in jobs],
        more_jobs=view.link(after=jobs[-1].id) if len(jobs) == JOBS_SHOWN else None,
        runs=[_run_row(each.run, each.time_zone, now, is_job_deleted=each.is_job_deleted) for each in runs],
        more_runs=view.link(before=runs[-1].run.id) if len(runs) == RUNS_SHOWN else None,
        panel=None if view.run is None else await _panel(service, view.run, view.attempt, now),
        nodes=[_node_row(node, service.time_zone, now) for node in nodes],
        semaphores=await _semaphores(service),
        of_job=await _of_job(service, view.job, now),
        graph=await _graph(service, view.job),
        of_text=None if view.schedule is None else await _of_text(service, view.schedule, view.zone, now),
        zone=service.time_zone,
    )


async def _semaphores(service: Service) -> Sequence[SemaphoreRow]:
    """None where they have a store of their own, which is away: all else is shown."""
    try:
        return [_semaphore_row(each) for each in await service.semaphores.list(limit=SEMAPHORES_SHOWN)]
    except StoreUnavailable:
        return []


async def _of_job(service: Service, job_id: str | None, now: Moment) -> Preview | None:
    """None where there is no such job: its runs may be there still."""
    try:
        return None if job_id is None else _preview(await service.explain_job(job_id, MOMENTS_SHOWN), now)
    except NotFound:
        return None


async def _graph(service: Service, job_id: str | None) -> Sequence[str]:
    try:
        return () if job_id is None else tree(await service.graph(job_id))
    except NotFound:
        return ()


async def _of_text(service: Service, text: str, zone: str | None, now: Moment) -> Preview:
    try:
        return _preview(await service.explain(text, zone, MOMENTS_SHOWN), now)
    except InvalidInput as fault:
        return Preview(zone or service.time_zone, "", (), (), fault.message, fault.allowed)


def _preview(explanation: Explanation, now: Moment) -> Preview:
    zone = explanation.time_zone
    moments = [
        Time(format_moment(moment), full_time(moment, zone), zone, distance(moment, now))
        for moment in explanation.moments
    ]
    return Preview(zone, explanation.sentence, moments, explanation.warnings)


def _filter(view: View) -> RunFilter:
    return RunFilter(
        job_id=None if view.job is None else check_job_id(view.job),
        before=None if view.before is None else RunId(check_uuid(view.before, field="before")),
        limit=RUNS_SHOWN,
    )


async def _job_row(service: Service, job: Job, pauses: Sequence[Pause], now: Moment) -> JobRow:
    definition, zone = job.definition, job.definition.time_zone
    schedule = schedule_of(definition, job.anchor, job.id, job.days_off)
    shown = NEXT_TIMES_SHOWN if job.runs_remaining is None else min(NEXT_TIMES_SHOWN, job.runs_remaining)
    moments = next_moments(schedule, now, shown) if job.state is JobState.ENABLED else ()
    runs = await service.list_runs(RunFilter(job_id=job.id, limit=LAST_RUNS_SHOWN))
    return JobRow(
        id=job.id,
        name=definition.name,
        description=definition.description,
        owner=definition.owner,
        command=_command(definition),
        state=job.state.value,
        why=_why(job, binding(definition.queue, pauses)),
        is_stopped=job.state in (JobState.PAUSED, JobState.PARKED),
        way_back="resolve" if job.state is JobState.PARKED else "resume",
        calendars=_calendars(definition),
        schedule=definition.schedule or ("after other jobs" if definition.parents else "on demand"),
        zone=zone,
        next_times=[_time(moment, zone, now) for moment in moments],
        last_runs=[_run_row(run, zone, now) for run in reversed(runs)],
        parents=[f"{edge.parent} {how(edge)}" for edge in edges_of(job.id, definition) if edge.child == job.id],
    )


def _why(job: Job, pauses: Sequence[Pause]) -> str:
    """By whom and why it is stopped, itself or with its queue."""
    if job.state in (JobState.PAUSED, JobState.PARKED):
        return " ".join(text for text in (job.by and f"by {job.by}", job.reason and f"“{job.reason}”") if text)
    names = ("everything" if pause.queue == EVERYTHING else f"queue {pause.queue}" for pause in pauses)
    return ", ".join(f"{name} is paused" for name in names)


def _pause_row(pause: Pause, zone: str, now: Moment) -> PauseRow:
    what, base = ("Everything", "") if pause.queue == EVERYTHING else (f"Queue {pause.queue}", f"/queues/{pause.queue}")
    return PauseRow(what, _time(pause.since, zone, now), pause.by, pause.reason, f"/api/v2{base}/resume")


def _calendars(definition: Definition) -> str:
    if not definition.calendars:
        return ""
    instead = "" if definition.shift is None else f", but on the {definition.shift} business day"
    return f"not on days off of {', '.join(definition.calendars)}{instead}"


def _command(definition: Definition) -> str:
    match target_fields(definition.target).get("command"):
        case str() as text:
            return text
        case tuple() as argv:
            return shlex.join(argv)
        case _:
            return "noop"


def _run_row(run: Run, zone: str, now: Moment, *, is_job_deleted: bool = False) -> RunRow:
    awaits_start = run.state in _BEFORE_START
    return RunRow(
        id=run.id,
        job_id=run.job_id,
        is_job_deleted=is_job_deleted,
        state=run.state.value,
        origin=_origin(run, zone, now),
        began=_time(run.due if run.started is None or awaits_start else run.started, zone, now),
        is_started=run.started is not None and not awaits_start,
        duration=_lasted(run.started, run.ended, now, is_running=run.state is RunState.RUNNING),
        exit=_exit(run.exit_code, run.signal),
    )


def _origin(run: Run, zone: str, now: Moment) -> str:
    """By what it was asked for; of a backfill also which occurrence it makes good, for it starts at another time."""
    name = asked_by(run.origin)
    return f"{name} of {clock_time(run.nominal, zone, now)}" if name == "backfill" else name


async def _panel(service: Service, run_id: str, attempt: str | None, now: Moment) -> RunPanel:
    details = await service.get_run(run_id)
    run, zone = details.run, details.time_zone
    number = int(attempt) if attempt and attempt.isdecimal() and len(attempt) < 10 else run.attempt
    output = await service.output(run_id, number)
    return RunPanel(
        row=_run_row(run, zone, now, is_job_deleted=details.is_job_deleted),
        parent=run.parent_id,
        nominal=_time(run.nominal, zone, now),
        due=_time(run.due, zone, now),
        error=run.error,
        cancel=run.cancel,
        is_over=run.state in ENDS,
        attempts=_attempt_rows(details, now),
        output_of=number,
        output=None if output is None else whole(output).decode(errors="replace"),
        output_size=0 if output is None else output.size,
    )


def _attempt_rows(details: RunDetails, now: Moment) -> Sequence[AttemptRow]:
    return [
        AttemptRow(
            number=attempt.number,
            outcome=attempt.outcome,
            host=host or "–",
            pid=str(attempt.pid or "–"),
            node_id=attempt.node_id or "–",
            started=None if attempt.started is None else _time(attempt.started, details.time_zone, now),
            ended=None if attempt.ended is None else _time(attempt.ended, details.time_zone, now),
            duration=_lasted(attempt.started, attempt.ended, now, is_running=attempt.outcome == RunState.RUNNING.value),
            exit=_exit(attempt.exit_code, attempt.signal),
            error=attempt.error,
        )
        for attempt, host in ((each.attempt, each.host) for each in details.attempts)
    ]


def _node_row(node: NodeRecord, zone: str, now: Moment) -> NodeRow:
    return NodeRow(
        id=node.id,
        host=node.host,
        pid=node.pid,
        version=node.version,
        labels=[f"{key}={value}" for key, value in sorted(node.labels.items())],
        concurrency=node.concurrency,
        started=_time(node.started, zone, now),
    )


def _semaphore_row(found: SemaphoreDetails) -> SemaphoreRow:
    holders = [
        f"pid {each.pid} on {each.host}" if each.run_id is None else f"run {each.run_id}"
        for each in found.holders[:HOLDERS_SHOWN]
    ]
    return SemaphoreRow(found.name, found.limit, found.used, found.waiting, holders)


def _time(moment: Moment, zone: str, now: Moment) -> Time:
    return Time(
        rfc3339=format_moment(moment),
        text=clock_time(moment, zone, now),
        zone=zone_name(moment, zone),
        away=distance(moment, now),
    )


def _lasted(started: Moment | None, ended: Moment | None, now: Moment, *, is_running: bool) -> str:
    if started is None:
        return ""
    if ended is None:
        return duration(now - started) if is_running else ""
    return duration(ended - started)


def _exit(code: int | None, signal: int | None) -> str:
    if signal is not None:
        return f"signal {signal}"
    return "" if code is None else str(code)
