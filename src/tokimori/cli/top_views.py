"""Views of `tokimori top`: each asks the service for a bounded number of rows, and says what is to be shown."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tokimori.cli.command import options
from tokimori.cli.job_printing import next_cell
from tokimori.cli.output import TerminalOutput
from tokimori.cli.table import At, Short, lasted
from tokimori.cli.table import State as StateCell
from tokimori.cli.top_keys import State, Subject, View, matches
from tokimori.cli.top_screen import Content, Listing, Measure, Row
from tokimori.clock import DAY, HOUR, SECOND, Moment
from tokimori.spelling import amount

if TYPE_CHECKING:
    from tokimori.model.ids import NodeId
    from tokimori.model.job import Job
    from tokimori.model.run import Run
    from tokimori.service.service import Service
    from tokimori.service.view_cache import Durations

MOST = 100
"""Rows that are asked for of each kind: more are said as `100+`."""
MOST_FILTERED = 1_000
"""Jobs among which a filter looks."""
MOST_MOMENTS = 500
"""Firings that the plan shows."""
_RUNNING, _NEEDS, _LAST, _NEXT = 50, 20, 10, 30
"""Running runs with their progress, needs of a kind, bars of a job, and moments that come next."""
_LONGEST = 500
"""Bytes of an error that are read."""
_BAR, _HOURS = 10, 24
INTERVALS = {View.NOW: 2.0, View.JOBS: 5.0, View.FAILURES: 10.0, View.PLAN: 10.0}
"""Seconds between two looks; a key is answered at once."""


async def look(service: "Service", state: State) -> Content:
    """Return what the view shows now. Raises `TokimoriError`."""
    now, open_runs = await service.db.now(), await _open_runs(service)
    first, facts = _facts(open_runs)
    if state.followed is not None:
        log = await _log(service, state.followed.run or "")
        return Content(now, first, facts, (), log, state.view, state.followed)
    match state.view:
        case View.NOW:
            nodes = [node for node in await service.nodes.list() if node.state == "alive" and node.runs_jobs]
            hosts = {node.id: node.host for node in nodes}
            named = amount(len(nodes), "node")
            tables = [
                await _needs(service, open_runs["held"]),
                await _running(service, open_runs["running"][:_RUNNING], hosts, now),
                await _next(service),
            ]
            return Content(now, first, [*facts, named], tables)
        case View.JOBS:
            return Content(now, first, facts, [await _jobs(service, state.filter)], view=state.view)
        case View.FAILURES:
            return Content(now, first, facts, [await _failures(service)], view=state.view)
        case View.PLAN:
            return Content(now, first, facts, [await _plan(service, now)], view=state.view)


async def _open_runs(service: "Service") -> "dict[str, Sequence[Run]]":
    states = ("running", "ready", "blocked", "held")
    return {state: (await service.runs.list(state=state, limit=MOST, longest=0)).runs for state in states}


def _facts(open_runs: "dict[str, Sequence[Run]]") -> tuple[str, list[str]]:
    counts = {state: f"{len(runs)}{'+' if len(runs) == MOST else ''}" for state, runs in open_runs.items()}
    running = counts.pop("running")
    return f"{running} running run{'' if running == '1' else 's'}", [f"{n} {state}" for state, n in counts.items()]


async def _log(service: "Service", run_id: str) -> list[str]:
    """Return the lines of the newest attempt's output that are kept, without anything that controls a terminal."""
    from rich.text import Text

    from tokimori.service.tasks.outputs import whole

    output = await service.runs.output(run_id)
    passed = TerminalOutput()
    text = b"" if output is None else passed.feed(whole(output)) + passed.finish()
    return [line.expandtabs() for line in Text.from_ansi(text.decode()).plain.splitlines()]


async def _needs(service: "Service", held: "Sequence[Run]") -> Listing:
    """Return what needs somebody: parked and overdue jobs, those whose last run has failed, and held runs."""
    found: list[Row] = []
    for job in (await service.jobs.list(state="parked", limit=_NEEDS)).jobs:
        cells = (StateCell("parked"), job.id, At(job.updated, ""), job.reason or "it failed too often")
        found.append(Row(Subject(None, job.id, table="needs"), cells))
    for alarm in await service.expectations.alarms(limit=_NEEDS):
        why = "no good end in time"
        job_id = alarm.name if alarm.of_job else None
        found.append(
            Row(
                Subject(None, job_id, table=f"needs {alarm.name}"),
                (StateCell("overdue"), alarm.name, At(alarm.since, ""), why),
            )
        )
    parked = {row.subject.job for row in found}
    for run in await _failing(service):
        if run.job_id not in parked:
            cells = (StateCell("failing"), run.job_id, At(run.ended, ""), _why(run))
            found.append(Row(Subject(run.id, run.job_id, runs=False), cells))
    for run in held[:_NEEDS]:
        cells = (StateCell("held"), run.job_id, At(run.due, ""), f"run {run.id[-8:]} waits to be resumed")
        found.append(Row(Subject(run.id, run.job_id), cells))
    return Listing("needs you", ("STATE", "NAME", "SINCE", "WHY"), found, ("SINCE",))


