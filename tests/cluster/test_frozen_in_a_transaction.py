"""A node that is stopped in the middle of a transaction: the server ends that, and nobody else is stopped.

Only the way behind a pooler has transactions of several messages; a node without a pooler never leaves one open.
"""

import asyncio
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.accounts import finish, prepare, read
from tests.cluster.checker import History, check
from tests.cluster.fleet import Fleet
from tests.servers.postgres import Server
from tokimori.clock import SECOND, Moment, SystemClock

JOBS = 50
HOLDS = 3 + 2
"""Seconds: what the server gives an idle transaction, and what a busy machine adds."""
_IDLE = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = 'fleet' AND state = 'idle in transaction' AND query LIKE '%tokimori_%'
"""


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of this test's own."""
    server = Server()
    yield server
    server.remove()


def idle_transactions(server: Server) -> int:
    """How many transactions hold locks and do nothing."""
    return int(server.sql(_IDLE))


def freeze_in_a_transaction(fleet: Fleet, node: "subprocess.Popen[bytes]", server: Server) -> Moment:
    """Stop the node between a statement and its COMMIT: again and again, until it happens. When it did."""
    for _ in range(1000):
        fleet.freeze(node)
        if idle_transactions(server):
            return SystemClock().now()
        fleet.thaw(node)
        fleet.silences.clear()
        time.sleep(0.02)
    raise AssertionError("the node is never in the middle of a transaction")


def late_runs(history: History, since: Moment, until: Moment) -> list[float]:
    """By how many seconds runs began late that were due in this time, without those that the frozen node had taken."""
    runs = [run for ledger in history.ledgers for run in ledger.runs if since <= run.nominal < until]
    started = [(run.started - run.nominal) / SECOND for run in runs if run.started and run.id not in history.attempts]
    return [late for late in started if late > HOLDS]


@pytest.mark.prove
def test_a_node_frozen_in_a_transaction_stops_nobody(server: Server, tmp_path: Path) -> None:
    """What it has locked is free again after three seconds; the others fire, claim and edit meanwhile or soon after."""
    fleet = Fleet(tmp_path, server.make("fleet"))
    asyncio.run(prepare(fleet, JOBS, writers=JOBS))
    try:
        node = fleet.start_node(url=f"{fleet.url}&statement_cache_size=0")
        fleet.start_node()
        fleet.wait_until_up()
        time.sleep(1)
        frozen = freeze_in_a_transaction(fleet, node, server)
        time.sleep(HOLDS)
        assert idle_transactions(server) == 0
        time.sleep(7)
        end = asyncio.run(finish(fleet, JOBS, patience=30))
        codes = fleet.stop()
    finally:
        fleet.stop(5)
    history = asyncio.run(read(fleet, JOBS, end))
    assert check(history) == []
    assert late_runs(history, frozen, min(end.asked.values())) == []
    assert codes == [0, 0]
