"""W7: what a million stored schedules on PostgreSQL cost a node that has nothing to do, and how late one due job is."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import asyncpg

from benchmarks.comparison import TOKIMORI, AtMost, Figures, Quantity, Trial, Workload
from benchmarks.in_process_node import add_jobs, opened_store
from benchmarks.postgres_server import on_one_server, settle_down
from benchmarks.serving import serving
from benchmarks.workloads.idle import cpu_seconds
from tokimori.clock import MILLISECOND, SECOND, Moment, SystemClock, format_moment
from tokimori.model.ids import JobId
from tokimori.model.job import Definition
from tokimori.model.target import Noop

START, COST, CALLS, LATE, MEMORY = "start", "CPU", "store calls", "one job's lateness", "memory"
BOUNDS = {START: 1.0, COST: 0.5, CALLS: 35, LATE: 50, MEMORY: 100}
PATTERN = JobId("far-0")
COPY = """
INSERT INTO tokimori_jobs SELECT (jsonb_populate_record(j, jsonb_build_object(
    'incarnation', n, 'id', 'far-' || n, 'next_due', j.next_due + n * 1000))).*
FROM tokimori_jobs j, generate_series(1, $1::bigint) n WHERE j.id = $2
"""
QUIET = ("ALTER SYSTEM SET autovacuum = off", "SELECT pg_reload_conf()")
"""Its transactions are not the node's: `settle_down` does its work before."""
TRANSACTIONS = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
OWN = 2
"""The beginning of our session, and its first question."""
TOLD = 12.0
"""Seconds after which an idle session has told the server of its transactions, those of the start too."""
LATENESS = "SELECT started - due FROM tokimori_history WHERE job_id = 'soon'"
LEAD = 3.0
"""Seconds from when the one job is added to when it is due."""


def tokimori(jobs: int, seconds: float, url: str, folder: Path) -> Figures:
    """`tokimori serve`, its keeper included. Its calls are the transactions of the database, but for ours."""
    asyncio.run(_fill(url, jobs))
    settle_down(url)
    began = time.perf_counter()
    with serving(folder, "--no-http", store=url) as node:
        start = time.perf_counter() - began
        time.sleep(TOLD)
        cpu = cpu_seconds(node.pid)
        calls = asyncio.run(_calls(url, seconds))
        cpu = cpu_seconds(node.pid) - cpu
        memory = _resident(node.pid)
        late = asyncio.run(_one_due(url))
    minutes = seconds / 60
    return {START: start, COST: cpu / minutes, CALLS: calls / minutes, LATE: late / MILLISECOND, MEMORY: memory}


async def _fill(url: str, jobs: int) -> None:
    """Jobs of every leap day, whose next moments are set to differ; by the server, for it would take long otherwise."""
    async with opened_store(url) as store:
        await add_jobs(store, [(PATTERN, Definition(target=Noop(), schedule="0 0 29 2 *"))])
    session = await asyncpg.connect(url)
    await session.execute(COPY, jobs - 1, PATTERN, timeout=600)
    for quiet in QUIET:
        await session.execute(quiet)
    await session.close()


async def _calls(url: str, seconds: float) -> int:
    """Transactions of others within that time. A session's own beginning and end are transactions too: it stays."""
    session = await asyncpg.connect(url)
    before: int = await session.fetchval(TRANSACTIONS)
    await asyncio.sleep(seconds)
    after: int = await session.fetchval(TRANSACTIONS)
    await session.close()
    return after - before - OWN


async def _ask(url: str, query: str) -> int:
    session = await asyncpg.connect(url)
    answer = await session.fetchval(query)
    await session.close()
    return 0 if answer is None else int(answer)


async def _one_due(url: str) -> int:
    """The lateness of a job that is added now, in microseconds."""
    at = Moment((SystemClock().now() // SECOND + int(LEAD)) * SECOND)
    async with opened_store(url) as store:
        await add_jobs(store, [("soon", Definition(target=Noop(), schedule="at " + format_moment(at)))])
    await asyncio.sleep(at / SECOND - time.time() + 2)
    return await _ask(url, LATENESS)


def _resident(pid: int) -> float:
    """MiB of memory that the process has."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS:"))


def trials(quick: bool) -> Sequence[Trial]:
    """One trial, of two minutes."""
    jobs, seconds = (100_000, 20.0) if quick else (1_000_000, 60.0)
    units = {START: "s", COST: "CPU s/min", CALLS: "a minute", LATE: "ms", MEMORY: "MiB"}
    return [
        Trial(
            title=f"{jobs:,} jobs on PostgreSQL, none of them due for {seconds:g} s; then one more is",
            quantities=[Quantity(name, unit) for name, unit in units.items()],
            targets=[AtMost(name, bound) for name, bound in BOUNDS.items()],
            measure=on_one_server({TOKIMORI: partial(tokimori, jobs, seconds)}),
            most_rounds=2,
        )
    ]


WORKLOAD = Workload("W7", "a million stored schedules", trials)
