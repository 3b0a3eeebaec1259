"""Somebody holds the lock of an SQLite store: running work goes on, and firing catches up."""

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.cluster.accounts import finish, prepare, read
from tests.cluster.checker import check
from tests.cluster.fleet import Fleet
from tokimori.clock import Moment, SystemClock
from tokimori.model.lease import DEAD_AFTER

JOBS = 10
AWAY = DEAD_AFTER + 2
"""Seconds: longer than a lease."""


def hold(fleet: Fleet, seconds: float) -> tuple[Moment, Moment]:
    """Nobody else writes for so long; from when to when."""
    with closing(sqlite3.connect(fleet.file, timeout=10, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        since = SystemClock().now()
        time.sleep(seconds)
        connection.execute("ROLLBACK")
        return since, SystemClock().now()


@pytest.mark.prove
def test_work_goes_on_and_firing_catches_up(tmp_path: Path) -> None:
    """What runs when the store goes away runs to its end, and later each missed second is made good by one run."""
    fleet = Fleet(tmp_path)
    asyncio.run(prepare(fleet, JOBS))
    try:
        node = fleet.start_node()
        fleet.wait_until_up()
        time.sleep(4)
        since, until = hold(fleet, AWAY)
        time.sleep(4)
        end = asyncio.run(finish(fleet, JOBS, patience=20))
        alive = node.poll() is None
        codes = fleet.stop()
    finally:
        fleet.stop(5)
    history = asyncio.run(read(fleet, JOBS, end))
    assert check(history) == []
    assert (alive, codes) == (True, [0])
    runs = [run for ledger in history.ledgers for run in ledger.runs]
    missed = [run for run in runs if since < run.nominal < until]
    assert len(missed) >= JOBS * (AWAY - 2)
    assert min(run.created for run in missed if run.nominal > since + 2_000_000) >= until
    running = [run for run in runs if run.started and run.ended and run.started < since < run.ended]
    assert running, "nothing was at work when the store went away"
    assert {(run.state.value, run.attempt, run.lost) for run in running} == {("succeeded", 1, 0)}
