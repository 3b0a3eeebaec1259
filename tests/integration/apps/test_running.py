"""An app at work within a program of its own."""

import asyncio
import ctypes
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.integration.apps.conftest import until
from tokimori.apps.app import App
from tokimori.apps.running import Running
from tokimori.apps.task import current_task
from tokimori.errors import InvalidConfig, Refused, RunFailed
from tokimori.model.lanes import SILENT_LABEL


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> App:
    """One whose store and state are in a folder of the test."""
    monkeypatch.setenv("TOKIMORI_STATE_DIR", str(tmp_path / "state"))
    return App("here", url=f"sqlite://{tmp_path / 't.db'}")


def state_of(app: App, run_id: str) -> str:
    """The state of a run."""
    return str(app.client.runs.get(run_id).state)


def send(running: Running, number: signal.Signals) -> "subprocess.Popen[str]":
    """Signal the node of a program, which is returned."""
    node = running._node
    assert node is not None
    node.send_signal(number)
    return node


def test_functions_run_within_the_program(app: App) -> None:
    """Sync and async alike they see its objects, and what they return is the result.

    Afterwards nothing is left of the node.
    """
    seen: list[int] = []

    @app.job()
    def note(number: int) -> int:
        current_task().log("noted")
        seen.append(number)
        return os.getpid()

    @app.job()
    async def later(number: int) -> None:
        await asyncio.sleep(0.01)
        seen.append(number)

    with app.running():
        runs = [note.enqueue(1).id, later.enqueue(2).id]
        until(lambda: [state_of(app, run) for run in runs] == ["succeeded"] * 2)
        assert sorted(seen) == [1, 2]
        assert app.client.runs.get(runs[0]).result == str(os.getpid())
        assert app.client.runs.output(runs[0])
        nodes = app.client.nodes.list()
    assert app.client.nodes.list() != nodes
    assert not [thread for thread in threading.enumerate() if thread.name == "tokimori"]
    app.client.close()


@pytest.mark.filterwarnings("ignore:a blocking call")
async def test_an_asynchronous_program_may_hold_its_loop(app: App) -> None:
    """Whoever holds the loop and the interpreter for longer than a lease loses no run: the node is another process."""
    go_on = threading.Event()

    @app.job(max_running=1)
    def waits() -> None:
        go_on.wait()

    async with app.running():
        run = waits.enqueue()
        until(lambda: state_of(app, run.id) == "running")
        ctypes.PyDLL(None).sleep(9)
        go_on.set()
        until(lambda: state_of(app, run.id) == "succeeded")
        ended = app.client.runs.get(run.id)
        assert (ended.attempt, ended.lost) == (1, 0)
    app.client.close()


def test_a_run_waits_for_another_if_that_leaves_it_a_place(app: App) -> None:
    """With one place it would wait for ever, and is refused in words; with two it gets the result."""

    @app.job
    def inner() -> int:
        return 3

    @app.job
    def outer() -> int:
        return inner.enqueue().result(timeout=20)

    with app.running(concurrency=1), pytest.raises(RunFailed, match=r"last free place .* hold 0 of 1"):
        outer.enqueue().result(timeout=30)
    with app.running(concurrency=2):
        assert outer.enqueue().result(timeout=30) == 3
    app.client.close()


@pytest.mark.prove
def test_a_node_that_dies_is_replaced(app: App) -> None:
    """Its runs are told that they are lost, and run again; new ones run as before."""
    told: list[bool] = []

    @app.job()
    def waits() -> None:
        task = current_task()
        while task.attempt == 1 and not task.cancelled:
            time.sleep(0.01)
        told.append(task.cancelled)

    with app.running() as running:
        run = waits.enqueue()
        until(lambda: state_of(app, run.id) == "running")
        send(running, signal.SIGKILL)
        until(lambda: state_of(app, run.id) == "succeeded", within=60)
    assert told[-1] is False
    app.client.close()


def test_a_node_is_replaced_while_functions_of_before_go_on(app: App) -> None:
    """One that nobody can interrupt costs its program no node: what else is due runs meanwhile."""
    over = threading.Event()

    @app.job()
    async def waits() -> None:
        await asyncio.to_thread(over.wait)

    with app.running() as running:
        run = waits.enqueue()
        until(lambda: state_of(app, run.id) == "running")
        send(running, signal.SIGKILL)
        until(lambda: app.client.runs.get(run.id).attempt == 2, within=60)
        over.set()
        until(lambda: state_of(app, run.id) == "succeeded")
    app.client.close()


def test_a_thread_that_heeds_nothing_takes_no_place(app: App) -> None:
    """Its run has ended as timed out, and another begins beside it, for which this waits: nobody kills a program."""
    over = threading.Event()

    @app.job(timeout=0.2, timeout_grace=0.2)
    def deaf() -> None:
        over.wait()

    @app.job()
    def hears() -> None:
        pass

    with app.running(concurrency=1):
        lost = deaf.enqueue()
        until(lambda: state_of(app, lost.id) == "failed")
        run = hears.enqueue()
        until(lambda: state_of(app, run.id) == "succeeded")
        over.set()
    app.client.close()


def test_a_frozen_node_does_not_keep_its_program(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaving ends it, though it hears nothing."""
    monkeypatch.setattr("tokimori.apps.running.STOPS_WITHIN", 1.0)
    monkeypatch.setenv("TOKIMORI_NODE_STOP_GRACE", "0")
    with app.running() as running:
        node = send(running, signal.SIGSTOP)
    assert node.returncode == -signal.SIGKILL


def test_a_node_that_cannot_start_is_told(app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program hears of it where it enters, of bad settings by their names, and goes on."""
    (tmp_path / "state").write_text("no folder")
    with pytest.raises(Refused, match="does not start"), app.running():
        pass
    monkeypatch.setenv("TOKIMORI_NODE_STOP_GRACE", "no number")
    with pytest.raises(InvalidConfig, match="stop_grace"), app.running():
        pass


def test_a_child_of_the_program_ends_no_node(app: App) -> None:
    """Whatever it leaves is its parent's: the node goes on, and its functions run in the parent alone."""

    @app.job()
    def where() -> int:
        return os.getpid()

    with app.running() as running:
        if (child := os.fork()) == 0:
            running.stop()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        for _ in range(3):
            run = where.enqueue().id
            until(lambda run=run: state_of(app, run) == "succeeded")  # type: ignore[misc]
            assert app.client.runs.get(run).result == str(os.getpid())
    app.client.close()


@pytest.mark.prove
def test_a_coroutine_that_blocks_its_program_is_named(app: App) -> None:
    """The program is given no run meanwhile, and others are shown which one is why."""

    @app.job()
    async def blocks() -> None:
        time.sleep(9)  # noqa: ASYNC251  that is what is tried

    @app.job()
    def where() -> int:
        return os.getpid()

    with app.running():
        run = blocks.enqueue().id
        until(lambda: any(f" {run} " in node.labels.get(SILENT_LABEL, "") for node in app.client.nodes.list()))
        waiting = where.enqueue().id
        assert state_of(app, waiting) == "ready"
        until(lambda: [state_of(app, each) for each in (run, waiting)] == ["succeeded"] * 2)
        until(lambda: not any(SILENT_LABEL in node.labels for node in app.client.nodes.list()))
    app.client.close()
