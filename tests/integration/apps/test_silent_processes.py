"""Worker processes that do not answer: nothing more is given to them, and people are told which run is why."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tokimori
from tests.integration.apps.conftest import AppProgram, until
from tests.integration.cli.conftest import lent
from tests.programs.forked import Started

APP = """
import os, re, time
import tokimori

app = tokimori.App("jobs")

@app.job(max_running=0)
def holds() -> None:
    re.match(r"(a+)+$", "a" * 40 + "b")

@app.job(max_running=0)
async def coroutine_holds() -> None:
    re.match(r"(a+)+$", "a" * 40 + "b")

@app.job(max_running=0)
async def blocks(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()

@app.job(max_running=0)
def sleeps() -> None:
    time.sleep(1000)

@app.job(max_running=0)
async def waits() -> int:
    return os.getpid()

@app.job(max_running=0)
def takes(text: str) -> int:
    return len(text)

@app.job(max_running=0)
def where() -> int:
    return os.getpid()
"""
Begin = Callable[[int], Started]


@pytest.fixture(params=["sqlite", "postgres"])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AppProgram]:
    """One with this app, on each store."""
    program = AppProgram(tmp_path)
    program.app.write_text(APP)
    with lent(program, request.param):
        yield program


@pytest.fixture
def begin(program: AppProgram) -> Iterator[Begin]:
    """Begins a worker with so many processes."""
    nodes = list[Started]()

    def work(processes: int) -> Started:
        nodes.append(program.work("--processes", str(processes)))
        return nodes[-1]

    yield work
    for node in nodes:
        node.kill()
        node.communicate()


def trigger(program: AppProgram, job: str, **payload: object) -> str:
    """A new run of the job, without the start of a program: what blocks is noticed after two seconds."""
    with tokimori.open(program.environment["TOKIMORI_STORE"]) as client:
        return client.jobs.trigger(job, payload=payload).id


def show(program: AppProgram, run: str) -> dict[str, object]:
    """The run as it is now."""
    with tokimori.open(program.environment["TOKIMORI_STORE"]) as client:
        found = client.runs.get(run)
    return {"state": found.state, "failures": found.failures, "result": found.result}


@pytest.mark.parametrize(
    ("job", "payload"),
    [
        ("holds", {}),
        pytest.param("coroutine_holds", {}, marks=pytest.mark.prove),
        pytest.param("blocks", {"seconds": 60}, marks=pytest.mark.prove),
    ],
)
def test_a_run_that_blocks_its_process_is_named(
    program: AppProgram, begin: Begin, job: str, payload: dict[str, int]
) -> None:
    """In the log, with the stack, by `why` and by the doctor; what was not given to the process goes back."""
    begin(1)
    beside = trigger(program, "sleeps")
    until(lambda: show(program, beside)["state"] == "running")
    run = trigger(program, job, **payload)
    until(lambda: show(program, run)["state"] == "running")
    sent = trigger(program, "where")
    until(lambda: f"run {run} of {job} blocks it" in program.log.read_text())
    assert f" in {job}\n" in program.log.read_text()
    waiting = trigger(program, "where")
    until(lambda: "can start none now" in program("run", "why", waiting))
    assert f"run {run} blocks it" in program("run", "why", sent)
    assert f"run {run} blocks it" in program("run", "why", run)
    found = program.run("--json", "doctor").stdout
    assert f"run {run} blocks it" in next(each["text"] for each in json.loads(found)["findings"] if run in each["text"])
    assert (show(program, waiting)["state"], show(program, waiting)["failures"]) == ("ready", 0)
    assert show(program, sent)["state"] == "running"


def test_a_process_that_is_stopped_is_told_so(program: AppProgram, begin: Begin) -> None:
    """It has no stack; when it goes on it is given runs again, and begins what it was given before."""
    begin(1)
    pid = int(program.outcome("where")["result"])
    os.kill(pid, signal.SIGSTOP)
    sent = trigger(program, "where")
    until(lambda: show(program, sent)["state"] == "running")
    until(lambda: "it is stopped, `kill -CONT" in program.log.read_text())
    waiting = trigger(program, "where")
    assert "the process is stopped" in program("run", "why", sent)
    os.kill(pid, signal.SIGCONT)
    for run in (sent, waiting):
        until(lambda run=run: show(program, run)["state"] == "succeeded")  # type: ignore[misc]
        assert (show(program, run)["result"], show(program, run)["failures"]) == (str(pid), 0)
    assert "answers again" in program.log.read_text()
    assert not [each for each in program.json("node", "list") if "tokimori:silent" in each["labels"]]


@pytest.mark.prove
def test_what_a_process_has_not_taken_goes_back(program: AppProgram, begin: Begin) -> None:
    """What was sent stays until the process is dead, as it may begin that; what still lies on the node does not."""
    begin(1)
    blocking = trigger(program, "blocks", seconds=12)
    until(lambda: show(program, blocking)["state"] == "running")
    with tokimori.open(program.environment["TOKIMORI_STORE"]) as client:
        runs = [client.jobs.trigger("takes", payload={"text": "x" * 300_000}).id for _ in range(6)]
        until(lambda: any(client.runs.get(run).state == "running" for run in runs))
        until(lambda: f"run {blocking} of blocks blocks it" in program.log.read_text())
        states = [client.runs.get(run).state for run in runs]
        assert {*states} == {"ready", "running"}
        for run in runs:
            assert (client.runs.wait(run).state, client.runs.get(run).failures) == ("succeeded", 0)


@pytest.mark.prove
def test_runs_go_to_the_process_that_answers(program: AppProgram, begin: Begin) -> None:
    """While a coroutine blocks the loop of the other one."""
    begin(2)
    blocking = trigger(program, "blocks", seconds=30)
    until(lambda: show(program, blocking)["state"] == "running")
    until(lambda: f"run {blocking} of blocks blocks it" in program.log.read_text())
    waits = [trigger(program, "waits") for _ in range(6)]
    for run in waits:
        until(lambda run=run: show(program, run)["state"] == "succeeded")  # type: ignore[misc]
    assert show(program, blocking)["state"] == "running"
    until(lambda: show(program, blocking)["state"] == "succeeded", within=60)
    (found,) = {show(program, run)["result"] for run in waits}
    assert found != show(program, blocking)["result"]
