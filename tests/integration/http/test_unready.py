"""What keeps a node from its work turns `/readyz` red within 15 s, and is named there."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.integration.apps.conftest import until
from tests.integration.cli.conftest import Program
from tests.integration.http.site import Site
from tests.servers import mariadb, postgres, redis

WITHIN = 15.0
"""Seconds from the fault to the answer."""
DOCTOR = 20.0
"""Seconds after which `tokimori doctor` has said so."""
STUBBORN = 'trap "" TERM; while :; do sleep 0.2; done'


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """One on a store of its own."""
    return Program(tmp_path)


class Node(Site):
    """A node that is killed at the end, however it is: what it is asked here is whether it is ready."""

    def __init__(self, program: Program, *command: str) -> None:
        self._log = program.home / "node.log"
        with self._log.open("w") as log:
            self.node = subprocess.Popen(
                [sys.executable, "-m", *command],
                env=program.environment | {"PYTHONPATH": str(Path(__file__).parents[3])},
                cwd=program.home,
                text=True,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self.node.stdout is not None
        told = ""
        while "http://" not in told:
            told = self.node.stdout.readline()
            assert told, self.log
        self.url = next(word for word in told.split() if word.startswith("http")).partition("?secret=")[0]

    def ready(self) -> tuple[int, str]:
        """The status of `/readyz`, and what it says."""
        try:
            with urllib.request.urlopen(f"{self.url}readyz", timeout=3) as answer:  # noqa: S310  our own node
                return answer.status, json.load(answer)["status"]
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)["status"]
        except OSError as fault:
            return 0, str(fault)

    def turns(self, status: int, within: float, *words: str) -> float:
        """After how many seconds it answers so, and names this."""
        began = time.monotonic()
        while (found := self.ready())[0] != status or not all(word in found[1] for word in words):
            assert time.monotonic() < began + within, found
            time.sleep(0.1)
        return time.monotonic() - began


@contextmanager
def node_of(program: Program, *command: str) -> Iterator[Node]:
    """A node at work, until the end of the test."""
    node = Node(program, *(command or ("tokimori", "serve", "-p", "0")))
    try:
        node.turns(200, 30, "ready")
        yield node
    finally:
        for sent in (signal.SIGCONT, signal.SIGTERM, signal.SIGTERM, signal.SIGTERM):
            node.node.send_signal(sent)
        try:
            node.node.wait(5)
        except subprocess.TimeoutExpired:
            node.node.kill()
            node.node.wait()
        assert node.node.stdout is not None
        node.node.stdout.close()


@pytest.mark.prove
def test_a_stuck_handler(program: Program) -> None:
    """A command whose time-out is over and that does not end; strangers are told of no job, the log names it."""
    program.json("job", "add", "secret-job", "--command", STUBBORN, "--timeout", "1", "--timeout-grace", "60")
    with node_of(program) as node:
        program.json("job", "trigger", "secret-job")
        node.turns(503, 1 + WITHIN, "a handler was asked to end")
        assert "secret-job" not in node.ready()[1]
        until(lambda: "of job secret-job" in node.log, 5)


def a_redis() -> tuple[Any, str]:
    """One of this test, and its URL."""
    server = redis.Server(redis.FORGETFUL)
    return server, server.url()


def a_postgres() -> tuple[Any, str]:
    """One of this test, and its URL."""
    server = postgres.Server()
    return server, server.make("t")


def a_mariadb() -> tuple[Any, str]:
    """One of this test, and its URL."""
    server = mariadb.Server()
    return server, server.make("t")


def processes_of(server: Any) -> list[int]:
    """The server's own, and those of its sessions."""
    pid = server.process.pid
    return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


def send(pids: Sequence[int], sent: signal.Signals) -> None:
    """As if the machine did so to all at once."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, sent)


@pytest.mark.prove
@pytest.mark.parametrize("sent", [signal.SIGSTOP, signal.SIGKILL], ids=["frozen", "killed"])
@pytest.mark.parametrize("a_server", [a_redis, a_postgres, a_mariadb])
def test_a_stopped_database(program: Program, a_server: Callable[[], tuple[Any, str]], sent: signal.Signals) -> None:
    """One that is frozen answers nobody, one that is gone refuses; when it answers again so does the node.

    Who asks `tokimori doctor` beside it is told as much, and soon.
    """
    server, program.environment["TOKIMORI_STORE"] = a_server()
    pids = processes_of(server)
    try:
        with node_of(program) as node:
            pids = processes_of(server)
            send(pids, sent)
            node.turns(503, WITHIN, "the store does not answer")
            began = time.monotonic()
            found = {each["check"]: each["level"] for each in program.json("doctor", code=1)["findings"]}
            assert found["store"] == "fail"
            assert time.monotonic() < began + DOCTOR
            if sent is signal.SIGSTOP:
                send(pids, signal.SIGCONT)
                node.turns(200, 30)
    finally:
        send(pids, signal.SIGCONT)
        server.remove()


@pytest.mark.prove
@pytest.mark.parametrize(
    ("fault", "named"), [("hang", "the scheduling loop has stood still"), ("hold", "the node's loop has been held")]
)
def test_a_frozen_loop(program: Program, fault: str, named: str) -> None:
    """One that waits for what never comes is seen beside it; one that nobody else can have is told of by a thread."""
    file = program.home / "fault"
    with node_of(program, "tests.programs.frozen_node", str(file)) as node:
        program.json("job", "add", "j", "--noop", "--schedule", "every 1 seconds")
        (program.home / "new").write_text(fault)
        (program.home / "new").rename(file)
        node.turns(503, WITHIN, named)


def test_a_full_disk(tmp_path: Path) -> None:
    """Where the state and the store are on one disk, that is named; when there is room again the node is ready."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small disk, and not everywhere")
    try:
        program = Program(disk)
        with node_of(program) as node:
            filler = disk / "filler"
            with pytest.raises(OSError, match="No space left"), filler.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(4096))
            node.turns(503, WITHIN, "the disk can't be written: No space left on device")
            filler.unlink()
            node.turns(200, 30)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)
