"""W2: how fast 10,000 due no-ops are claimed, started and settled on one PostgreSQL server, every commit durable."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.comparison import TOKIMORI, AtLeast, Figures, Quantity, Trial, Workload
from benchmarks.in_process_node import CONCURRENCY, drain, fill
from benchmarks.postgres_peers.program import Drained
from benchmarks.postgres_server import on_one_server, settle_down, spent
from tokimori.model.job import Definition, Noop

RATE, OWN_CPU, SERVER_CPU, WAL = "drained", "own CPU", "server CPU", "log written"
QUANTITIES = (
    Quantity(RATE, "runs/s", more=True),
    Quantity(OWN_CPU, "µs/run"),
    Quantity(SERVER_CPU, "µs/run"),
    Quantity(WAL, "bytes/run"),
)
ROOT = Path(__file__).parents[2]
PEERS = "benchmarks/postgres_peers"
NODE = ROOT / "benchmarks/node_modules/.bin/node"
APSCHEDULER_4_PYTHON = ROOT / ".venv-bench-apscheduler4/bin/python"
PATIENCE = 900.0
"""Seconds that a peer may take."""

APSCHEDULER_3, PROCRASTINATE, PGQUEUER = "APScheduler 3", "Procrastinate", "PgQueuer, batches of 500"
APSCHEDULER_4 = "APScheduler 4"
GRAPHILE_WORKER = "graphile-worker"
ONE_BY_ONE = (PROCRASTINATE, APSCHEDULER_3, APSCHEDULER_4, GRAPHILE_WORKER)
FEW = 500
"""They commit each run alone, so that their rate does not rise with more runs: so many are enough to tell it."""
AT_LEAST: Mapping[str, float] = {APSCHEDULER_3: 8, PROCRASTINATE: 15, PGQUEUER: 1.3}


@dataclass(frozen=True, slots=True)
class Program:
    """A peer's program, to be called with `fill` or `drain`, a URL and a number of runs."""

    runner: Path
    arguments: Sequence[str]

    def call(self, verb: str, url: str, runs: int) -> str:
        """What it prints."""
        command = [str(self.runner), *self.arguments, verb, url, str(runs)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, f"{command} failed: {done.stderr}"
        return done.stdout

    def drained(self, url: str, runs: int) -> Drained:
        """What it says of its drain."""
        seconds, cpu = self.call("drain", url, runs).split()
        return Drained(float(seconds), float(cpu))


def _python(module: str, runner: Path = Path(sys.executable)) -> Program:
    return Program(runner, ("-m", f"{PEERS.replace('/', '.')}.{module}"))


def _node(*arguments: str) -> Program:
    return Program(NODE, (f"{PEERS}/{arguments[0]}", *arguments[1:]))


PROGRAMS: Mapping[str, Program] = {
    PGQUEUER: _python("pgqueuer_worker"),
    PROCRASTINATE: _python("procrastinate_worker"),
    APSCHEDULER_3: _python("apscheduler3"),
    APSCHEDULER_4: _python("apscheduler4", APSCHEDULER_4_PYTHON),
    "graphile-worker, batched": _node("graphile_worker.mjs", "batched"),
    GRAPHILE_WORKER: _node("graphile_worker.mjs", "default"),
    "pg-boss, batches of 500": _node("pg_boss.mjs"),
    "bare asyncpg, batches of 500": _python("bare_asyncpg"),
}


def tokimori(runs: int, url: str, folder: Path) -> Figures:
    """Claims in batches, keeps every run with its start and end."""
    asyncio.run(fill(url, Definition(target=Noop()), runs))
    return _figures(url, runs, lambda: asyncio.run(drain(url, folder, runs, CONCURRENCY)))


def peer(program: Program, runs: int, url: str, _: Path) -> Figures:
    """Its own API stores the runs, its own worker ends them; its docstring says with which settings, and why these."""
    program.call("fill", url, runs)
    return _figures(url, runs, lambda: program.drained(url, runs))


def _figures(url: str, runs: int, drain: Callable[[], Drained]) -> Figures:
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


def absent(programs: Mapping[str, Program]) -> Mapping[str, str]:
    """The peers that are not installed, and why."""
    return {
        name: f"{program.runner.relative_to(ROOT)} is missing; `make bench` installs it (Node: where there is npm)"
        for name, program in programs.items()
        if not program.runner.exists()
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
