"""W1: how fast 10,000 due no-ops are claimed, started and settled on SQLite, where every commit is durable."""

import asyncio
import logging
import sqlite3
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import sqlite_limit
from benchmarks.apscheduler_peer import APSCHEDULER, on_executed, until_done, with_jobs_due
from benchmarks.comparison import TOKIMORI, AtLeast, Figures, Quantity, Trial, Workload
from benchmarks.in_process_node import CONCURRENCY, LOOK_EVERY, drain, fill, is_empty, store_url
from benchmarks.rounds import in_turn
from tokimori.model.job import Definition
from tokimori.model.target import Noop

if TYPE_CHECKING:
    from huey import SqliteHuey

RATE = "drained"
HUEY_PROCESSES, HUEY_THREADS = "Huey, 2 processes", "Huey, 4 threads"
LIMIT, ONE_BY_ONE = "bare sqlite3, in batches", "bare sqlite3, one by one"
TIMES_HUEY = 4


def tokimori(runs: int, folder: Path) -> Figures:
    """Claims in batches, keeps every run with its start and end."""
    asyncio.run(fill(store_url(folder), Definition(target=Noop()), runs))
    return {RATE: runs / asyncio.run(drain(store_url(folder), folder, runs, CONCURRENCY)).seconds}


def huey(runs: int, kind: str, workers: int, folder: Path) -> Figures:
    """Takes tasks one by one, and forgets them: `fsync=True` makes each of the commits durable."""
    from huey import SqliteHuey

    logging.disable(logging.CRITICAL)  # it would log two lines a task
    filename = str(folder / "huey.db")
    _fill_huey(SqliteHuey(filename=filename, fsync=False), runs)
    durable = SqliteHuey(filename=filename, fsync=True)
    durable.task(name="noop")(_nothing)
    consumer = durable.create_consumer(workers=workers, worker_type=kind, periodic=False)
    db = sqlite3.connect(filename)
    began = time.perf_counter()
    consumer.start()
    while not is_empty(db, "task"):
        time.sleep(LOOK_EVERY)
    seconds = time.perf_counter() - began
    consumer.stop(graceful=True)
    return {RATE: runs / seconds}


def _fill_huey(huey: "SqliteHuey", runs: int) -> None:
    noop = huey.task(name="noop")(_nothing)
    for _ in range(runs):
        noop()


def _nothing() -> None:
    pass


def apscheduler(runs: int, folder: Path) -> Figures:
    """Runs one-time jobs on a thread pool; each is removed from the store when it is handed to the pool."""
    scheduler = with_jobs_due(folder, runs, datetime.now(UTC))
    executed: list[object] = []
    on_executed(scheduler, executed.append)
    began = time.perf_counter()
    scheduler.start()
    until_done(folder, executed, runs)
    seconds = time.perf_counter() - began
    scheduler.shutdown()
    return {RATE: runs / seconds}


def limit(runs: int, batch: int, folder: Path) -> Figures:
    """The same durability with nothing kept but a state, in one thread: two commits a batch."""
    db = sqlite_limit.filled(folder, runs)
    began = time.perf_counter()
    while claimed := sqlite_limit.claim(db, batch):
        sqlite_limit.complete(db, claimed)
    seconds = time.perf_counter() - began
    db.close()
    return {RATE: runs / seconds}


def trials(quick: bool) -> Sequence[Trial]:
    """One trial."""
    runs = 2_000 if quick else 10_000
    contenders = {
        TOKIMORI: partial(tokimori, runs),
        HUEY_PROCESSES: partial(huey, runs, "process", 2),
        HUEY_THREADS: partial(huey, runs, "thread", 4),
        APSCHEDULER: partial(apscheduler, runs),
        LIMIT: partial(limit, runs, sqlite_limit.BATCH),
        ONE_BY_ONE: partial(limit, runs // 10, 1),
    }
    return [
        Trial(
            title=f"drain of {runs:,} due no-ops, SQLite, synchronous=FULL",
            quantities=[Quantity(RATE, "runs/s", more=True)],
            targets=[AtLeast(RATE, huey, TIMES_HUEY) for huey in (HUEY_PROCESSES, HUEY_THREADS)],
            measure=in_turn(contenders),
        )
    ]


WORKLOAD = Workload("W1", "drain of due no-ops", trials)
