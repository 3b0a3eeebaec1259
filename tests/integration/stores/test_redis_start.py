"""A node on Redis waits for a server that is away, tells what it can't promise, and outlives its restart."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cli.conftest import Program, stop
from tests.programs.forked import PROGRAM
from tests.servers.redis import FORGETFUL, Server

SOON = 30.0
"""Seconds: far more than a node takes, for a busy machine."""


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that keeps nothing, and asks for a password."""
    server = Server(FORGETFUL | {"requirepass": "tiger"})
    yield server
    server.remove()


@pytest.fixture
def program(tmp_path: Path, server: Server) -> Program:
    """The program, with its store on that server."""
    program = Program(tmp_path)
    program.environment["TOKIMORI_STORE"] = server.url().replace("//", "//:tiger@", 1)
    return program


@pytest.fixture
def node(program: Program, server: Server) -> Iterator[Path]:
    """A node that was started while the server was down; where it writes what it says."""
    server.stop()
    said = program.home / "said"
    with said.open("wb") as file:
        node = subprocess.Popen(
            [str(PROGRAM), "serve", "--no-http"], cwd=program.home, env=program.environment, stdout=file, stderr=file
        )
    try:
        wait_until("Waiting for the store", said)
        server.start()
        wait_until("runs jobs", said)
        yield said
        assert stop(node) == 0  # type: ignore[arg-type]
    finally:
        node.kill()
        node.wait()


def wait_until(words: str, said: Path) -> None:
    """Wait until the node has said so."""
    end = time.monotonic() + SOON
    while words not in said.read_text():
        assert time.monotonic() < end, said.read_text()
        time.sleep(0.05)


def ended_runs(program: Program, job: str) -> int:
    """How many runs of the job have succeeded."""
    return sum(run["state"] == "succeeded" for run in program.json("run", "list", "--job", job))


def test_a_node_works_and_outlives_a_server_that_forgets(program: Program, server: Server, node: Path) -> None:
    """Commands run; a server that lost everything is left alone until somebody says it is new; then work goes on."""
    assert "appendonly = no" in node.read_text()
    program("job", "add", "hello", "--command", "echo hello")
    program("run", "show", program.json("job", "trigger", "hello", "--wait")["id"])
    assert ended_runs(program, "hello") == 1
    server.stop(9)
    server.start()
    wait_until("holds no keys of Tokimori, or lost them", node)
    program("db", "migrate")
    while not program.json("node", "list"):
        time.sleep(0.05)
    program("job", "add", "again", "--command", "echo again")
    program("job", "trigger", "again", "--wait")
    assert ended_runs(program, "again") == 1


@pytest.mark.parametrize("line", ["serve --no-http", "job list", "db status"])
def test_what_only_a_person_can_mend_exits_2(program: Program, server: Server, line: str) -> None:
    """A wrong password ends a node and a command alike, with what to do, and without the password."""
    url = program.environment["TOKIMORI_STORE"].replace("tiger", "lion")
    error = program.error(*line.split(), "--store", url)
    assert error["code"] == "store_error"
    assert "check user and password in the URL" in error["message"]
    assert "lion" not in error["message"]
