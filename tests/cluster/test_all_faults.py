"""Three nodes on one server, and every fault at once: killed, frozen, cut off, the server restarted."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.accounts import finish, prepare, read, report
from tests.cluster.checker import check, take_overs
from tests.cluster.fleet import Fleet
from tests.servers import mariadb, redis
from tokimori.node.node import LONGEST_SLEEP

JOBS = 50
CUTS = 3


Server = redis.Server | mariadb.Server


@pytest.fixture(params=["redis", "mariadb"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server of this test's own, which writes before it answers."""
    server = redis.Server() if request.param == "redis" else mariadb.Server(durable=True)
    yield server
    server.remove()


def url_of(server: Server) -> str:
    """The URL of an empty store there."""
    return server.url() if isinstance(server, redis.Server) else server.make("fleet")


def cut(server: Server, seconds: float) -> None:
    """End all connections of the fleet, several times."""
    for _ in range(CUTS):
        if isinstance(server, redis.Server):
            server.command("CLIENT", "KILL", "TYPE", "normal")
            server.command("CLIENT", "KILL", "TYPE", "pubsub")
        else:
            server.end_sessions(100)
        time.sleep(seconds / CUTS)


def restart(server: Server) -> None:
    """Stop the server as a crash does, and start it again a second later."""
    server.stop(9)
    time.sleep(1)
    server.start()


def prove(server: Server, folder: Path, seconds: int) -> None:
    """Run the fleet with all faults, and check what is left. Take-over counts from the last of them."""
    fleet = Fleet(folder, url_of(server))
    asyncio.run(prepare(fleet, JOBS))
    try:
        first, second, _ = (fleet.start_node() for _ in range(3))
        fleet.wait_until_up()
        time.sleep(2)
        fleet.wait_until_it_runs(first)
        fleet.freeze(first)
        cut(server, 3)
        fleet.kill(second)
        restart(server)
        time.sleep(LONGEST_SLEEP)  # a node that found the server away looks again by then
        for silent in (first, second):  # as long as nobody reaches the server nobody can tell
            fleet.note_silence(silent)
        time.sleep(seconds - 10)
        fleet.thaw(first)
        time.sleep(2)
        end = asyncio.run(finish(fleet, JOBS, patience=30))
        codes = fleet.stop()
    finally:
        fleet.stop(5)
    history = asyncio.run(read(fleet, JOBS, end))
    assert check(history) == []
    assert codes == [0, 0]
    assert fleet.left_over() == []
    assert sum(len(ledger.runs) for ledger in history.ledgers) >= JOBS * (seconds - 2)
    assert take_overs(history)
    report(history)


def test_all_faults_together_lose_and_double_nothing(server: Server, tmp_path: Path) -> None:
    """Every occurrence is one run, whatever happens to nodes, connections and server."""
    prove(server, tmp_path, seconds=20)


@pytest.mark.prove
@pytest.mark.timeout(240)
def test_a_minute_of_all_faults_together_loses_and_doubles_nothing(server: Server, tmp_path: Path) -> None:
    """Every occurrence of a minute is one run."""
    prove(server, tmp_path, seconds=60)
