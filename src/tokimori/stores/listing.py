"""Lists of runs: the selects of which one is made, each with an index that has its runs in the order of their ids."""

from collections.abc import Iterator
from dataclasses import dataclass

from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.store import RunFilter

RUNNING = "tokimori_runs_owned"
"""The index of what runs, which is sorted."""
STATE_LIVE = "tokimori_runs_state_live"
_NOT_RUNNING = ["state <> 'running'", "created >= 0"]
"""What all say who may use an index of the others: no statement of nodes, whose plans it would change, does."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A select; without an index it walks the primary key."""

    table: str
    index: str | None
    condition: str


def listed(wanted: RunFilter, job: str, before: str) -> Iterator[Listed]:
    """The selects of a list; `job` and `before` stand for the values of the filter.

    No index by state holds what all runs pass through: what runs is little and has owners, and what succeeded is much.
    """
    of_job = wanted.job_id is not None
    terms = [f"job_id = {job}"] * of_job + [f"id < {before}"] * (wanted.before is not None)
    if not wanted.states:
        yield _select("tokimori_history", "tokimori_history_job" if of_job else None, terms)
    if not wanted.states and not of_job:
        yield _select("tokimori_runs", None, terms)
    if not wanted.states and of_job:
        yield _select("tokimori_runs", "tokimori_runs_job_live", [*_NOT_RUNNING, *terms])
    for state in sorted(wanted.states or ({RunState.RUNNING} if of_job else ())):
        yield _of_state(state, [f"state = '{state}'", *terms], of_job=of_job)


def _of_state(state: RunState, terms: list[str], *, of_job: bool) -> Listed:
    match state:
        case RunState.RUNNING:
            return _select("tokimori_runs", RUNNING, terms)
        case RunState.SUCCEEDED:
            return _select("tokimori_history", "tokimori_history_job" if of_job else None, terms)
        case _ if state in ENDS:
            index = "tokimori_history_job_ends" if of_job else "tokimori_history_state_ends"
            return _select("tokimori_history", index, ["state <> 'succeeded'", *terms])
        case _:
            index = "tokimori_runs_job_live" if of_job else STATE_LIVE
            return _select("tokimori_runs", index, [*_NOT_RUNNING, *terms])


def _select(table: str, index: str | None, terms: list[str]) -> Listed:
    return Listed(table, index, " AND ".join(terms) or "true")
