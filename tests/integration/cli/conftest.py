"""The real program, in processes of its own, on SQLite."""

import json
import signal
import sqlite3
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.programs import forked
from tests.programs.forked import Started
from tests.servers import mariadb, postgres, redis


class Program:
    """`tokimori` at home in one folder: its store, its state, and no settings of anybody else's."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.database = home / "t.db"
        self.environment = {
            "HOME": str(home),
            **forked.BARE,
            "TOKIMORI_STORE": f"sqlite://{self.database}",
            "TOKIMORI_STATE_DIR": str(home / "state"),
        }

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """What it prints; it must end with this exit code, and print errors if and only if that is above 1."""
        ended = self.run(*arguments)
        assert ended.returncode == code, ended.stderr
        assert bool(ended.stderr) == (code > 1), ended.stderr
        return ended.stdout

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """However it ends."""
        return forked.run(arguments, cwd=self.home, env=self.environment, timeout=60)

    def start(self, *arguments: str) -> Started:
        """The program at work; nobody reads what it prints."""
        nobody = subprocess.DEVNULL
        return Started(arguments, cwd=self.home, env=self.environment, stdout=nobody, stderr=nobody)

    def json(self, *arguments: str, code: int = 0) -> Any:
        """What it prints as JSON."""
        return json.loads(self("--json", *arguments, code=code))

    def error(self, *arguments: str, code: int = 2) -> dict[str, Any]:
        """The error as which it ends, as JSON."""
        ended = self.run("--json", *arguments)
        assert (ended.returncode, ended.stdout) == (code, ""), ended.stderr
        found: dict[str, Any] = json.loads(ended.stderr)["error"]
        assert set(found) == {"code", "message", "field", "value", "allowed"}
        return found

    def contents(self) -> list[str]:
        """Everything in the store."""
        if not self.database.exists():
            return []
        connection = sqlite3.connect(self.database)
        try:
            return list(connection.iterdump())
        finally:
            connection.close()

    def serve(self) -> Started:
        """A node without HTTP, at work when this returns."""
        node = Started(["serve", "--no-http"], cwd=self.home, env=self.environment, stdout=subprocess.PIPE)
        assert node.stdout is not None
        assert node.stdout.readline()
        return node


def stop(node: "Started | subprocess.Popen[str]") -> int:
    """End the node politely; its exit code."""
    node.send_signal(signal.SIGTERM)
    try:
        node.communicate(timeout=30)
    finally:
        node.kill()
        code = node.wait()
    return code


LOANS: Mapping[str, Any] = {"postgres": postgres.loans, "mariadb": mariadb.loans, "redis": redis.loans}


@contextmanager
def lent(program: Program, store: str) -> Iterator[None]:
    """The program uses a store of this kind meanwhile: SQLite is its own, others are lent to it."""
    if store == "sqlite":
        yield
        return
    program.environment["TOKIMORI_STORE"] = LOANS[store].url_of(program.home)
    try:
        yield
    finally:
        LOANS[store].give_back(program.home)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """One on a store of its own."""
    return Program(tmp_path)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """One beside a node that works."""
    program = Program(tmp_path_factory.mktemp("served"))
    node = program.serve()
    yield program
    assert stop(node) == 0
