"""A machine short of processes, files or threads: runs that it could not begin are none the worse for it."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

import tokimori
from tests.integration.apps.conftest import AppProgram, until
from tests.integration.cli.conftest import Program, lent
from tests.programs.forked import PROGRAM

SOMEBODY = "54321"
"""Root may have as many processes as it likes."""
AS_SOMEBODY = (
    "setpriv",
    f"--reuid={SOMEBODY}",
    f"--regid={SOMEBODY}",
    "--clear-groups",
    "--inh-caps=+dac_read_search",  # the program is that of the user who runs the tests
    "--ambient-caps=+dac_read_search",
)
SHORT = "short of processes, threads, files or memory"


def begin(program: Program, limit: str, *words: str, prefix: tuple[str, ...] = ()) -> "subprocess.Popen[str]":
    """A node with this limit, at work when this returns."""
    command = [*prefix, "prlimit", limit, str(PROGRAM), *words]
    node = subprocess.Popen(command, cwd=program.home, env=program.environment, text=True, stdout=subprocess.PIPE)
    assert node.stdout is not None
    assert "runs jobs" in node.stdout.readline()
    return node


def succeeded(run: dict[str, object]) -> bool:
    """Whether it has, and nothing else was ever counted against it."""
    assert (run["failures"], run["lost"]) == (0, 0)
    return run["state"] == "succeeded"


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> str:
    """A kind of store."""
    return str(request.param)


@pytest.mark.parametrize("limit", ["--nproc=14:14", pytest.param("--nofile=40:40", marks=pytest.mark.prove)])
def test_commands_that_could_not_be_started_begin_later(program: Program, store: str, limit: str) -> None:
    """Nothing counts against them; `why` and the log say what was missing."""
    if "nproc" in limit and (os.geteuid() != 0 or shutil.which("setpriv") is None):
        pytest.skip("only root may start a node as somebody who has no other processes")
    with lent(program, store):
        _starts_all(program, limit)


def _starts_all(program: Program, limit: str) -> None:
    log = program.home / "node.log"
    program.environment |= {"TOKIMORI_LOG_FILE": str(log)}
    program("job", "add", "naps", "--command", "exec sleep 1.5", "--max-running", "0")
    with tokimori.open(program.environment["TOKIMORI_STORE"]) as client:
        runs = [client.jobs.trigger("naps").id for _ in range(20)]
    if "nproc" in limit:
        for path in (program.home, *program.home.rglob("*")):
            os.chown(path, int(SOMEBODY), int(SOMEBODY))
    node = begin(program, limit, "serve", "--no-http", prefix=AS_SOMEBODY if "nproc" in limit else ())
    try:
        until(lambda: SHORT in program("run", "why", runs[-1]))
        until(lambda: all(succeeded(run) for run in program.json("run", "list")), within=60)
        assert SHORT in log.read_text()
    finally:
        node.send_signal(signal.SIGKILL)
        node.communicate()


APP = """
import resource
from pathlib import Path
import tokimori

app = tokimori.App("jobs")
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 7 * 2**20, resource.RLIM_INFINITY))  # no room for a thread's stack

@app.job()
def waits() -> int:
    return 1

@app.job()
async def lifts() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""


def test_a_function_without_a_thread_begins_later(tmp_path: Path, store: str) -> None:
    """Its worker process gives it back, and its node claims nothing for a while."""
    program = AppProgram(tmp_path)
    program.app.write_text(APP)
    with lent(program, store):
        _starts_in_the_end(program)


def _starts_in_the_end(program: AppProgram) -> None:
    node = begin(program, "--nofile=1024", "worker", "jobs:app", "--processes", "1")
    try:
        run = program.json("job", "trigger", "waits")["id"]
        until(lambda: SHORT in program("run", "why", run))
        program.outcome("lifts")
        until(lambda: succeeded(program.json("run", "show", run)))
        assert "can't start new thread" in program.log.read_text()
    finally:
        node.send_signal(signal.SIGKILL)
        node.communicate()
