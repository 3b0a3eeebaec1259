"""Proves from the ledger, the attempts and what the jobs wrote themselves that nothing was missed, doubled or early."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tokimori.clock import SECOND, Moment, format_moment
from tokimori.model.ids import JobId, RunId
from tokimori.model.run import Attempt, Run, Skip
from tokimori.model.transitions import ENDS, RunState

TAKE_OVER = 10 * SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class StartLine:
    """What a command wrote when it began: its own words, and its own clock."""

    run_id: RunId
    attempt: int
    nominal: Moment
    at: Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """All that is known of one job after everything has ended."""

    job_id: JobId
    expected: Sequence[Moment]
    runs: Sequence[Run]
    skips: Sequence[Skip]
    writes_lines: bool


def check(
    ledgers: Sequence[Ledger],
    attempts: Mapping[RunId, Sequence[Attempt]],
    lines: Sequence[StartLine],
    *,
    deaths: Sequence[Moment],
) -> list[str]:
    """Every fault, one sentence each. `deaths`: when a node was killed or frozen, by the checker's clock."""
    by_run: dict[RunId, list[StartLine]] = defaultdict(list)
    for line in lines:
        by_run[line.run_id].append(line)
    known = {run.id for ledger in ledgers for run in ledger.runs}
    faults = [f"run {run_id} wrote a line and is not in the ledger" for run_id in by_run if run_id not in known]
    for ledger in ledgers:
        faults += _check_occurrences(ledger)
        for run in ledger.runs:
            faults += _check_run(ledger, run, attempts.get(run.id, ()), by_run.get(run.id, []))
            faults += _check_take_over(run, attempts.get(run.id, ()), by_run.get(run.id, []), deaths)
    return faults


def _check_occurrences(ledger: Ledger) -> list[str]:
    """Every occurrence is one run, and every run one occurrence."""
    count: dict[Moment, int] = defaultdict(int)
    for run in ledger.runs:
        count[run.nominal] += 1
    job, expected = ledger.job_id, set(ledger.expected)
    faults = [f"{job}: {format_moment(moment)} is missing" for moment in expected if not count[moment]]
    faults += [f"{job}: {format_moment(moment)} has {n} runs" for moment, n in count.items() if n > 1]
    faults += [
        f"{job}: {format_moment(moment)} is no occurrence"
        for moment, n in count.items()
        if n and moment not in expected
    ]
    return faults + [
        f"{job}: {skip.count} skipped, {skip.reason}, from {format_moment(skip.first)}" for skip in ledger.skips
    ]


def _check_run(ledger: Ledger, run: Run, attempts: Sequence[Attempt], lines: Sequence[StartLine]) -> list[str]:
    name = f"{ledger.job_id} {format_moment(run.nominal)} (run {run.id})"
    faults = []
    if run.state is not RunState.SUCCEEDED:
        faults.append(f"{name} is {run.state}" + (" and has not ended" if run.state not in ENDS else f": {run.error}"))
    starts = [line.at for line in lines] + ([run.started] if run.started is not None else [])
    faults += [f"{name} started early, at {format_moment(at)}" for at in starts if at < run.nominal]
    if ledger.writes_lines and not lines:
        faults.append(f"{name} wrote no line")
    lost = [attempt for attempt in attempts if attempt.outcome in ("lost", "released")]
    if len(lines) > 1 + len(lost):
        faults.append(f"{name} started {len(lines)} times with {len(lost)} lost attempts between")
    if len(lines) != len({line.attempt for line in lines}):
        faults.append(f"{name} started one attempt twice")
    return faults


def _check_take_over(
    run: Run, attempts: Sequence[Attempt], lines: Sequence[StartLine], deaths: Sequence[Moment]
) -> list[str]:
    """What a dead node held was started again within the promised time after the death."""
    faults = []
    for attempt in attempts:
        if attempt.outcome != "lost" or attempt.ended is None:
            continue
        ended = attempt.ended
        death = max((moment for moment in deaths if moment <= ended), default=None)
        later = [line.at for line in lines if line.attempt > attempt.number] or [run.started or run.ended or ended]
        if death is None:
            faults.append(f"run {run.id} was lost although no node had died")
        elif min(later) - death > TAKE_OVER:
            faults.append(f"run {run.id} was taken over {(min(later) - death) / SECOND:.1f} s after the death")
    return faults
