"""W18 and W19: how soon a program has the result of a run that it asks for, and how fast one process asks.

A worker process that idles ends each run of W18; nobody ends those of W19.
"""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.comparison import TOKIMORI, AtLeast, AtMost, Figures, Quantity, Trial, Workload
from benchmarks.in_process_node import store_url
from benchmarks.programs import PATIENCE, ROOT, Program, absent, node_program, python_program
from benchmarks.rounds import in_turn
from benchmarks.serving import running, wait_for_line
from benchmarks.store_servers import Place, StartServer, each_on_its_own, postgres_server, redis_server

ENQUEUE, TO_WAITER, RESULT = "enqueue", "end to waiter", "call to result"
LENGTHS = (ENQUEUE, TO_WAITER, RESULT)
APP = "benchmarks.function_app:app"
HUEY, CELERY, TASKIQ, DBOS = "Huey, 4 threads", "Celery, 4 threads", "taskiq, list", "DBOS"
ON_POSTGRES = {DBOS: "dbos", HUEY: "huey"}
ON_REDIS = {HUEY: "huey", CELERY: "celery", TASKIQ: "taskiq"}
ON_SQLITE = {HUEY: "huey", DBOS: "dbos"}
ENQUEUERS: Mapping[str, Program] = {
    TOKIMORI: python_program("enqueue_peers", "tokimori"),
    "Procrastinate": python_program("enqueue_peers", "procrastinate"),
    "PgQueuer": python_program("enqueue_peers", "pgqueuer"),
    "pg-boss": node_program("postgres_peers/pg_boss.mjs"),
}
RATE = "asked for"


def results(name: str, runs: int, place: Place, folder: Path) -> Figures:
    """Milliseconds as `handle_peers` prints them."""
    module = [sys.executable, "-m", "benchmarks.handle_peers"]
    work = [*module, "work", name, place.url]
    if name == "tokimori":
        options = ["--store", place.url, "--include", str(ROOT), "--processes", "1"]
        work = [sys.executable, "-m", "tokimori", "worker", APP, *options]
    with running(work, folder if name == "tokimori" else ROOT) as worker:
        wait_for_line(worker, "runs jobs" if name == "tokimori" else "up")
        ask = [*module, "ask", name, place.url, str(runs)]
        done = subprocess.run(ask, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, f"{ask} failed: {done.stderr}"
    lines = [[float(word) for word in line.split()] for line in done.stdout.splitlines()]
    columns = {length: sorted(column) for length, column in zip(LENGTHS, zip(*lines, strict=True), strict=True)}
    return {
        f"{length} {at}": column[len(column) * part // 100]
        for length, column in columns.items()
        for at, part in (("p50", 50), ("p99", 99))
    }


def _on_a_file(name: str, runs: int, folder: Path) -> Figures:
    return results(name, runs, Place(store_url(folder), 0), folder)


def _results(runs: int, where: str, start: StartServer | None, peers: Mapping[str, str], waiter: float) -> Trial:
    names = {TOKIMORI: "tokimori", **peers}
    return Trial(
        title=f"{runs} results asked for one by one, {where}, one worker process that idles",
        quantities=[Quantity(f"{length} {at}", "ms") for length in LENGTHS for at in ("p50", "p99")],
        targets=[
            AtMost(f"{TO_WAITER} p50", waiter),
            *([AtMost(f"{ENQUEUE} p50", 3)] if start is postgres_server else []),
            *(AtLeast(f"{RESULT} p50", peer, 1) for peer in peers if start is not redis_server or peer == TASKIQ),
        ],
        measure=in_turn({each: partial(_on_a_file, name, runs) for each, name in names.items()})
        if start is None
        else each_on_its_own(start, {each: partial(results, name, runs) for each, name in names.items()}),
    )


def asked(program: Program, runs: int, at_once: int, place: Place, _: Path) -> Figures:
    """Runs a second of one process that has its connections."""
    return {RATE: runs / float(program.call("enqueue", place.url, runs, at_once))}


def _asked(runs: int, at_once: int) -> Trial:
    missing = absent(ENQUEUERS)
    there = {name: program for name, program in ENQUEUERS.items() if name not in missing}
    how = "one by one" if at_once == 1 else f"{at_once} at a time"
    return Trial(
        title=f"{runs:,} runs asked for {how} by one process, PostgreSQL, fsync and synchronous_commit on",
        quantities=[Quantity(RATE, "runs/s", more=True)],
        targets=[AtLeast(RATE, name, 1) for name in there if name != TOKIMORI and at_once > 1],
        measure=each_on_its_own(
            postgres_server, {name: partial(asked, program, runs, at_once) for name, program in there.items()}
        ),
        absent=missing,
    )


def _handles(quick: bool) -> Sequence[Trial]:
    runs = 60 if quick else 200
    return [
        _results(runs, "PostgreSQL, fsync and synchronous_commit on", postgres_server, ON_POSTGRES, 10),
        _results(runs, "Redis, appendfsync always", redis_server, ON_REDIS, 10),
        _results(runs, "SQLite, synchronous=FULL", None, ON_SQLITE, 60),
    ]


def _enqueued(quick: bool) -> Sequence[Trial]:
    return [_asked(500 if quick else 2_000, 1), _asked(2_000 if quick else 10_000, 64)]


HANDLES = Workload("W18", "a result that is waited for", _handles)
ENQUEUED = Workload("W19", "requests a second of one process", _enqueued)
