"""The first screen: what needs somebody, what runs, what just ended, and what comes next."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from tokimori.clock import HOUR, MINUTE, Moment
from tokimori.model.expectation import Alarm
from tokimori.model.ids import JobId
from tokimori.model.job import Job, JobState
from tokimori.model.lanes import EVERYTHING
from tokimori.model.run import Run
from tokimori.model.transitions import ENDS, RunState
from tokimori.service.asking import MOST_LISTED
from tokimori.service.service import Service
from tokimori.service.views.alarms import sentence
from tokimori.web.addresses import address, path
from tokimori.web.job_rows import in_words
from tokimori.web.pictures import Minute, progress, strip, usual_of
from tokimori.web.run_rows import RunRow, cause, run_rows
from tokimori.web.screen import Moved, Screen, Shown
from tokimori.web.screens.jobs import failing, runs_in
from tokimori.web.visit import Visit
from tokimori.web.words import clock_time, distance, duration

MOST: Final = 100
"""So many of each kind are counted; more are told as `100+`."""
SHOWN: Final = 8
"""So many that need somebody are shown one by one."""
ENDED_SHOWN: Final = 6
QUARTER: Final = 15 * MINUTE
LATE: Final = MINUTE
"""A run that is ready for longer is looked at: perhaps no node may run it."""
_OPEN: Final = (RunState.RUNNING, RunState.READY, RunState.BLOCKED, RunState.HELD)


class Need(NamedTuple):
    """Something that needs somebody: why, and the acts and links that mend it."""

    state: str
    name: str
    to: str | None
    why: str
    acts: Sequence[tuple[str, str]] = ()
    links: Sequence[tuple[str, str | None]] = ()


class Tally(NamedTuple):
    """A counter, and the list of what it counts. `begins` a group of counters."""

    word: str
    number: int
    to: str
    begins: bool = False

    @property
    def text(self) -> str:
        """Return the number, or that there are more."""
        return f"{MOST}+" if self.number >= MOST else str(self.number)


class Going(NamedTuple):
    """A running run beside how long it mostly takes."""

    run: RunRow
    bar: Markup
    usual: str
    left: str
    is_late: bool


class Standing(NamedTuple):
    """Findings of one look: the open runs by state, the stopped jobs, and what fails or is overdue."""

    runs: Mapping[RunState, Sequence[Run]]
    parked: Sequence[Job]
    paused: Sequence[Job]
    failed: Mapping[JobId, Run]
    alarms: Sequence[Alarm]
    has_nodes: bool


async def show(visit: Visit) -> Shown:
    """Return the first screen."""
    if (old := _moved(visit)) is not None:
        return old
    service = visit.service
    standing = await _standing(visit)
    needs = await _needs(visit, standing)
    ended = await runs_in(service, *ENDS - {RunState.SKIPPED}, limit=ENDED_SHOWN)
    coming = await visit.lately("coming", lambda: service.schedules.upcoming(MOST_LISTED))
    coming = [pair for pair in coming if pair[1] > visit.now]
    return {
        "counts": _counts(standing),
        "needs": needs[:SHOWN],
        "needs_count": len(needs),
        "running": await _running(visit, standing.runs[RunState.RUNNING][:SHOWN]),
        "strip": await _strip(visit, [at for _, at in coming]),
        "ended": await run_rows(visit, ended),
        "next": [(job, in_words(job), visit.time(at, job.definition.time_zone)) for job, at in coming[:ENDED_SHOWN]],
        "is_empty": not (await service.jobs.list(limit=1)).jobs,
    }


def _moved(visit: Visit) -> Moved | None:
    """Return where the page of older versions has gone: links to it are in mails and chats."""
    run, job = visit.one("run"), visit.one("job")
    if run is not None and (to := path("runs", run)) is not None:
        return Moved(address(to, [("attempt", visit.one("attempt"))]))
    if job is not None and (to := path("jobs", job)) is not None:
        return Moved(to)
    return None


async def _standing(visit: Visit) -> Standing:
    service = visit.service
    return Standing(
        runs={state: await runs_in(service, state, limit=MOST) for state in _OPEN},
        parked=await visit.lately("parked", lambda: _jobs_in(service, JobState.PARKED)),
        paused=await visit.lately("paused", lambda: _jobs_in(service, JobState.PAUSED)),
        failed=await visit.lately("failing", lambda: failing(service)),
        alarms=await service.expectations.alarms(limit=MOST),
        has_nodes=any(node.runs_jobs for node in await service.nodes.list()),
    )


async def _jobs_in(service: Service, state: JobState) -> Sequence[Job]:
    return (await service.jobs.list(state=state, limit=MOST)).jobs


def _counts(standing: Standing) -> Sequence[Tally]:
    def of_runs(state: RunState) -> Tally:
        return Tally(state.value, len(standing.runs[state]), f"/runs?state={state}")

    return [
        *map(of_runs, (RunState.RUNNING, RunState.READY, RunState.BLOCKED)),
        Tally("failing", len(standing.failed), "/jobs?state=failing", begins=True),
        Tally("overdue", len(standing.alarms), "/jobs?state=overdue"),
        Tally("parked", len(standing.parked), "/jobs?state=parked"),
        of_runs(RunState.HELD),
        Tally("paused", len(standing.paused), "/jobs?state=paused", begins=True),
    ]


# What needs somebody


async def _needs(visit: Visit, standing: Standing) -> Sequence[Need]:
    """Return what needs somebody, worst first."""
    nobody = "No node takes part: nothing runs until one is started with `tokimori serve`."
    return [
        *map(_parked, standing.parked),
        *map(_overdue, standing.alarms),
        *(await _failing(visit, standing.failed)),
        *(await _held(visit, standing.runs[RunState.HELD])),
        *([] if standing.has_nodes else [Need("doubt", "nodes", None, nobody)]),
        *(await _stuck(visit, standing.runs[RunState.READY]) if standing.has_nodes else []),
        *(await _paused(visit)),
    ]


def _parked(job: Job) -> Need:
    why = f"Parked: {job.reason or 'it failed too often'}. It starts again when it is resolved."
    return Need("parked", job.id, path("jobs", job.id), why, [("jobs.resolve", job.id)])


def _overdue(alarm: Alarm) -> Need:
    to = path("jobs", alarm.name) if alarm.of_job else None
    said = sentence(alarm)
    return Need("overdue", alarm.name, to, f"{said[0].upper()}{said[1:]}.", links=[("Why", to)] if to else [])


async def _failing(visit: Visit, failed: Mapping[JobId, Run]) -> Sequence[Need]:
    found = []
    for job_id, run in list(failed.items())[:SHOWN]:
        whole = (await visit.service.runs.get(run.id)).run
        why = f"Its last run failed {distance(run.ended or run.due, visit.now)}: {cause(whole) or 'it says no more'}."
        retry, log = [("runs.retry", str(run.id))], [("Log", path("runs", run.id))]
        found.append(Need("failing", job_id, path("jobs", job_id), why, retry, log))
    return found


async def _held(visit: Visit, held: Sequence[Run]) -> Sequence[Need]:
    found = []
    for run in held[:SHOWN]:
        reasons = (await visit.service.runs.why(run.id)).reasons
        why = reasons[0].text if reasons else "held by hand"
        acts = [(name, str(run.id)) for name in ("runs.resume", "runs.cancel")]
        found.append(Need("held", run.job_id, path("runs", run.id), f"{why[0].upper()}{why[1:]}.", acts))
    return found


async def _stuck(visit: Visit, ready: Sequence[Run]) -> Sequence[Need]:
    """Return the runs that have been ready for long, and why: none of a job twice."""
    late = {run.job_id: run for run in ready if run.due < visit.now - LATE}
    found = []
    for run in list(late.values())[:SHOWN]:
        if reasons := (await visit.service.runs.why(run.id)).reasons:
            mend = f": {reasons[0].mend}" if reasons[0].mend else ""
            why, to = f"Due {distance(run.due, visit.now)}: {reasons[0].text}{mend}.", path("runs", run.id)
            found.append(Need("ready", run.job_id, to, why, links=[("Why", to)]))
    return found


async def _paused(visit: Visit) -> Sequence[Need]:
    found = []
    for pause in await visit.service.queues.pauses():
        what = "everything" if pause.queue == EVERYTHING else pause.queue
        says = "Everything" if pause.queue == EVERYTHING else f"Queue {pause.queue}"
        by, because = f" by {pause.by}" if pause.by else "", f": {pause.reason}" if pause.reason else ""
        why = f"{says} is paused{by} ({distance(pause.since, visit.now)}){because}. Runs wait until it is resumed."
        found.append(Need("paused", what, None, why, [("queues.resume", pause.queue)]))
    return found


# What runs, and when


async def _running(visit: Visit, runs: Sequence[Run]) -> Sequence[Going]:
    if not runs:
        return ()
    rows = await run_rows(visit, [(await visit.service.runs.get(run.id)).run for run in runs])
    last = await visit.service.runs.last(list(dict.fromkeys(run.job_id for run in runs)), 50, longest=0)
    return [_going(row, run, last[run.job_id], visit.now) for run, row in zip(runs, rows, strict=True)]


def _going(row: RunRow, run: Run, last: Sequence[Run], now: Moment) -> Going:
    elapsed, found = now - (run.started or now), usual_of(last)
    if found is None:
        return Going(row, Markup(""), "", "", is_late=False)
    usual, rarely = found
    left = f"about {duration(usual - elapsed)} left" if usual > elapsed else ""
    over = f"{duration(elapsed - rarely)} over" if elapsed > rarely else ""
    return Going(row, progress(elapsed, usual, rarely), duration(usual), over or left, is_late=over != "")


async def _strip(visit: Visit, coming: Sequence[Moment]) -> Markup:
    """Return the histogram of the past hour and the next. Of over 1,000 runs the newest are counted."""
    now, zone = visit.now, visit.zone_of(visit.service.time_zone)
    runs, failed = Counter[int](), Counter[int]()
    past = await visit.lately("past hour", lambda: _past_hour(visit.service, now))
    for at, is_failed in (*past, *((each, False) for each in coming)):
        minute = (at - now) // MINUTE
        if -HOUR // MINUTE <= minute < HOUR // MINUTE:
            runs[minute] += 1
            failed[minute] += is_failed

    def minute_at(at: int, count: int = 0, bad: int = 0) -> Minute:
        return Minute(Moment(at), count, bad, clock_time(Moment(at), zone, now)[-8:-3])

    first = now - HOUR + QUARTER - (now - HOUR) % QUARTER
    marks = [minute_at(first + n * QUARTER) for n in range(8)]
    return strip([minute_at(now + n * MINUTE, runs[n], failed[n]) for n in sorted(runs)], now, marks)


async def _past_hour(service: Service, now: Moment) -> Sequence[tuple[Moment, bool]]:
    """Return when runs of the past hour began, and which have failed."""
    runs = await service.runs.list(since=Moment(now - HOUR), limit=MOST_LISTED, longest=0)
    past = [(run, min(run.started or run.due, Moment(now - 1))) for run in runs if run.due <= now]
    return [(at, run.state is RunState.FAILED) for run, at in past if run.state is not RunState.SKIPPED]


SCREENS: Final = (Screen("/", "now", "now.html", show, leads=True),)
