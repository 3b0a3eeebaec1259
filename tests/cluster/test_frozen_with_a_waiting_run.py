"""A node is frozen while a run waits for its process, or lies in its socket: it is another node's when it goes on."""

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tokimori
from tests.cluster.fleet import Fleet
from tests.cluster.test_limits import empty_store
from tests.cluster.troubled_soak import children, send

APP = """
import os, time
from pathlib import Path
import tokimori

HOME = Path(os.environ["HOME"])
while (HOME / "slow").exists() and os.environ["PLACE"] == "first":
    time.sleep(0.05)
app = tokimori.App("waiting")

@app.job(max_running=1, retry={"lost_attempts": 9})
def alone() -> None:
    task = tokimori.current_task()
    with (HOME / "began").open("a") as file:
        file.write(f"{os.environ['PLACE']} {task.attempt}\\n")
    time.sleep(0.1 if task.attempt == 1 else 5.0)
"""


@pytest.fixture(params=["sqlite", "postgres"])
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    """Nodes to be, on an empty store."""
    with empty_store(request.param, tmp_path / "tokimori.db") as url:
        fleet = Fleet(tmp_path, url)
        yield fleet
        fleet.stop(5)


def until(holds: Callable[[], object], what: str) -> None:
    """Wait for it."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, f"it does not happen: {what}"
        time.sleep(0.05)


@pytest.mark.prove
@pytest.mark.timeout(240)
def test_a_run_that_waited_for_a_process_begins_at_one_node(fleet: Fleet) -> None:
    """The frozen node gives it to its process only if its lease is known to hold."""
    began, slow = fleet.folder / "began", fleet.folder / "slow"
    (fleet.folder / "waiting.py").write_text(APP)
    own = {"HOME": str(fleet.folder), "TOKIMORI_APP_LOAD": "waiting:app", "TOKIMORI_APP_PROCESSES": "1"}
    own |= {"TOKIMORI_APP_INCLUDE": str(fleet.folder)}
    first = fleet.start_node(environment=own | {"PLACE": "first"})
    fleet.wait_until_up(60)
    with tokimori.open(fleet.url) as client:
        client.runs.wait(client.jobs.trigger("alone").id, 60)
        slow.touch()
        for keeper in children(first.pid):
            for worker in children(keeper):
                send(worker, signal.SIGKILL)
        until(lambda: "died" in (fleet.folder / "node0.log").read_text(), "its process dies")
        run = client.jobs.trigger("alone")
        until(lambda: client.runs.get(run.id).node_id is not None, "the run is taken")
        fleet.start_node(environment=own | {"PLACE": "second"})
        fleet.wait_until_up(60)
        assert client.runs.get(run.id).attempt == 1
        fleet.freeze(first)
        slow.unlink()
        until(lambda: "second 2" in began.read_text(), "the other node takes it over")
        fleet.thaw(first)
        client.runs.wait(run.id, 60)
    assert began.read_text().splitlines() == ["first 1", "second 2"]


@pytest.mark.prove
@pytest.mark.timeout(240)
def test_a_run_in_the_socket_of_a_frozen_process_begins_at_one_node(fleet: Fleet) -> None:
    """The process, frozen together with its keeper and its node, wakes first and begins nothing."""
    began = fleet.folder / "began"
    (fleet.folder / "waiting.py").write_text(APP)
    own = {"HOME": str(fleet.folder), "TOKIMORI_APP_LOAD": "waiting:app", "TOKIMORI_APP_PROCESSES": "1"}
    own |= {"TOKIMORI_APP_INCLUDE": str(fleet.folder)}
    first = fleet.start_node(environment=own | {"PLACE": "first"})
    fleet.wait_until_up(60)
    with tokimori.open(fleet.url) as client:
        client.runs.wait(client.jobs.trigger("alone").id, 60)
        keepers = children(first.pid)
        workers = [worker for keeper in keepers for worker in children(keeper)]
        for worker in workers:
            send(worker, signal.SIGSTOP)
        run = client.jobs.trigger("alone")
        until(lambda: client.runs.get(run.id).pid in workers, "the run is given to the process")
        for keeper in keepers:
            send(keeper, signal.SIGSTOP)
        fleet.freeze(first)
        fleet.start_node(environment=own | {"PLACE": "second"})
        until(lambda: "second 2" in began.read_text(), "the other node takes it over")
        for pid in workers:
            send(pid, signal.SIGCONT)
        time.sleep(1.0)
        for keeper in keepers:
            send(keeper, signal.SIGCONT)
        fleet.thaw(first)
        client.runs.wait(run.id, 60)
    assert began.read_text().splitlines() == ["first 1", "second 2"]
