"""Lists of runs: their selects, each with an index in the order of ids."""

from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from tokimori.model.decide import Due
from tokimori.model.job import Job
from tokimori.model.transitions import ENDS, STANDING_STILL, RunState
from tokimori.ports.store import RunFilter
from tokimori.stores.rules.plans import is_readable

T = TypeVar("T", Job, Due)


async def readable(page: Callable[[Job | None], Awaitable[list[T]]], limit: int) -> list[T]:
    """Return the first `limit` jobs that this program can read; `page` gives up to `limit` of those after a job.

    Unreadable ones do not count: however many are in front, the others are found.
    """
    found: list[T] = []
    after: Job | None = None
    while len(found) < limit:
        rows = await page(after)
        found += [row for row in rows if is_readable(_job(row))]
        if len(rows) < limit:
            break
        after = _job(rows[-1])
    return found[:limit]


def _job(row: Job | Due) -> Job:
    return row.job if isinstance(row, Due) else row


Select = tuple[str, str | None, str]
"""A table, an index of it, and the condition; without an index it walks the primary key."""
RUNNING = "tokimori_runs_owned"
"""Index of running runs, which are then sorted."""
STATE_LIVE = "tokimori_runs_state_live"
_OF_A_JOB = STANDING_STILL | {RunState.RUNNING, RunState.SUCCEEDED}
"""States of the selects that together find all runs of a job: the one of succeeded runs finds all ended ones."""
_NOT_RUNNING = "state <> 'running' AND created >= 0"
"""Condition of indexes without running runs. Statements of nodes do not have it, so their plans stay."""


def listed(wanted: RunFilter, job: str, before: str, *, apart: bool = True) -> Iterator[Select]:
    """Yield the selects of a list; `job` and `before` stand for the values of the filter.

    No index by state has the states of all runs: running ones are few and have owners, succeeded ones are many.
    `apart`: indexes of waiting runs are by state.
    """
    terms = [f"job_id = {job}"] * (wanted.job_id is not None) + [f"id < {before}"] * (wanted.before is not None)
    by_job = wanted.job_id is not None
    states = wanted.states or (_OF_A_JOB if by_job else frozenset())
    together = [] if apart else sorted(states & STANDING_STILL)
    for group in filter(None, [together, *([state] for state in sorted(states.difference(together)))]):
        table, index, of_index = _place(group[0], by_job=by_job)
        words = " OR ".join(f"{_form(state, by_job=by_job)} = '{state}'" for state in group)
        condition = f"({words})" if wanted.states or group[0] not in ENDS else "true"
        yield f"tokimori_{table}", index, " AND ".join([condition, of_index, *terms])
    for table in () if states else ("runs", "history"):
        yield f"tokimori_{table}", None, " AND ".join(terms) or "true"


def _form(state: RunState, *, by_job: bool) -> str:
    """Return the form of a state that only its own index has, so that no other index can serve."""
    if state in {RunState.RUNNING, *ENDS}:
        return "state"
    return "trim(state)" if by_job else "lower(state)"


def _place(state: RunState, *, by_job: bool) -> Select:
    match state:
        case RunState.RUNNING:
            return "runs", RUNNING, "true"
        case RunState.SUCCEEDED:
            return "history", "tokimori_history_job" if by_job else None, "true"
        case _ if state in ENDS:
            return "history", f"tokimori_history_{'job' if by_job else 'state'}_ends", "state <> 'succeeded'"
        case _:
            return "runs", "tokimori_runs_job_live" if by_job else STATE_LIVE, _NOT_RUNNING
