"""Backups of servers while nodes work: ours, and those of the servers' own tools, as the manual says them."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cli.conftest import Program
from tests.integration.manual.reading import MANUAL, blocks, free_port
from tests.programs.forked import PROGRAM, Started
from tests.servers import mariadb, postgres, redis

Loans = postgres.Loans | mariadb.Loans | redis.Loans
LOANS: dict[str, Loans] = {"postgres": postgres.loans, "mariadb": mariadb.loans, "redis": redis.loans}

NODES: list[Started] = []
"""Nodes that a test has started."""


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    """`tokimori` in a folder of its own; what it serves ends with the test."""
    home = tmp_path / "home"
    home.mkdir()
    yield Program(home)
    for each in NODES:
        kill(each)
    NODES.clear()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Program]:
    """Another machine, with an empty SQLite store."""
    program = Program(tmp_path / "other")
    program.home.mkdir()
    yield program
    for kind in LOANS:
        give_back(kind, tmp_path / "other")


def give_back(kind: str, folder: Path) -> None:
    """Give a database back, if it was lent."""
    if folder in LOANS[kind]._lent:
        LOANS[kind].give_back(folder)


def busy(program: Program) -> Started:
    """A node with a job every second, and a run that runs for a minute; at work when this returns."""
    NODES.append(node := program.serve())
    program("job", "add", "tick", "--noop", "--schedule", "* * * * * *", "--misfire", "all", "--on-overlap", "queue")
    program("job", "add", "long", "--command", "sleep 60", "--lost-attempts", "3")
    program("job", "add", "once", "--command", "sleep 60", "--lost-attempts", "0")
    for name in ("long", "once"):
        program("job", "trigger", name)
    until = time.monotonic() + 30
    while len(program.json("run", "list", "--state", "running")) < 2 or not program.json(
        "run", "list", "--job", "tick"
    ):
        assert time.monotonic() < until
        time.sleep(0.1)
    return node


def check_restored(program: Program, seconds: float = 40) -> None:
    """A node goes on there: what ran is lost by its rules, nothing is missed, and all fits."""
    NODES.append(node := program.serve())
    until = time.monotonic() + seconds
    while (
        program.json("run", "list", "--job", "once")[0]["state"] == "running"
        or program.json("run", "list", "--job", "long")[0]["attempt"] < 2
    ):
        assert time.monotonic() < until, program("run", "list")
        time.sleep(0.2)
    (once,) = program.json("run", "list", "--job", "once")
    assert (once["state"], once["attempt"]) == ("failed", 1)
    time.sleep(1)
    assert "all of them fit" in program.run("verify").stdout
    program("job", "pause", "tick")
    kill(node)


@pytest.mark.prove
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("kind", "target"), [("postgres", "sqlite"), ("mariadb", "postgres"), ("postgres", "redis")])
def test_a_backup_of_a_server_beside_a_node(program: Program, other: Program, kind: str, target: str) -> None:
    """It is of one moment, while a node fires and runs, and goes into a store of any kind."""
    program.environment["TOKIMORI_STORE"] = LOANS[kind].url_of(program.home)
    if target != "sqlite":
        other.environment["TOKIMORI_STORE"] = LOANS[target].url_of(other.home)
    try:
        node = busy(program)
        program.run("backup", "b.db")
        backup = str(program.home / "b.db")
        assert "works there" in program.error("restore", backup)["message"]
        assert "works on it" in program.error("db", "retire")["message"]
        assert "restored: 3 jobs" in other.run("restore", backup).stdout
        kill(node)
        other.run("db", "retire")
        assert "retired" in other.error("job", "list")["message"]
        other.run("db", "retire", "--undo")
        check_restored(other)
    finally:
        give_back(kind, program.home)


def kill(node: Started) -> None:
    """End it without a farewell."""
    if node.poll() is None:
        node.kill()
        node.communicate()


def on_page(word: str) -> list[str]:
    """The commands of the manual's block that begins so, without the restore into the same store."""
    (found,) = (each.text for each in blocks(MANUAL / "how-to/backup.md") if each.text.startswith(f"$ {word}"))
    typed = [line.removeprefix("$ ") for line in found.splitlines() if line.startswith("$ ")]
    return [each for each in typed if not each.startswith("tokimori restore")]


@pytest.mark.prove
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["postgres", "mariadb", "redis"])
def test_the_tools_of_the_server_beside_a_node(program: Program, other: Program, kind: str) -> None:
    """What the manual says is typed while a node works: another node goes on with what they wrote."""
    folder = program.home
    server: postgres.Server | mariadb.Server | redis.Server
    match kind:
        case "postgres":
            server = postgres.Server()
            program.environment["TOKIMORI_STORE"] = server.make("tokimori")
            other.environment["TOKIMORI_STORE"] = server.make("restored")
            known = {
                f"postgresql://tokimori:secret@db:5432/{name}": server.url(name) for name in ("tokimori", "restored")
            }
            words = on_page("pg_dump")
        case "mariadb":
            server = mariadb.Server()
            program.environment["TOKIMORI_STORE"] = server.make("tokimori")
            other.environment["TOKIMORI_STORE"] = server.make("restored")
            known = {"--host=db --user=tokimori --password=secret": f"--socket={server.socket} --user=root"}
            words = on_page("mariadb-dump")
        case _:
            server = redis.Server(port=free_port())
            program.environment["TOKIMORI_STORE"] = f"redis://127.0.0.1:{server.port}"
            known = {"//db:6379": f"//127.0.0.1:{server.port}", "6390": str(free_port())}
            words = on_page("redis-cli")
    try:
        node = busy(program)
        for command in words:
            for there, here in known.items():
                command = command.replace(there, f"'{here}'" if "?" in here else here)  # noqa: PLW2901
            if command.endswith(" ping"):  # a person looks again, too, until the server is up
                command = f"until {command}; do sleep 0.1; done"  # noqa: PLW2901
            path = f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"
            done = subprocess.run(
                ["sh", "-c", command],
                cwd=folder,
                env=program.environment | {"PATH": path},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, (command, done.stderr)
        kill(node)
        if kind == "redis":
            other.run("restore", str(folder / "redis.db"))
        check_restored(other)
    finally:
        server.remove()
