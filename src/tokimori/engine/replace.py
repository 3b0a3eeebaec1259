"""Replace: a newcomer ends the scheduled runs before it. Where they are very many, most of them end before it comes."""

import asyncio
from collections.abc import Callable

from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.engine.refusals import raise_first
from tokimori.errors import NotFound
from tokimori.model.decide import REPLACED, Due, Plan
from tokimori.model.ids import Incarnation
from tokimori.model.run import Run
from tokimori.model.transitions import BEFORE_START
from tokimori.ports.store import OCCURRENCES, RunFilter, Runs

MOST_REPLACED = 500
"""So many active runs may a job have of which the newcomer's own transaction ends the scheduled ones."""
PAGE = 1_000
MOST_PAGES = 10
"""So far behind the job's newest runs are scheduled ones looked for: requested ones stay, and may be as many. Those
that are not found end with newcomers, `MOST_MAKING_WAY` with each."""
AT_ONCE = 50
LONGEST = 0.25
"""Seconds, about, in which one call looks for some, and then ends some: a beat has to come between."""


async def make_way(store: Runs, due: Due, plan: Plan, now: Moment, monotonic: Callable[[], float]) -> bool:
    """Return whether to write the plan. If it would end too many runs at once, some of them end now instead.

    So after an edit from `queue` to `replace`, behind which a hundred thousand may wait: no store ends them in one
    transaction without holding up all others. Then the job is decided again.
    """
    if not plan.replaces or due.active <= MOST_REPLACED:
        return True
    some, end = await _newest(store, due, monotonic), monotonic() + LONGEST
    for start in range(0, len(some), AT_ONCE):
        if monotonic() > end:
            break
        ended = (store.cancel_run(run.id, REPLACED, now) for run in some[start : start + AT_ONCE])
        results = await asyncio.gather(*ended, return_exceptions=True)
        raise_first([each for each in results if not isinstance(each, NotFound)])
    return not some


async def _newest(store: Runs, due: Due, monotonic: Callable[[], float]) -> list[Run]:
    """Scheduled runs of the job that have not started: those among a page of its newest ones that has any."""
    wanted = RunFilter(job_id=due.job.id, states=BEFORE_START, limit=PAGE, longest=OCCURRENCES)
    end = monotonic() + LONGEST
    for _ in range(MOST_PAGES):
        page = await store.list_runs(wanted)
        found = [run for run in page if _is_replaced(run, due.job.incarnation)]
        if found or len(page) < PAGE or monotonic() > end:
            return found
        wanted = replace(wanted, before=page[-1].id)
    return []


def _is_replaced(run: Run, job: Incarnation) -> bool:
    return run.incarnation == job and run.origin.startswith("s:")
