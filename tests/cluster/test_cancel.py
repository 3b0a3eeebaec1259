"""An order that somebody gives anywhere ends processes on every node."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

import tokimori
from tests.cluster.fleet import Fleet
from tests.servers import mariadb, postgres, redis
from tokimori.client.client import Client
from tokimori.model.transitions import RunState
from tokimori.service.views.runs import Run

GRACE = 2.0
STUBBORN = """
trap '' TERM
(trap '' TERM; sh -c "trap '' TERM; while :; do sleep 0.2; done" & while :; do sleep 0.2; done) &
while :; do sleep 0.2; done
"""
"""A command with children and grandchildren, all of which ignore TERM."""
RUNS_EACH = 2
PROCESSES_EACH = 3
PATIENCE = 30


Order = Callable[[Client], object]
ORDERS: dict[str, tuple[Order, str]] = {
    "sqlite": (lambda client: client.jobs.pause("stubborn", "enough", now=True), "its job was paused: enough"),
    "postgres": (lambda client: client.jobs.delete("stubborn", now=True), "its job was deleted"),
    "mariadb": (lambda client: client.queues.pause("old", "enough", now=True), "its queue old was paused: enough"),
    "redis": (lambda client: client.queues.pause(now=True), "everything was paused"),
}
"""Each way to end what runs, on one of the stores; which way is no matter of the store."""


LOANS: dict[str, postgres.Loans | mariadb.Loans | redis.Loans] = {
    "postgres": postgres.loans,
    "mariadb": mariadb.loans,
    "redis": redis.loans,
}


@pytest.fixture(params=ORDERS)
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Fleet, Order, str]]:
    """Nodes to be, on an empty store of each kind, and what is to be tried there."""
    order, reason = ORDERS[request.param]
    if request.param == "sqlite":
        yield Fleet(tmp_path), order, reason
        return
    loans = LOANS[request.param]
    yield Fleet(tmp_path, loans.url_of(tmp_path)), order, reason
    loans.give_back(tmp_path)


def test_what_runs_on_other_nodes_is_gone_in_time(fleet: tuple[Fleet, Order, str], tmp_path: Path) -> None:
    """What is to end now ends commands with grandchildren on two nodes: all within the grace and one second."""
    nodes, order, reason = fleet
    try:
        with tokimori.open(nodes.url) as client:
            client.jobs.add("stubborn", command=STUBBORN, timeout_grace=GRACE, cwd=str(tmp_path), queue="old")
            for _ in range(2):
                nodes.start_node(concurrency=RUNS_EACH)
            nodes.wait_until_up()
            for _ in range(2 * RUNS_EACH):
                client.jobs.trigger("stubborn")
            states(client, RunState.RUNNING, 2 * RUNS_EACH)
            wait_for_commands(nodes, 2 * RUNS_EACH * PROCESSES_EACH)
            owners = {run.node_id for run in client.runs.list()}
            before = time.monotonic()
            order(client)
            lasted = gone(nodes) - before
            ended = states(client, RunState.CANCELLED, 2 * RUNS_EACH)
        codes = nodes.stop()
    finally:
        nodes.stop(5)
    assert len(owners) == 2
    assert lasted < GRACE + 1
    assert {run.error for run in ended} == {reason}
    assert codes == [0, 0]


def wait_for_commands(fleet: Fleet, count: int) -> None:
    """Until so many processes of runs live: each run has all of its own."""
    end = time.monotonic() + PATIENCE
    while len(commands(fleet)) < count:
        assert time.monotonic() < end, commands(fleet)
        time.sleep(0.05)


def commands(fleet: Fleet) -> list[str]:
    """The processes of runs, but for the short naps that they take."""
    return [
        line for line in fleet.left_over() if "keeper" not in line and not line.partition(": ")[2].startswith("sleep ")
    ]


def gone(fleet: Fleet) -> float:
    """When nothing is left of any run."""
    end = time.monotonic() + PATIENCE
    while any("keeper" not in line for line in fleet.left_over()):
        assert time.monotonic() < end, fleet.left_over()
        time.sleep(0.01)
    return time.monotonic()


def states(client: Client, state: RunState, count: int) -> Sequence[Run]:
    """So many runs, once they are in this state."""
    end = time.monotonic() + PATIENCE
    while len(runs := client.runs.list(state=state).runs) < count:
        assert time.monotonic() < end
        time.sleep(0.05)
    return runs
