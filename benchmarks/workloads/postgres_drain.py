"""W2: how fast 10,000 due no-ops are claimed, started and settled on one PostgreSQL server, every commit durable."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.comparison import TOKIMORI, AtLeast, Figures, Quantity, Trial, Workload
from benchmarks.in_process_node import CONCURRENCY, drain, fill
from benchmarks.postgres_peers.program import Drained
from benchmarks.postgres_server import on_one_server, settle_down, spent
from benchmarks.programs import ROOT, Program, absent, node_program, python_program
from tokimori.model.job import Definition
from tokimori.model.target import Noop

RATE, OWN_CPU, SERVER_CPU, WAL = "drained", "own CPU", "server CPU", "log written"
QUANTITIES = (
    Quantity(RATE, "runs/s", more=True),
    Quantity(OWN_CPU, "µs/run"),
    Quantity(SERVER_CPU, "µs/run"),
    Quantity(WAL, "bytes/run"),
)
APSCHEDULER_4_PYTHON = ROOT / ".venv-bench-apscheduler4/bin/python"

APSCHEDULER_3, PROCRASTINATE, PGQUEUER = "APScheduler 3", "Procrastinate", "PgQueuer, batches of 500"
APSCHEDULER_4 = "APScheduler 4"
GRAPHILE_WORKER = "graphile-worker"
ONE_BY_ONE = (PROCRASTINATE, APSCHEDULER_3, APSCHEDULER_4, GRAPHILE_WORKER)
FEW = 500
"""They commit each run alone, so that their rate does not rise with more runs: so many are enough to tell it."""
AT_LEAST: Mapping[str, float] = {APSCHEDULER_3: 8, PROCRASTINATE: 15, PGQUEUER: 1.3}


PROGRAMS: Mapping[str, Program] = {
    PGQUEUER: python_program("postgres_peers.pgqueuer_worker"),
    PROCRASTINATE: python_program("postgres_peers.procrastinate_worker"),
    APSCHEDULER_3: python_program("apscheduler_on_a_server"),
    APSCHEDULER_4: python_program("postgres_peers.apscheduler4", runner=APSCHEDULER_4_PYTHON),
    "graphile-worker, batched": node_program("postgres_peers/graphile_worker.mjs", "batched"),
    GRAPHILE_WORKER: node_program("postgres_peers/graphile_worker.mjs", "default"),
    "pg-boss, batches of 500": node_program("postgres_peers/pg_boss.mjs"),
    "bare asyncpg, batches of 500": python_program("postgres_peers.bare_asyncpg"),
}


def tokimori(runs: int, url: str, folder: Path) -> Figures:
    """Claims in batches, keeps every run with its start and end."""
    asyncio.run(fill(url, Definition(target=Noop()), runs))
    return figures(url, runs, lambda: asyncio.run(drain(url, folder, runs, CONCURRENCY)))


def peer(program: Program, runs: int, url: str, _: Path) -> Figures:
    """Its own API stores the runs, its own worker ends them; its docstring says with which settings, and why these."""
    program.call("fill", url, runs)
    return figures(url, runs, lambda: program.drained(url, runs))


def figures(url: str, runs: int, drain: Callable[[], Drained]) -> Figures:
    """Beside the rate, what a run costs: it tells what limits the rate. The server is watched from outside."""
    settle_down(url)
    before = spent(url)
    drained = drain()
    after = spent(url)
    return {
        RATE: runs / drained.seconds,
        OWN_CPU: drained.cpu / runs * 1e6,
        SERVER_CPU: (after.cpu - before.cpu) / runs * 1e6,
        WAL: (after.wal - before.wal) / runs,
    }


def trials(quick: bool) -> Sequence[Trial]:
    """One trial."""
    runs = 2_000 if quick else 10_000
    missing = absent(PROGRAMS)
    peers = {
        name: partial(peer, program, FEW if name in ONE_BY_ONE else runs)
        for name, program in PROGRAMS.items()
        if name not in missing
    }
    return [
        Trial(
            title=f"drain of {runs:,} due no-ops, PostgreSQL, fsync and synchronous_commit on",
            quantities=QUANTITIES,
            targets=[AtLeast(RATE, name, times) for name, times in AT_LEAST.items() if name in peers],
            measure=on_one_server({TOKIMORI: partial(tokimori, runs), **peers}),
            absent=missing,
        )
    ]


WORKLOAD = Workload("W2", "drain of due no-ops on PostgreSQL", trials)
