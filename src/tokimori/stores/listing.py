"""Lists of runs: the selects of which one is made, each with an index that has its runs in the order of their ids."""

from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from tokimori.model.decide import Due
from tokimori.model.job import Job
from tokimori.model.transitions import ENDS, STANDING_STILL, RunState
from tokimori.ports.store import RunFilter
from tokimori.stores.rules.plans import is_readable

T = TypeVar("T", Job, Due)


async def readable(page: Callable[[Job | None], Awaitable[list[T]]], limit: int) -> list[T]:
    """Return the first `limit` that this program can read; `page` gives up to `limit` of those after a job.

    What it can't read counts for nothing: however much of it is in front, the others are found.
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
"""The index of what runs, which is sorted."""
STATE_LIVE = "tokimori_runs_state_live"
_OF_A_JOB = STANDING_STILL | {RunState.RUNNING, RunState.SUCCEEDED}
"""The states of one select each that find all runs of a job: that of those that succeeded finds whatever has ended."""
_NOT_RUNNING = "state <> 'running' AND created >= 0"
"""What all say who may use an index of the others: no statement of nodes, whose plans it would change, does."""


def listed(wanted: RunFilter, job: str, before: str, *, apart: bool = True) -> Iterator[Select]:
    """Yield the selects of a list; `job` and `before` stand for the values of the filter.

    No index by state holds what all runs pass through: what runs is little and has owners, and what succeeded is much.
    `apart`: the indexes of what waits have it by state.
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
    """Return the form of a state that only the index meant for it has, so that no other index can serve."""
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