async def _failing(service: "Service") -> "Sequence[Run]":
    """Return the last runs of jobs whose newest ended run has failed."""
    failed = (await service.runs.list(state="failed", limit=MOST, longest=_LONGEST)).runs
    newest = {run.job_id: run for run in reversed(failed)}
    last = await service.runs.last(list(newest)[-_NEEDS:], _LAST, longest=0) if newest else {}
    ended = {job_id: next((run for run in runs if run.ended is not None), None) for job_id, runs in last.items()}
    return [newest[job_id] for job_id, run in ended.items() if run is not None and run.id == newest[job_id].id]


def _why(run: "Run") -> str:
    from tokimori.model.cause import cause_in

    return cause_in(run) or (run.error or "").strip().partition("\n")[0] or "it says no more"


async def _running(service: "Service", runs: "Sequence[Run]", hosts: "Mapping[NodeId, str]", now: Moment) -> Listing:
    """Return the running runs. The bar of each compares its elapsed time with the median of its job."""
    # Lists have no progress of running attempts.
    detailed = [(await service.runs.get(run.id)).run for run in runs[:_NEEDS]]
    jobs = list(dict.fromkeys(run.job_id for run in runs))
    usual = await service.jobs.durations(jobs) if jobs else {}
    rows = []
    for run in [*detailed, *runs[_NEEDS:]]:
        elapsed = max(0, now - (run.started or now))
        node = (run.node_id and hosts.get(run.node_id)) or run.details.worker or ""
        took = Measure(lasted(elapsed // SECOND * SECOND) if elapsed >= SECOND else "<1s", elapsed)
        cells = (Short(run.id), run.job_id, took, _usual(usual.get(run.job_id), elapsed), _progress(run), node)
        rows.append(Row(Subject(run.id, run.job_id), cells))
    return Listing("running", ("RUN", "JOB", "FOR", "OF ABOUT", "PROGRESS", "NODE"), rows, ("NODE", "OF ABOUT"))


def _usual(known: "Durations | None", elapsed: int) -> Measure | str:
    """Return how much of the time of half of its job's runs has passed; what is later than 19 of 20 is marked."""
    if known is None or known.p50 is None or known.p95 is None:
        return ""
    part = elapsed / SECOND / max(known.p50, 0.001)
    late = " late" if elapsed > max(known.p95, 1.0) * SECOND else ""
    return Measure(f"{bar(part)} {lasted(round(known.p50 * SECOND))}{late}", part)


def bar(part: float) -> str:
    """Return a bar that is filled as far; `--plain` has it without signs."""
    full = round(min(max(part, 0.0), 1.0) * _BAR)
    there, rest = ("#", ".") if options().plain else ("█", "░")
    return there * full + rest * (_BAR - full)


def _progress(run: "Run") -> str:
    """Return a bar, as far as the run has reported."""
    fraction = run.details.progress
    if fraction is None:
        return "-"
    return f"{bar(fraction)} {fraction:.0%} {run.details.progress_text or ''}".rstrip()


async def _next(service: "Service") -> Listing:
    """Return the jobs that fire next, each once."""
    first = {job.id: (job, at) for job, at in reversed(await service.schedules.upcoming(MOST))}
    coming = sorted(first.values(), key=lambda each: each[1])[:_NEXT]
    rows = [Row(Subject(None, job.id, table="next"), (At(at, job.definition.time_zone), job.id)) for job, at in coming]
    return Listing("next", ("DUE", "JOB"), rows)


async def _jobs(service: "Service", wanted: str) -> Listing:
    """Return the jobs, at most `MOST`; with a filter those of the first `MOST_FILTERED`."""
    page = await service.jobs.list(limit=MOST_FILTERED if wanted else MOST)
    jobs = [job for job in page.jobs if not wanted or matches(_texts(job), wanted)]
    more = len(jobs) > MOST or page.next is not None
    last = await service.runs.last([job.id for job in jobs[:MOST]], _LAST, longest=0) if jobs else {}
    rows = [_job(job, last.get(job.id, ())) for job in jobs[:MOST]]
    which = f"the first {MOST} jobs" if more else amount(len(rows), "job")
    columns = ("JOB", "STATE", "SCHEDULE", "NEXT", "LAST RUNS", "P50", "OK")
    return Listing(which, columns, rows, ("SCHEDULE", "P50", "LAST RUNS", "OK"))


def _texts(job: "Job") -> str:
    return f"{job.id} {job.state} {job.definition.schedule or ''} {job.definition.queue}"


def _job(job: "Job", runs: "Sequence[Run]") -> Row:
    """Return the row of a job; the log is that of its newest run."""
    ends = [run for run in runs if run.state in ("succeeded", "failed")]
    good = sorted(run.ended - run.started for run in ends if run.started is not None and run.ended is not None)
    usual: Measure | str = Measure(lasted(good[(len(good) - 1) // 2]), good[(len(good) - 1) // 2]) if good else ""
    succeeded = sum(run.state == "succeeded" for run in ends)
    rate: Measure | str = Measure(f"{succeeded / len(ends):.0%}", succeeded / len(ends)) if ends else ""
    state = "failing" if ends and ends[0].state == "failed" and job.state == "enabled" else job.state.value
    schedule = job.definition.schedule
    when = "on demand" if schedule is None else schedule
    cells = (job.id, StateCell(state), when, next_cell(job), _signs(runs), usual, rate)
    return Row(Subject(runs[0].id if runs else None, job.id, runs=bool(runs) and runs[0].ended is None), cells)


def _signs(runs: "Sequence[Run]") -> str:
    """Return a letter for each run, the oldest first: `.` succeeded, `F` failed, `r` runs, `-` is another state."""
    letters = {"succeeded": ".", "failed": "F", "running": "r"}
    return "".join(letters.get(run.state.value, "-") for run in reversed(runs))


async def _failures(service: "Service") -> Listing:
    """Return the failures of a day by cause; the chosen one stands for its newest run."""
    found = await service.runs.failures()
    rows = []
    for each in found.causes:
        jobs = ", ".join(each.jobs) + (f" and {each.more_jobs} more" if each.more_jobs else "")
        cells = (each.count, each.cause, jobs, At(each.first, ""), At(each.last, ""), Short(each.sample))
        rows.append(Row(Subject(each.sample, each.jobs[0] if len(each.jobs) == 1 else None, runs=False), cells))
    count = amount(found.count, "failure")
    title = f"{count} of 24 hours by cause, of {found.looked} that were looked at"
    return Listing(title, ("COUNT", "CAUSE", "JOBS", "FIRST", "LAST", "RUN"), rows, ("FIRST", "RUN", "JOBS"))


async def _plan(service: "Service", now: Moment) -> Listing:
    """Return a lane for each job that fires within 24 hours, or as far as `MOST_MOMENTS` firings reach."""
    coming = [(job, at) for job, at in await service.schedules.upcoming(MOST_MOMENTS) if now < at <= now + DAY]
    is_cut = len(coming) == MOST_MOMENTS
    span = max(coming[-1][1] - now, HOUR) if is_cut else DAY
    lanes: dict[str, Counter[int]] = defaultdict(Counter)
    first = {job.id: (job, at) for job, at in reversed(coming)}
    for job, at in coming:
        lanes[job.id][min((at - now) * _HOURS // span, _HOURS - 1)] += 1
    total = sum(lanes.values(), Counter[int]())
    rows = [
        Row(
            Subject(None, job_id),
            (
                job_id,
                At(first[job_id][1], first[job_id][0].definition.time_zone),
                lanes[job_id].total(),
                lane(lanes[job_id]),
            ),
        )
        for job_id in sorted(first, key=lambda each: first[each][1])
    ]
    reach = f"{amount(len(coming), 'firing')} in 24 hours"
    if is_cut:
        reach = f"the next {MOST_MOMENTS} firings, within {lasted(span)}"
    busiest = f"; most at once {max(total.values())} in {lasted(span // _HOURS)}" if total else ""
    return Listing(f"{reach}{busiest}", ("JOB", "NEXT", "TIMES", "FROM NOW ON"), rows, ("TIMES",))


def lane(counts: Counter[int]) -> str:
    """Return a sign for each 24th of the time: how often it fires there, `+` for over nine times."""
    return "".join("." if not counts[n] else str(counts[n]) if counts[n] < 10 else "+" for n in range(_HOURS))
