"""Three nodes on a Redis server, and every fault at once: killed, frozen, cut off, the server restarted."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.accounts import finish, prepare, read, report
from tests.cluster.checker import check
from tests.cluster.fleet import Fleet
from tests.servers.redis import Server
from tokimori.clock import Moment, SystemClock

JOBS = 50
CUTS = 3


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of this test's own, which writes before it answers."""
    server = Server()
    yield server
    server.remove()


def cut(server: Server, seconds: float) -> None:
    """End all connections of the fleet, several times."""
    for _ in range(CUTS):
        server.command("CLIENT", "KILL", "TYPE", "normal")
        server.command("CLIENT", "KILL", "TYPE", "pubsub")
        time.sleep(seconds / CUTS)


def restart(server: Server) -> Moment:
    """Stop the server as a crash does, and start it again a second later; from when it answers."""
    server.stop(9)
    time.sleep(1)
    server.start()
    return SystemClock().now()


def prove(server: Server, folder: Path, seconds: int) -> None:
    """Run the fleet with all faults, and check what is left. Take-over counts from the last of them."""
    fleet = Fleet(folder, server.url())
    asyncio.run(prepare(fleet, JOBS))
    try:
        first, second, _ = (fleet.start_node() for _ in range(3))
        fleet.wait_until_up()
        time.sleep(2)
        deaths = [fleet.freeze(first)]
        cut(server, 3)
        deaths.append(fleet.kill(second))
        deaths.append(restart(server))
        time.sleep(seconds - 8)
        fleet.thaw(first)
        time.sleep(2)
        asyncio.run(finish(fleet, JOBS, patience=30))
        codes = fleet.stop()
    finally:
        fleet.stop(5)
    ledgers, attempts = asyncio.run(read(fleet, JOBS))
    assert check(ledgers, attempts, fleet.start_lines(), deaths=deaths) == []
    assert codes == [0, 0]
    assert fleet.left_over() == []
    assert sum(len(ledger.runs) for ledger in ledgers) >= JOBS * (seconds - 2)
    assert any(attempt.outcome == "lost" for rows in attempts.values() for attempt in rows)
    report(ledgers, attempts, deaths)


def test_all_faults_together_lose_and_double_nothing(server: Server, tmp_path: Path) -> None:
    """Every occurrence is one run, whatever happens to nodes, connections and server."""
    prove(server, tmp_path, seconds=20)


@pytest.mark.prove
@pytest.mark.timeout(240)
def test_a_minute_of_all_faults_together_loses_and_doubles_nothing(server: Server, tmp_path: Path) -> None:
    """Every occurrence of a minute is one run."""
    prove(server, tmp_path, seconds=60)
