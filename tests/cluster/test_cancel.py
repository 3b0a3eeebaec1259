"""An order that somebody gives anywhere ends processes on every node."""

import time
from collections.abc import Sequence
from pathlib import Path
from subprocess import Popen

import tokimori
from tests.cluster.fleet import Fleet
from tokimori.client.client import Client
from tokimori.model.run import Run
from tokimori.model.transitions import RunState
from tokimori.ports.store import RunFilter

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


def test_what_runs_on_other_nodes_is_gone_in_time(tmp_path: Path) -> None:
    """A pause that is to be now ends commands with grandchildren on two nodes: all within the grace and one second."""
    fleet = Fleet(tmp_path)
    try:
        with tokimori.open(fleet.url) as client:
            client.add("stubborn", command=STUBBORN, timeout_grace=GRACE, cwd=str(tmp_path))
            first, second = fleet.start_node(), fleet.start_node()
            fleet.wait_until_up()
            begin_on(fleet, client, first, second)
            begin_on(fleet, client, second, first)
            nodes = {run.node_id for run in client.list_runs(RunFilter())}
            before = time.monotonic()
            client.pause("stubborn", "enough", now=True)
            lasted = gone(fleet) - before
            ended = states(client, RunState.CANCELLED, 2 * RUNS_EACH)
        codes = fleet.stop()
    finally:
        fleet.stop(5)
    assert len(nodes) == 2
    assert lasted < GRACE + 1
    assert {run.error for run in ended} == {"its job was paused: enough"}
    assert codes == [0, 0]


def begin_on(fleet: Fleet, client: Client, node: "Popen[bytes]", other: "Popen[bytes]") -> None:
    """Have this node begin runs, while the other one is frozen for less than would make it lose its lease."""
    wanted = len(commands(fleet)) + RUNS_EACH * PROCESSES_EACH
    fleet.freeze(other)
    for _ in range(RUNS_EACH):
        client.trigger("stubborn")
    end = time.monotonic() + PATIENCE
    while len(commands(fleet)) < wanted:
        assert time.monotonic() < end, commands(fleet)
        assert node.poll() is None
        time.sleep(0.05)
    fleet.thaw(other)


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
    wanted = RunFilter(states=frozenset({state}))
    while len(runs := client.list_runs(wanted)) < count:
        assert time.monotonic() < end
        time.sleep(0.05)
    return runs
