"""`tokimori lock` in processes of its own, several on one store."""

import fcntl
import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.programs import forked
from tests.programs.forked import BARE, PROGRAM
from tests.servers import mariadb, postgres, redis

PATIENCE = 60.0
"""Seconds after which a test gives up."""


class Loans(Protocol):
    """A server's databases, lent to tests."""

    def url_of(self, folder: Path) -> str:
        """The database that stands for a folder."""
        ...

    def give_back(self, folder: Path) -> None:
        """Empty it."""
        ...


class Programs:
    """They share a store, and a file of lines: what is appended there stands in the order in which it happened."""

    def __init__(self, home: Path, url: str) -> None:
        self.home = home
        self.lines_file = home / "lines"
        self.started: list[subprocess.Popen[str]] = []
        self.environment = {
            "HOME": str(home),
            **BARE,
            "TOKIMORI_STORE": url,
            "TOKIMORI_STATE_DIR": str(home / "state"),
        }

    def tokimori(self, *arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
        """It runs to its end."""
        return forked.run(arguments, cwd=self.home, env=self.environment | more, timeout=PATIENCE)

    def start(self, *line: str) -> "subprocess.Popen[str]":
        """A program at work, in a group of its own as a shell has it; what it says is kept."""
        program = subprocess.Popen(
            ("env", "--default-signal", *line),  # a shell's background job ignores INT, and nohup's HUP
            cwd=self.home,
            env=self.environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
        )
        self.started.append(program)
        return program

    def lock(self, name: str, shell: str, *options: str) -> "subprocess.Popen[str]":
        """`tokimori lock` at work."""
        return self.start(str(PROGRAM), "lock", name, *options, "--", "sh", "-c", shell)

    def note(self, nap: str, word: str = "$$") -> str:
        """What a command does that tells when it began and when it ended."""
        return f'echo "+ {word}" >> {self.lines_file}; {nap}; echo "- {word}" >> {self.lines_file}'

    def lines(self) -> list[list[str]]:
        """What was told so far."""
        if not self.lines_file.exists():
            return []
        return [line.split() for line in self.lines_file.read_text().splitlines()]

    def await_line(self, number: int) -> list[str]:
        """The line of this number, as soon as it is there."""
        self.until(lambda: len(self.lines()) > number)
        return self.lines()[number]

    def semaphore(self, name: str) -> dict[str, Any]:
        """As `lock list` shows it."""
        shown = self.tokimori("--json", "lock", "list")
        assert shown.returncode == 0, shown.stderr
        (found,) = [each for each in json.loads(shown.stdout) if each["name"] == name]
        return dict(found)

    def freeze(self, program: "subprocess.Popen[str]") -> None:
        """Stop a program, but not while it writes: frozen then, it would stop all that write to its file."""
        lock = self.home / "t.db-lock"
        if not lock.exists():
            program.send_signal(signal.SIGSTOP)
            return
        with lock.open() as ours:  # who writes has this one first
            fcntl.flock(ours, fcntl.LOCK_EX)
            program.send_signal(signal.SIGSTOP)

    @staticmethod
    def until(holds: Callable[[], bool], patience: float = PATIENCE) -> float:
        """Wait; the seconds that it took."""
        began = time.monotonic()
        while not holds():
            assert time.monotonic() < began + patience, "it took too long"
            time.sleep(0.02)
        return time.monotonic() - began

    def close(self) -> None:
        """End what is left."""
        for program in self.started:
            if program.poll() is None:
                with suppress(ProcessLookupError):
                    program.send_signal(signal.SIGKILL)
                    program.send_signal(signal.SIGCONT)
            program.communicate()


def most_at_once(lines: list[list[str]]) -> int:
    """How many were within at a time."""
    within = most = 0
    for sign, *_ in lines:
        within += 1 if sign == "+" else -1
        most = max(most, within)
    assert within == 0
    return most


LOANS: dict[str, Loans] = {"postgres": postgres.loans, "mariadb": mariadb.loans, "redis": redis.loans}
STORES = ["sqlite", "postgres", *(pytest.param(name, marks=pytest.mark.prove) for name in ("mariadb", "redis"))]


@pytest.fixture(params=STORES)
def programs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Programs]:
    """Several programs on one store."""
    loans = LOANS.get(request.param)
    url = f"sqlite://{tmp_path}/t.db" if loans is None else loans.url_of(tmp_path)
    found = Programs(tmp_path, url)
    yield found
    found.close()
    if loans is not None:
        loans.give_back(tmp_path)
