"""W4: recurring jobs on PostgreSQL that are due in one second: how soon all are done, and how late each starts."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import asyncpg

from benchmarks.comparison import TOKIMORI, AtMost, Figures, Quantity, Trial, Workload
from benchmarks.in_process_node import add_jobs, opened_store
from benchmarks.postgres_peers import bare_asyncpg
from benchmarks.postgres_server import on_one_server, settle_down
from benchmarks.serving import serving
from tokimori.clock import MILLISECOND, SECOND, Moment, SystemClock
from tokimori.model.job import Definition
from tokimori.model.target import Noop

TWO_NODES, LIMIT = "Tokimori, two nodes", "bare asyncpg, claim and complete"
DONE, MIDDLE, LATE, LAST = "all done", "p50", "p99", "last"
DONE_WITHIN = {1_000: 1.0, 20_000: 20_000 / 6_000}
"""Seconds, by how many jobs are due."""
P99_WITHIN = 200
LEAD = 6.0
"""Seconds from the start of the nodes to the moment."""
LOOK_EVERY = 0.02
IS_DONE = """
SELECT NOT EXISTS (SELECT FROM tokimori_runs)
    AND NOT EXISTS (SELECT FROM tokimori_jobs WHERE state = 'enabled' AND next_due <= $1)
"""
LATENESS = """
SELECT count(*), percentile_disc(ARRAY[0.5, 0.99, 1]) WITHIN GROUP (ORDER BY started - due) FROM tokimori_history
"""


def tokimori(jobs: int, nodes: int, url: str, folder: Path) -> Figures:
    """`tokimori serve` decides, writes runs, claims, starts and settles: from the moment to the last commit."""
    at = _moment(jobs)
    asyncio.run(_fill(url, jobs, at))
    settle_down(url)
    with ExitStack() as stack:
        for number in range(nodes):
            (folder / str(number)).mkdir()
            stack.enter_context(serving(folder / str(number), "--no-http", store=url))
        return asyncio.run(_watch(url, jobs, at))


async def _fill(url: str, jobs: int, at: Moment) -> None:
    schedule = datetime.fromtimestamp(at // SECOND, UTC).strftime("%-S %-M %-H * * *")
    definition = Definition(target=Noop(), schedule=schedule)
    async with opened_store(url) as store:
        for first in range(0, jobs, 5_000):
            await add_jobs(store, [(f"job-{n}", definition) for n in range(first, min(first + 5_000, jobs))])


async def _watch(url: str, jobs: int, at: Moment) -> Figures:
    session = await asyncpg.connect(url)
    left = at / SECOND - time.time()
    assert left > 0, "it took too long to get ready"
    await asyncio.sleep(left)
    while not await session.fetchval(IS_DONE, at):  # noqa: ASYNC110  the nodes are watched from outside
        await asyncio.sleep(LOOK_EVERY)
    seconds = time.time() - at / SECOND
    ((ended, late),) = await session.fetch(LATENESS)
    await session.close()
    assert ended == jobs, f"{ended} of {jobs} runs have ended"
    middle, most, last = (each / MILLISECOND for each in late)
    return {DONE: seconds, MIDDLE: middle, LATE: most, LAST: last}


def limit(jobs: int, url: str, _: Path) -> Figures:
    """Runs that exist already are claimed and completed in batches of 500: nothing is decided, nothing else is kept."""
    asyncio.run(bare_asyncpg.fill(url, jobs))
    settle_down(url)
    seconds = asyncio.run(bare_asyncpg.drain(url, jobs)).seconds
    return {DONE: seconds, MIDDLE: seconds * 500, LATE: seconds * 990, LAST: seconds * 1000}


def _moment(jobs: int) -> Moment:
    """A full second that is far enough away to get ready for it."""
    return Moment((SystemClock().now() // SECOND + int(2 * LEAD + jobs / 2_500)) * SECOND)


def trials(quick: bool) -> Sequence[Trial]:
    """One for each number of jobs."""
    return [_trial(jobs) for jobs in ([1_000] if quick else [1_000, 20_000])]


def _trial(jobs: int) -> Trial:
    late = [AtMost(LATE, P99_WITHIN)] if jobs == 1_000 else []
    return Trial(
        title=f"{jobs:,} recurring jobs due in one second, PostgreSQL, fsync and synchronous_commit on",
        quantities=[Quantity(DONE, "s"), *(Quantity(name, "ms") for name in (MIDDLE, LATE, LAST))],
        targets=[AtMost(DONE, round(DONE_WITHIN[jobs], 2)), *late],
        measure=on_one_server(
            {
                TOKIMORI: partial(tokimori, jobs, 1),
                TWO_NODES: partial(tokimori, jobs, 2),
                LIMIT: partial(limit, jobs),
            }
        ),
    )


WORKLOAD = Workload("W4", "recurring jobs due in one second on PostgreSQL", trials)
