"""Three nodes on a PostgreSQL server that ends sessions and is restarted: nothing is missed or doubled."""

import asyncio
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.accounts import finish, prepare, read
from tests.cluster.checker import check
from tests.cluster.fleet import Fleet
from tests.servers.postgres import Server

JOBS = 50
END_ONE_SESSION = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'fleet' ORDER BY random() LIMIT 1
"""


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of this test's own, which writes as durably as one in production."""
    server = Server(durable=True)
    yield server
    server.remove()


def end_sessions(server: Server, seconds: float) -> None:
    """End a random session of the fleet twice a second."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        server.sql(END_ONE_SESSION)
        time.sleep(0.5)


def restart(server: Server) -> None:
    """Stop the server as its administrator would, and start it again a second later."""
    server.stop(signal.SIGINT)
    time.sleep(1)
    server.start()


def prove(server: Server, folder: Path, seconds: int) -> None:
    """Run the fleet with both faults, and check what is left."""
    fleet = Fleet(folder, server.make("fleet"))
    asyncio.run(prepare(fleet, JOBS))
    try:
        for _ in range(3):
            fleet.start_node()
        fleet.wait_until_up()
        end_sessions(server, seconds / 2)
        restart(server)
        end_sessions(server, seconds / 2)
        asyncio.run(finish(fleet, JOBS, patience=30))
        codes = fleet.stop()
    finally:
        fleet.stop(5)
    ledgers, attempts = asyncio.run(read(fleet, JOBS))
    assert check(ledgers, attempts, fleet.start_lines(), deaths=[]) == []
    assert codes == [0, 0, 0]
    assert fleet.left_over() == []
    assert sum(len(ledger.runs) for ledger in ledgers) >= JOBS * (seconds - 2)


def test_ended_sessions_and_a_restart_lose_and_double_nothing(server: Server, tmp_path: Path) -> None:
    """Every occurrence is one run, whatever happens to the server and its sessions."""
    prove(server, tmp_path, seconds=16)


@pytest.mark.prove
@pytest.mark.timeout(240)
def test_a_minute_of_ended_sessions_and_a_restart_lose_and_double_nothing(server: Server, tmp_path: Path) -> None:
    """Every occurrence of a minute is one run."""
    prove(server, tmp_path, seconds=60)
