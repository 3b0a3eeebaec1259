"""Functions that leak, sleep by the thousand, let nobody else run, or come back from the dead."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tokimori
from tests.integration.apps.conftest import AppProgram, until
from tests.integration.cli.conftest import stop
from tests.programs.forked import PROGRAM
from tests.servers import postgres
from tests.servers.silent_proxy import SilentProxy

APP = """
import asyncio, ctypes, os, time
from pathlib import Path
import tokimori

app = tokimori.App("jobs")
HOME = Path(os.environ["HOME"])
kept = []

@app.job()
def leaks(mib: int) -> int:
    kept.append(b"x" * (mib * 2**20))
    return os.getpid()

@app.job(max_running=0)
async def sleeps(seconds: float) -> None:
    await asyncio.sleep(seconds)

@app.job()
def busy(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass

@app.job()
def holds_the_interpreter(seconds: int) -> None:
    ctypes.PyDLL(None).sleep(seconds)

@app.job()
def finishes_late() -> None:
    task = tokimori.current_task()
    (HOME / f"pid-{task.attempt}").write_text(str(os.getpid()))
    while task.attempt == 1 and not (HOME / "go on").exists():
        time.sleep(0.01)
    task.finish(f"attempt {task.attempt}")

@app.job()
def finishes() -> None:
    task = tokimori.current_task()
    (HOME / f"began {task.attempt}").touch()
    while not (HOME / f"go on {task.attempt}").exists():
        time.sleep(0.01)
    task.finish(f"the end of attempt {task.attempt}")
"""


class Nodes:
    """Workers of the app in one folder, of which nothing is left afterwards."""

    def __init__(self, home: Path) -> None:
        self.program = AppProgram(home)
        self.program.app.write_text(APP)
        self.nodes: list[subprocess.Popen[str]] = []

    def begin(self, *options: str) -> "subprocess.Popen[str]":
        """One more, at work when this returns."""
        command = [str(PROGRAM), "worker", "jobs:app", *options]
        home, environment = self.program.home, self.program.environment
        node = subprocess.Popen(command, cwd=home, env=environment, text=True, stdout=subprocess.PIPE)
        self.nodes.append(node)
        assert node.stdout is not None
        assert "runs jobs" in node.stdout.readline()
        return node

    def run(self, run: str) -> Any:
        """The run as it is now."""
        return self.program.json("run", "show", run)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    """None yet."""
    nodes = Nodes(tmp_path)
    yield nodes
    for node in nodes.nodes:
        for pid in family(node.pid) if node.poll() is None else ():
            os.kill(pid, signal.SIGCONT)
        node.kill()
        node.communicate()


@pytest.mark.parametrize("mib", [100, pytest.param(1024, marks=pytest.mark.prove)])
def test_a_process_that_leaks_is_recycled(nodes: Nodes, mib: int) -> None:
    """Its run has succeeded; another process takes its place, and the memory is free again."""
    nodes.begin("--processes", "1", "--most-memory", str(mib))
    leaky = int(nodes.program.outcome("leaks", f'{{"mib": {mib}}}')["result"])
    until(lambda: not Path(f"/proc/{leaky}").exists())
    assert int(nodes.program.outcome("leaks", '{"mib": 1}')["result"]) != leaky


@pytest.mark.prove
def test_a_thousand_coroutines_that_sleep_share_four_processes(nodes: Nodes) -> None:
    """All of them at the same time."""
    node = nodes.begin("--processes", "4", "--concurrency", "250")
    with tokimori.open(nodes.program.environment["TOKIMORI_STORE"]) as client:
        runs = [client.jobs.trigger("sleeps", payload={"seconds": 30}).id for _ in range(1000)]
        ended = [client.runs.wait(run) for run in runs]
    assert {run.state for run in ended} == {"succeeded"}
    assert len({run.pid for run in ended}) == 4
    assert max(run.started for run in ended if run.started) < min(run.ended for run in ended if run.ended)
    assert stop(node) == 0


@pytest.mark.prove
@pytest.mark.parametrize(("job", "seconds"), [("busy", 60), ("holds_the_interpreter", 20)])
def test_who_lets_nobody_else_run_keeps_its_run(nodes: Nodes, job: str, seconds: int) -> None:
    """Beside a node that would take it over: the first attempt is the only one."""
    first, second = nodes.begin("--processes", "1"), nodes.begin("--processes", "1")
    run = nodes.program.json("job", "trigger", job, "--payload", f'{{"seconds": {seconds}}}')["id"]
    until(lambda: nodes.run(run)["state"] == "succeeded", within=seconds + 60)
    assert (nodes.run(run)["attempt"], nodes.run(run)["lost"]) == (1, 0)
    assert (stop(first), stop(second)) == (0, 0)


@pytest.mark.prove
def test_what_a_frozen_process_says_late_changes_nothing(nodes: Nodes) -> None:
    """A node with its keeper and worker process stands still, another one takes its run over; then it goes on."""
    first = nodes.begin("--processes", "1")
    run = nodes.program.json("job", "trigger", "finishes_late")["id"]
    until((nodes.program.home / "pid-1").exists)
    frozen = family(first.pid)
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    second = nodes.begin("--processes", "1")
    until(lambda: nodes.run(run)["state"] == "succeeded")
    before = nodes.run(run)
    assert (before["result"], before["attempt"], before["lost"]) == ('"attempt 2"', 2, 1)
    (nodes.program.home / "go on").touch()
    for pid in reversed(frozen):  # the function first: it finishes before anybody can tell it
        os.kill(pid, signal.SIGCONT)
    until(lambda: "was declared dead" in nodes.program.log.read_text())
    assert stop(first) == 0
    assert nodes.run(run) == before
    assert stop(second) == 0


@pytest.fixture
def slow_line() -> Iterator[SilentProxy]:
    """A way to the server of PostgreSQL that can hold back a single request."""
    server = postgres.server()
    proxy = SilentProxy(server.folder, f".s.PGSQL.{server.port}")
    yield proxy
    proxy.remove()
    server.drop("late")


@pytest.mark.prove
def test_a_finish_that_is_under_way_arrives_late_and_changes_nothing(nodes: Nodes, slow_line: SilentProxy) -> None:
    """A node stands still while its finish is on the line: that reaches the store while the second attempt runs.

    So the store alone refuses it: nobody has told the node of its death.
    """
    server, environment, home = postgres.server(), nodes.program.environment, nodes.program.home
    url = server.make("late")
    environment["TOKIMORI_STORE"] = url.replace(str(server.folder), str(slow_line.folder))
    first = nodes.begin("--processes", "1")
    environment["TOKIMORI_STORE"] = url
    nodes.program.outcome("busy", '{"seconds": 0}')  # its settle is prepared: the next one is a single request
    run = nodes.program.json("job", "trigger", "finishes")["id"]
    until((home / "began 1").exists)
    slow_line.hold(b"the end of attempt 1")
    (home / "go on 1").touch()
    assert slow_line.holds.wait(30)
    for pid in (frozen := family(first.pid)):
        os.kill(pid, signal.SIGSTOP)
    second = nodes.begin("--processes", "1")
    until((home / "began 2").exists, within=60)
    before = server.sql("SELECT now()").strip()
    slow_line.let_go()
    settled = f"query ~ 'tokimori_settle' AND state = 'idle' AND query_start > '{before}'"
    asks = f"SELECT count(*) FROM pg_stat_activity WHERE datname = 'late' AND {settled}"
    until(lambda: server.sql(asks).strip() == "1")
    seen = nodes.run(run)
    assert (seen["state"], seen["attempt"], seen["result"]) == ("running", 2, None)
    for pid in reversed(frozen):
        os.kill(pid, signal.SIGCONT)
    until(lambda: "was declared dead" in nodes.program.log.read_text())
    (home / "go on 2").touch()
    until(lambda: nodes.run(run)["state"] == "succeeded")
    ended = nodes.run(run)
    assert (ended["result"], ended["attempt"], ended["lost"]) == ('"the end of attempt 2"', 2, 1)
    assert (stop(first), stop(second)) == (0, 0)


def family(pid: int) -> list[int]:
    """A process and all below it."""
    below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in below for each in family(int(child)))]
