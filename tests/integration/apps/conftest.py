"""A node with an app, in processes of its own, on SQLite."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli.conftest import Program, stop
from tests.programs.forked import Started

APP = """
import asyncio, ctypes, logging, os, subprocess, sys, time, warnings
from pathlib import Path
import tokimori

app = tokimori.App("jobs")
HOME = Path(os.environ["HOME"])

@app.job()
def double(number: int) -> int:
    print("doubling", number)
    return number * 2

@app.job()
async def sleeps(seconds: float) -> None:
    await asyncio.sleep(seconds)

@app.job()
def raises() -> None:
    raise ValueError("no good")

@app.job()
def noisy() -> None:
    logging.getLogger("mine").info("logged")
    warnings.warn("warned")
    print("printed", file=sys.stderr)
    os.write(2, b"written\\n")
    raise OSError("uncaught")

@app.job()
def slow_words() -> None:
    print("first")
    time.sleep(0.4)
    os.write(1, b"last\\n")

def _costs() -> None:
    mine = bytearray(200 << 20)
    end = time.thread_time() + 0.2
    while time.thread_time() < end:
        pass

@app.job()
def costs() -> None:
    _costs()

@app.job(own_process=True)
def costs_alone() -> None:
    _costs()

@app.job(own_process=True)
async def costs_on_its_loop() -> None:
    await asyncio.to_thread(_costs)

@app.job(own_process=True, max_memory=400, timeout_grace=2)
def hoards() -> None:
    mine = bytearray(900 << 20)
    time.sleep(60)

@app.job(own_process=True, max_cpu=0.5)
def burns(deaf: bool = False) -> None:
    while True:
        try:
            while True:
                pass
        except BaseException:
            if not deaf:
                raise

@app.job()
def returns_no_json() -> object:
    return object()

@app.job()
def dies() -> None:
    print("its last words")
    os.kill(os.getpid(), 9)

@app.job(lost_attempts=0)
def crashes() -> None:
    ctypes.string_at(0)

@app.job(timeout=0.5, timeout_grace=0.5)
def deaf() -> None:
    child = subprocess.Popen(["sleep", "1000"])
    (HOME / "child").write_text(str(child.pid))
    ctypes.PyDLL(None).sleep(20)

@app.job()
def holds_the_interpreter(seconds: int) -> None:
    ctypes.PyDLL(None).sleep(seconds)

@app.job()
def version() -> str:
    return VERSION

@app.job()
def chain(number: int) -> None:
    if number:
        chain.enqueue(number - 1)

@app.job()
def steps(first_ends: str = "returns") -> list[int]:
    task = tokimori.current_task()
    done = task.checkpointed or []
    if done:
        return [*done, 2]
    task.checkpoint([1])
    task.progress(0.4, "two of five")
    if first_ends == "dies":
        time.sleep(0.5)
        os.kill(os.getpid(), 9)
    if first_ends == "retries":
        task.retry()
        return []
    time.sleep(1000)
    return []

VERSION = "one"
"""


class AppProgram(Program):
    """`tokimori`, and an app in the folder where it is at home."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.app = home / "jobs.py"
        self.app.write_text(APP)
        self.log = home / "node.log"
        self.environment |= {"TOKIMORI_LOG_FILE": str(self.log)}

    def work(self, *options: str) -> Started:
        """A worker of the app, at work when this returns."""
        words = ["worker", "jobs:app", "--processes", "2", *options]
        node = Started(words, cwd=self.home, env=self.environment, stdout=subprocess.PIPE)
        assert node.stdout is not None
        assert "runs jobs" in node.stdout.readline()
        return node

    def outcome(self, job: str, payload: str | None = None, code: int = 0) -> Any:
        """The run of a job, when it has ended. Whoever waits for long is told what for."""
        said = [] if payload is None else ["--payload", payload]
        ended = self.run("--json", "job", "trigger", job, "--wait", *said)
        assert ended.returncode == code, ended.stderr
        return json.loads(ended.stdout)


def until(holds: Callable[[], bool], within: float = 30) -> None:
    """Wait until this holds. To look takes no more than half of the time: it may start a program."""
    began = time.monotonic()
    end = began + within
    while not holds():
        looked = time.monotonic()
        assert looked < end, "it never came to hold"
        time.sleep(max(0.02, looked - began))
        began = time.monotonic()


@pytest.fixture
def program(tmp_path: Path) -> AppProgram:
    """One on a store of its own."""
    return AppProgram(tmp_path)


@pytest.fixture(scope="module")
def working(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppProgram]:
    """One beside its worker, for the tests of a module: each has jobs of its own."""
    program = AppProgram(tmp_path_factory.mktemp("working"))
    node = program.work()
    try:
        yield program
    finally:
        assert stop(node) == 0
