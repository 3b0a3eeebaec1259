"""The first screen: what needs somebody, what runs, what just ended, and what comes next."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import Final, NamedTuple

from markupsafe import Markup

from tokimori.clock import HOUR, MINUTE, Moment
from tokimori.model.approval import awaits_approval
from tokimori.model.expectation import Alarm, AlarmKind
from tokimori.model.ids import JobId
from tokimori.model.job import Job, JobState
from tokimori.model.lanes import EVERYTHING, Pause
from tokimori.model.run import Run
from tokimori.model.transitions import ENDS, RunState
from tokimori.service.service import Service
from tokimori.service.validation import MOST_LISTED
from tokimori.web.addresses import address, path
from tokimori.web.cache import SELDOM
from tokimori.web.job_rows import WORST_FIRST, in_words
from tokimori.web.pictures import MOST_COMPARED, Minute, progress, strip, usual_of
from tokimori.web.run_rows import LONGEST_SAID, RunRow, cause, run_rows, whole_cause
from tokimori.web.screen import Moved, Screen, Shown
from tokimori.web.screens.jobs import failing, runs_in
from tokimori.web.screens.run import acts_of, own_request
from tokimori.web.visit import Visit
from tokimori.web.words import clock_time, distance, duration

MOST: Final = 100
"""Number of each kind that is counted; more are shown as `100+`."""
SHOWN: Final = 8
"""Number of rows that need somebody and are shown one by one."""
ACTS_SHOWN: Final = 2
"""Number of acts shown beside what needs somebody: the page of the thing has all."""
NAMED: Final = 3
"""Number of things named in a group."""
MOST_AT_ONCE: Final = 50
"""Number of things of a group to which one act is done."""
ALL_OF: Final = MappingProxyType(
    {
        **{"jobs.resolve": "Resolve all…", "runs.retry": "Retry all…", "runs.resume": "Resume all…"},
        "runs.approve": "Approve all…",
    }
)
ENDED_SHOWN: Final = 6
ENDED_READ: Final = 100
"""Number of the newest runs searched for the last ends: a long run is older than short ones that ended before it."""
BADGE_LASTS: Final = 5.0
"""Seconds for which the numbers of the rail are kept."""
QUARTER: Final = 15 * MINUTE
LATE: Final = MINUTE
"""A run that is ready for longer is looked at: perhaps no node may run it."""
_TEXTS: Final = MappingProxyType({RunState.HELD: LONGEST_SAID})
"""Of which runs texts are read: they say if somebody is asked to approve them."""
_ALARMS: Final = "/expectations?state=overdue&state=failed"
_OPEN: Final = (RunState.RUNNING, RunState.READY, RunState.BLOCKED, RunState.HELD)


class Need(NamedTuple):
    """Something that needs somebody: why, and the acts and links that mend it."""

    state: str
    name: str
    to: str | None
    why: str
    acts: Sequence[tuple[str, str]] = ()
    links: Sequence[tuple[str, str | None]] = ()
    cause: str = ""
    """The same text for needs of the same cause."""
    no: str = ""
    """Something that the reader may not do, and why."""


class Tally(NamedTuple):
    """A counter, and the list behind it. `begins` a group of counters."""

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


class Findings(NamedTuple):
    """Findings of one look: the open runs by state, the stopped jobs, and what fails or is overdue."""

    runs: Mapping[RunState, Sequence[Run]]
    parked: Sequence[Job]
    paused: Sequence[Job]
    failed: Mapping[JobId, Run]
    alarms: Sequence[Alarm]
    has_nodes: bool
    stopped: Mapping[JobId, Run]
    """The failures of parked jobs."""
    pauses: Sequence[Pause]


async def show(visit: Visit) -> Shown:
    """Return the first screen. An address of before, with the id of a job or a run, leads to its page."""
    for noun in ("job", "run"):
        if (named := visit.one(noun)) is not None:
            return Moved(path(f"{noun}s", named))
    service = visit.service
    findings = await _read_findings(visit)
    needs = await _needs(visit, findings)
    ended = await runs_in(service, *ENDS - {RunState.SKIPPED}, limit=ENDED_READ, longest=LONGEST_SAID)
    ended = sorted(ended, key=lambda run: run.ended or run.due, reverse=True)[:ENDED_SHOWN]
    coming = await visit.lately("coming", lambda: service.schedules.upcoming(MOST_LISTED), BADGE_LASTS, SELDOM)
    is_cut, coming = len(coming) >= MOST_LISTED, [pair for pair in coming if pair[1] > visit.now]
    first = sorted({job.id: (job, at) for job, at in reversed(coming)}.values(), key=itemgetter(1))[:ENDED_SHOWN]
    return {
        "counts": _counts(findings),
        "needs": needs[:SHOWN],
        "needs_count": len(needs),
        "running": await _running(visit, findings.runs[RunState.RUNNING][:SHOWN]),
        "strip": await _strip(visit, [at for _, at in coming]),
        "known_to": visit.time(coming[-1][1]) if is_cut and coming and coming[-1][1] < visit.now + HOUR else None,
        "ended": await run_rows(visit, ended),
        "next": [(job, in_words(job), visit.time(at, job.definition.time_zone)) for job, at in first],
        "badges": _badges(visit, findings),
        "is_empty": not (await service.jobs.list(limit=1)).jobs,
    }


async def badges(visit: Visit) -> Mapping[str, int]:
    """Return how much needs somebody, by entry of the rail; it may be some seconds old."""
    return _badges(visit, await visit.lately("findings", lambda: _read_findings(visit), BADGE_LASTS))


def _badges(visit: Visit, findings: Findings) -> Mapping[str, int]:
    late = late_of(findings.runs[RunState.READY], visit.now) if findings.has_nodes else ()
    each = (findings.parked, findings.alarms, findings.failed, findings.runs[RunState.HELD], findings.pauses, late)
    doubts = (not findings.has_nodes) + (not visit.service.trusts_time) + len(visit.doubts.causes)
    return {"now": sum(map(len, each)) + doubts, "failures": len(findings.failed)}


async def _read_findings(visit: Visit) -> Findings:
    service = visit.service
    stopped_jobs = await visit.lately("stopped", lambda: _stopped(service), share=SELDOM)
    parked, paused = stopped_jobs[JobState.PARKED], stopped_jobs[JobState.PAUSED]
    failed = await visit.lately("failing", lambda: failing(service))
    stopped = {job.id: failed[job.id] for job in parked if job.id in failed}
    return Findings(
        runs={state: await runs_in(service, state, limit=MOST, longest=_TEXTS.get(state, 0)) for state in _OPEN},
        parked=parked,
        paused=paused,
        failed={job_id: run for job_id, run in failed.items() if job_id not in stopped},
        alarms=await service.expectations.alarms(limit=MOST),
        has_nodes=any(node.runs_jobs for node in await service.nodes.list()),
        stopped=stopped,
        pauses=await service.queues.pauses(),
    )


async def _stopped(service: Service) -> Mapping[JobState, Sequence[Job]]:
    """Return the first parked and the first paused jobs: together, for no index finds them."""
    states = (JobState.PARKED, JobState.PAUSED)
    both = await service.jobs.list(state=list(map(str, states)), limit=MOST_LISTED)
    if both.next is None:
        return {state: [job for job in both if job.state is state][:MOST] for state in states}
    return {state: (await service.jobs.list(state=state, limit=MOST)).jobs for state in states}


def _counts(findings: Findings) -> Sequence[Tally]:
    def of_runs(state: RunState) -> Tally:
        return Tally(state.value, len(findings.runs[state]), f"/runs?state={state}")

    asked, of_jobs = sum(map(awaits_approval, findings.runs[RunState.HELD])), [each.of_job for each in findings.alarms]
    return [
        *map(of_runs, (RunState.RUNNING, RunState.READY, RunState.BLOCKED)),
        Tally("parked", len(findings.parked), "/jobs?state=parked", begins=True),
        Tally("overdue", len(findings.alarms), "/jobs?state=overdue" if all(of_jobs) else _ALARMS),
        Tally("failing", len(findings.failed), "/jobs?state=failing"),
        Tally("held", len(findings.runs[RunState.HELD]) - asked, "/runs?state=held"),
        Tally("approval", asked, "/runs?state=approval"),
        Tally("paused", len(findings.paused), "/jobs?state=paused", begins=True),
    ]


# What needs somebody


async def _needs(visit: Visit, findings: Findings) -> Sequence[Need]:
    """Return what needs somebody, worst first; more than `SHOWN` are grouped by cause."""
    nobody = "No node takes part: nothing runs until one is started with `tokimori serve`."
    clock = "The clocks of this node and of the store disagree: nothing fires here. `tokimori doctor` says more."
    needs = [
        *(_parked(job, findings.stopped.get(job.id)) for job in findings.parked),
        *(_overdue(visit, alarm) for alarm in findings.alarms),
        *(_failing(visit, job_id, run) for job_id, run in findings.failed.items()),
        *(await _held(visit) if findings.runs[RunState.HELD] else []),
        *([] if findings.has_nodes else [Need("doubt", "nodes", None, nobody)]),
        *([] if visit.service.trusts_time else [Need("doubt", "clock", "/nodes", clock)]),
        *_doubts(visit),
        *(await stuck(visit, findings.runs[RunState.READY]) if findings.has_nodes else []),
        *_paused(visit, findings.pauses),
    ]
    return list(_grouped(visit, needs)) if len(needs) > SHOWN else needs


def _grouped(visit: Visit, needs: Sequence[Need]) -> Iterator[Need]:
    """Yield the needs, those with the same cause as one."""
    groups: dict[tuple[str, str], list[Need]] = {}
    for need in needs:
        groups.setdefault((need.state, need.cause or need.name), []).append(need)
    for group in groups.values():
        yield group[0] if len(group) == 1 else _group(visit, group)


def _group(visit: Visit, group: Sequence[Need]) -> Need:
    """Return several needs of one cause as one: what it is, whom it concerns, and the act for all of them."""
    state, noun = group[0].state, "runs" if group[0].state in ("held", "approval", "ready") else "jobs"
    more = f" and {len(group) - NAMED} more" if len(group) > NAMED else ""
    why = f"{group[0].cause}: {', '.join(each.name for each in group[:NAMED])}{more}."
    act, _ = group[0].acts[0] if group[0].acts else ("", "")
    links = []
    if act in ALL_OF and visit.reader.lacks(act) is None:
        on = [("on", each.acts[0][1]) for each in group[:MOST_AT_ONCE]]
        links = [(ALL_OF[act], address(f"/do/{act}", [*on, ("back", visit.here)]))]
    return Need(state, f"{len(group)} {noun}", f"/{noun}?state={state}", why, links=links)


def _parked(job: Job, run: Run | None) -> Need:
    reason, says = (run and cause(run)) or job.reason or "it failed too often", (run and whole_cause(run)) or job.reason
    why = f"Stopped after a failure: {says or reason}. It starts again when it is resolved."
    log = [("Log", path("runs", run.id))] if run else []
    to, acts = path("jobs", job.id), [("jobs.resolve", job.id)]
    return Need("parked", job.id, to, why, acts, log, f"Stopped after {reason}")


def _overdue(visit: Visit, alarm: Alarm) -> Need:
    to = path("jobs", alarm.name) if alarm.of_job else None
    expected = visit.time(alarm.expected_by)
    good = "it has never ended well" if alarm.last_good is None else f"last good end {visit.time(alarm.last_good).away}"
    if alarm.kind is AlarmKind.FAILED:
        why, what = f"It has reported a failure; {good}.", "Failures were reported"
    else:
        why = f"A good end was expected by {expected.text} {expected.zone}, {expected.away}; {good}."
        what = "No good end in time"
    acts = [] if alarm.of_job else [("expectations.ping", alarm.name), ("expectations.set", alarm.name)]
    to = to or path("expectations", alarm.name)
    return Need("overdue", alarm.name, to, why, acts, [("Why", to)] if alarm.of_job else [], what)


def _failing(visit: Visit, job_id: JobId, run: Run) -> Need:
    why = f"Its last run failed {distance(run.ended or run.due, visit.now)}: {whole_cause(run) or 'it says no more'}."
    retry, log = [("runs.retry", str(run.id))], [("Log", path("runs", run.id))]
    return Need("failing", job_id, path("jobs", job_id), why, retry, log, cause(run) or "it says no more")


async def _held(visit: Visit) -> Sequence[Need]:
    """Return the held runs, read with the texts that say who may approve them."""
    found = []
    for run in await visit.service.runs.list(state="held", limit=SHOWN):
        reasons = (await visit.service.runs.why(run.id)).reasons
        why = visit.reread(reasons[0].text) if reasons else "held by hand"
        own = await own_request(visit, run)
        acts = [(name, str(run.id)) for name in acts_of(run, visit.reader.role, is_own=own != "")[:ACTS_SHOWN]]
        text, state = f"{why[0].upper()}{why[1:]}", "approval" if awaits_approval(run) else "held"
        found.append(Need(state, run.job_id, path("runs", run.id), f"{text}.", acts, cause=text, no=own))
    return found


def late_of(ready: Sequence[Run], now: Moment) -> Sequence[Run]:
    """Return the runs that have been ready for long: none of a job twice, and at most as many as are shown."""
    return list({run.job_id: run for run in ready if run.due < now - LATE}.values())[:SHOWN]


async def stuck(visit: Visit, ready: Sequence[Run]) -> Sequence[Need]:
    """Return why runs that have been ready for long do not start."""
    found = []
    for run in late_of(ready, visit.now):
        if reasons := (await visit.service.runs.why(run.id)).reasons:
            mend = f": {reasons[0].mend}" if reasons[0].mend else ""
            text, to = visit.reread(reasons[0].text), path("runs", run.id)
            why = f"Due {distance(run.due, visit.now)}: {text}{mend}."
            found.append(Need("ready", run.job_id, to, why, links=[("Why", to)], cause=reasons[0].text))
    return found


def _doubts(visit: Visit) -> Iterator[Need]:
    """Yield what the node finds wrong with itself and the store; jobs are named to readers of all jobs alone."""
    sees_all = visit.reader.access.scope.is_everything
    for word, text, detail in visit.doubts.causes:
        more = f" ({detail})" if detail and sees_all else ""
        says = "" if "`" in text else " `tokimori doctor` says more."
        yield Need("doubt", word, "/nodes", f"{text[0].upper()}{text[1:]}{more}.{says}")


def _paused(visit: Visit, pauses: Sequence[Pause]) -> Sequence[Need]:
    found = []
    for pause in pauses:
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
    last = await visit.service.runs.last(list(dict.fromkeys(run.job_id for run in runs)), MOST_COMPARED, longest=0)
    going = [_going(row, run, last[run.job_id], visit.now) for run, row in zip(runs, rows, strict=True)]
    return sorted(going, key=lambda each: not each.is_late)


def _going(row: RunRow, run: Run, last: Sequence[Run], now: Moment) -> Going:
    elapsed, found = now - (run.started or now), usual_of(last)
    if found is None:
        return Going(row, Markup(""), "", "no run to compare with", is_late=False)
    usual, rarely = found
    left = f"about {duration(usual - elapsed)} left" if usual > elapsed else ""
    over = f"{duration(elapsed - usual)} over" if elapsed > rarely else ""
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
    past = [(run, min(_began(run), Moment(now - 1))) for run in runs if run.due <= now]
    return [(at, run.state is RunState.FAILED) for run, at in past if run.state is not RunState.SKIPPED]


def _began(run: Run) -> Moment:
    """Return when a run began; of one that was tried again when it was made, as its first start is not read."""
    return run.created if run.attempt > 1 else run.started or run.due


async def wall(visit: Visit) -> Shown:
    """Return the same for a wall: larger, only to be read, and with the worst counters first."""
    shown = await show(visit)
    if not isinstance(shown, dict):
        return shown
    counts = sorted(shown["counts"], key=lambda each: WORST_FIRST.index(each.word))
    return {**shown, "counts": counts, "at": visit.time(visit.now)}


SCREENS: Final = (
    Screen("/", "now", "now.html", show, leads=True, own=True),
    Screen("/wall", "wall", "wall.html", wall, leads=True),
)
