"""W3: 1,000 and 10,000 jobs due in one second: how late each run starts."""

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from benchmarks import sqlite_limit
from benchmarks.apscheduler_peer import APSCHEDULER, on_executed, until_done, with_jobs_due
from benchmarks.comparison import TOKIMORI, AtMost, Figures, Quantity, Trial, Workload
from benchmarks.in_process_node import add_jobs, count_ended, lateness, opened_store, store_url
from benchmarks.rounds import in_turn
from benchmarks.serving import serving
from tokimori.clock import MILLISECOND, SECOND, Moment, SystemClock, format_moment
from tokimori.model.job import Definition
from tokimori.model.target import Noop

MIDDLE, LATE, LAST = "p50", "p99", "last"
LIMIT = "bare sqlite3"
P99_WITHIN = {1_000: 200, 10_000: 1_500}
"""Milliseconds, by how many jobs are due."""
LEAD = 6.0
"""Seconds from the first preparation to the moment, and as many more for every 10,000 jobs."""


def tokimori(jobs: int, folder: Path) -> Figures:
    """`tokimori serve` fires them: decided, written as runs, claimed, started, settled. The ledger says when."""
    at = _moment(jobs)
    asyncio.run(_fill(folder, jobs, "at " + format_moment(at)))
    with serving(folder, "--no-http"):
        _sleep_until(at + 2 * SECOND)
        while count_ended(folder) < jobs:
            time.sleep(0.5)
    return _quantiles([late / MILLISECOND for late in lateness(folder)])


async def _fill(folder: Path, jobs: int, schedule: str) -> None:
    definition = Definition(target=Noop(), schedule=schedule)
    async with opened_store(store_url(folder)) as store:
        await add_jobs(store, [(f"job-{number}", definition) for number in range(jobs)])


def apscheduler(jobs: int, folder: Path) -> Figures:
    """Hands each to a pool of ten threads and removes it from the store: one commit a job."""
    at = _moment(jobs * 4)
    scheduler = with_jobs_due(folder, jobs, datetime.fromtimestamp(at / SECOND, UTC))
    executed: list[float] = []
    on_executed(scheduler, lambda _: executed.append(time.time()))
    scheduler.start()
    _sleep_until(at)
    until_done(folder, executed, jobs)
    scheduler.shutdown()
    return _quantiles(sorted((end - at / SECOND) * 1000 for end in executed))


def limit(jobs: int, folder: Path) -> Figures:
    """Runs that exist already are claimed and completed in batches: no deciding, no writing of new runs."""
    db = sqlite_limit.filled(folder, jobs)
    late: list[float] = []
    began = time.perf_counter()
    while claimed := sqlite_limit.claim(db):
        late += [(time.perf_counter() - began) * 1000] * len(claimed)
        sqlite_limit.complete(db, claimed)
    db.close()
    return _quantiles(late)


def _moment(jobs: int) -> Moment:
    """A full second that is far enough away to get ready for it."""
    ahead = LEAD * (1 + jobs / 10_000)
    return Moment((SystemClock().now() // SECOND + int(ahead)) * SECOND)


def _sleep_until(moment: int) -> None:
    left = moment / SECOND - time.time()
    assert left > 0, "it took too long to get ready"
    time.sleep(left)


def _quantiles(late: Sequence[float]) -> Figures:
    """Of milliseconds in ascending order."""
    return {MIDDLE: late[len(late) // 2], LATE: late[len(late) * 99 // 100], LAST: late[-1]}


def trials(quick: bool) -> Sequence[Trial]:
    """One for each number of jobs."""
    return [_trial(jobs) for jobs in ([1_000] if quick else [1_000, 10_000])]


def _trial(jobs: int) -> Trial:
    contenders = {
        TOKIMORI: partial(tokimori, jobs),
        APSCHEDULER: partial(apscheduler, jobs),
        LIMIT: partial(limit, jobs),
    }
    return Trial(
        title=f"{jobs:,} jobs due in one second, SQLite: start minus due",
        quantities=[Quantity(name, "ms") for name in (MIDDLE, LATE, LAST)],
        targets=[AtMost(LATE, P99_WITHIN[jobs])],
        measure=in_turn(contenders),
    )


WORKLOAD = Workload("W3", "jobs due in one second", trials)
