"""Rows of runs for lists and pages."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from tokimori.model.approval import awaits_approval
from tokimori.model.cause import cause_in
from tokimori.model.run import LONG, NEVER, Run, asked_by, asked_in_words, first_begin, never_begun
from tokimori.model.transitions import BEFORE_START, ENDS, RunState
from tokimori.service.runs.runs import RunSummary
from tokimori.web.visit import Visit
from tokimori.web.words import Time, clock_time, lasted, short

LONGEST_SAID = 1_000
"""Bytes of the texts of runs that a list reads; of longer ones it says nothing."""
MOST_SAID = 200
"""Characters of an error in a list."""


class RunRow(NamedTuple):
    """A run as a list shows it."""

    id: str
    short: str
    job_id: str
    is_job_deleted: bool
    state: str
    origin: str
    nominal: Time
    began: Time
    is_started: bool
    took: str
    attempts: int
    says: str
    node: str
    is_over: bool
    ended: Time | None


async def run_rows(visit: Visit, runs: Sequence[Run]) -> Sequence[RunRow]:
    """Return the rows of these runs, in the same order."""
    summaries = await visit.service.runs.summaries(runs)
    hosts = {node.id: node.host for node in await visit.service.nodes.list()}
    return [run_row(visit, each, hosts.get(each.run.node_id, "") if each.run.node_id else "") for each in summaries]


def run_row(visit: Visit, summary: RunSummary, node: str = "") -> RunRow:
    """Return the row of a run."""
    run, zone = summary.run, summary.time_zone
    awaits_start = run.state in BEFORE_START or run.state is RunState.HELD
    is_started = run.started is not None and (not awaits_start or run.due == NEVER)
    began = first_begin(run) if is_started else None
    return RunRow(
        id=run.id,
        short=short(run.id),
        job_id=run.job_id,
        is_job_deleted=summary.is_job_deleted,
        state="approval" if awaits_approval(run) else run.state.value,
        origin=_origin(visit, run, zone),
        nominal=visit.time(run.nominal, zone),
        began=visit.time(run.due if began is None else began, zone),
        is_started=is_started,
        took=lasted(first_begin(run), run.ended, visit.now, is_running=run.state is RunState.RUNNING),
        attempts=0 if awaits_start and never_begun(run) else run.attempt,
        says=_says(run),
        node=node or (run.details.worker or "") if is_started else "",
        is_over=run.state in ENDS,
        ended=None if run.ended is None else visit.time(run.ended, zone),
    )


def _says(run: Run) -> str:
    """Return the line of a run in a list: its cause, or its progress."""
    if run.cancel is not None and run.state is RunState.RUNNING:
        return f"is to be cancelled: {run.cancel}"[:MOST_SAID]
    if run.state is RunState.RUNNING:
        far = "" if run.details.progress is None else f"{100 * run.details.progress:.0f} % "
        return f"{far}{run.details.progress_text or ''}".strip()[:MOST_SAID]
    return "" if run.state is RunState.SUCCEEDED else whole_cause(run)


def is_stock(error: str) -> bool:
    """Return whether the text of an error only repeats its exit code."""
    return re.fullmatch(r"exit code \d+", error) is not None


def cause(run: Run) -> str:
    """Return how a run failed, on one line: its cause, or its exit and the first line of its error."""
    if (reckoned := cause_in(run)) is not None:
        return reckoned[:MOST_SAID]
    signal = "" if run.signal is None else f"signal {run.signal}"
    code = f"exit {run.exit_code}" if run.exit_code else signal
    error = (run.error or "").strip().partition("\n")[0]
    if error in (f"exit code {run.exit_code}", LONG):
        error = ""
    text = f"{code}: {error}" if code and error and code not in error else error or code
    return text[:MOST_SAID]


def whole_cause(run: Run) -> str:
    """Return the cause of a failed run with its line as it was written: numbers, dates and paths stand in it."""
    text, line = cause(run), run.details.line
    return text if line is None else f"{text.partition(': ')[0]}: {line}"[:MOST_SAID]


def _origin(visit: Visit, run: Run, zone: str) -> str:
    """Return the origin of a run in words; of a backfill with its occurrence, as it starts at another time."""
    name = asked_by(run.origin)
    if name == "backfill":
        return f"backfill of {clock_time(run.nominal, visit.zone_of(zone), visit.now)}"
    return asked_in_words(run)
