"""A node that starts while its PostgreSQL server can't be used: it waits where that can help, else says what to do."""

import asyncio
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import pytest

from tests.integration.cli.conftest import Program, stop
from tests.integration.stores.conftest import Networked
from tests.programs.forked import PROGRAM
from tests.servers.postgres import Server

SESSIONS = 12


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """The program, at home in a folder."""
    return Program(tmp_path)


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of this test's own, with a database and few sessions."""
    server = Server(settings={"max_connections": str(SESSIONS), "hot_standby": "off"})
    server.make("jobs")
    yield server
    server.remove()


@contextmanager
def node_on(program: Program, url: str) -> Iterator[Callable[[], str]]:
    """A node on this store; what it says, line by line. In the end it must stop as it should."""
    node = subprocess.Popen(
        [str(PROGRAM), "serve", "--no-http", "--store", url],
        cwd=program.home,
        env=program.environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert node.stdout is not None
    try:
        yield node.stdout.readline
        assert stop(node) == 0
    finally:
        node.kill()
        node.wait()


def test_a_server_that_is_down_is_waited_for(program: Program, server: Server) -> None:
    """A node that starts before its server works as soon as that is there."""
    server.stop()
    with node_on(program, server.url("jobs")) as says:
        waits = says()
        assert waits.startswith("Waiting for the store: ")
        assert "check that the server runs" in waits
        server.start()
        assert "runs jobs" in says()


def test_a_server_that_is_starting_is_waited_for(program: Program, server: Server) -> None:
    """A server that still recovers answers, but does not work yet: a node waits until it does."""
    server.stop()
    (server.folder / "data" / "standby.signal").touch()
    server.start(wait=False)
    wait_until_recovering(server)
    with node_on(program, server.url("jobs")) as says:
        assert "is being stopped, started or restored" in says()
        promote(server)
        assert "runs jobs" in says()


def wait_until_recovering(server: Server) -> None:
    """Wait until the server answers that it does not work yet."""
    answer = ""
    while "not accepting connections" not in answer:
        time.sleep(0.05)
        try:
            server.sql("SELECT 1")
        except subprocess.CalledProcessError as refusal:
            answer = refusal.stderr


def promote(server: Server) -> None:
    """Let a standby become a server of its own."""
    (server.folder / "data" / "promote").touch()
    server.process.send_signal(signal.SIGUSR1)
    server.wait()


def test_a_server_without_free_sessions_is_waited_for(program: Program, server: Server) -> None:
    """A node that gets no session works as soon as others have left theirs."""

    async def crowd() -> None:
        others = [await asyncpg.connect(server.url("jobs")) for _ in range(SESSIONS)]
        with node_on(program, server.url("jobs")) as says:
            waits = await asyncio.to_thread(says)
            assert "needs more connections" in waits
            for other in others:
                await other.close()
            assert "runs jobs" in await asyncio.to_thread(says)

    asyncio.run(crowd())


@pytest.mark.parametrize(
    ("terms", "advice"),
    [
        ({"password": "lion"}, "check user and password in the URL"),
        ({"user": "nobody"}, "check user and password in the URL"),
        ({"database": "missing"}, "make it with `createdb`"),
        ({"database": "barred"}, "GRANT it CREATE and USAGE"),
        ({"query": "?sslmode=require"}, "set up TLS on the server, or say sslmode=prefer"),
        ({"user": "stern"}, "say sslmode=require"),
    ],
)
def test_what_only_a_person_can_mend_ends_a_node(
    program: Program, networked: Networked, terms: dict[str, str], advice: str
) -> None:
    """A node that no waiting would help exits 2 and says what to do, in the background too, and tells no password."""
    for line in ("serve --no-http", "serve -d --no-http"):
        error = program.error(*line.split(), "--store", networked.url(**terms))
        assert error["code"] == "store_error"
        assert advice in error["message"]
        assert "tiger" not in error["message"]
