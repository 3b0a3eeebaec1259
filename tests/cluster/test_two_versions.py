"""Nodes of the program from before the newest schema beside nodes of today, on a store that was migrated meanwhile."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import previous
from tests.cluster.accounts import finish, prepare, read
from tests.cluster.fleet import Fleet
from tests.servers import postgres
from tokimori.model.ids import NodeId
from tokimori.testing.checker import FaultKind, check

JOBS = 10


@pytest.fixture(params=["sqlite", "postgres"])
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    """Nodes to be, on an empty store of each kind."""
    if request.param == "sqlite":
        yield Fleet(tmp_path)
        return
    server = postgres.Server()
    yield Fleet(tmp_path, server.make("fleet"))
    server.remove()


def test_a_node_of_before_goes_on_and_may_be_restarted(fleet: Fleet) -> None:
    """Both fire, claim, settle, edit and take over from each other: every occurrence is one run."""
    old = previous.unpack(fleet.folder / "previous")
    try:
        fleet.start_node(program=old)
        fleet.wait_until_up()
        previous.say(old, fleet.url, "job", "add", "theirs", "--noop", "--schedule", "* * * * * *")
        asyncio.run(prepare(fleet, JOBS))
        today = fleet.start_node()
        fleet.wait_until_up()
        time.sleep(4)
        edit(fleet, old, None)
        edit(fleet, None, old)
        fleet.kill(today)
        time.sleep(10)
        restarted = fleet.start_node(program=old)
        fleet.start_node()
        fleet.wait_until_up()
        fleet.kill(restarted)
        time.sleep(4)
        end = asyncio.run(finish(fleet, JOBS, patience=30))
        codes = fleet.stop()
    finally:
        fleet.stop(5)
    history = asyncio.run(read(fleet, JOBS, end))
    # How soon a dead node's runs are taken over is proved where nothing else starts meanwhile.
    assert [fault for fault in check(history) if fault.kind is not FaultKind.TAKE_OVER] == []
    assert codes == [0, 0]
    assert fleet.left_over() == []
    did = {run.node_id for ledger in history.ledgers for run in ledger.runs}
    assert {ids_of(fleet, number) for number in (0, 1)} <= did


def edit(fleet: Fleet, first: Path | None, second: Path | None) -> None:
    """One program changes a job, the other one sees it, pauses and resumes it."""
    previous.say(first, fleet.url, "job", "update", "theirs", "--priority", "7")
    assert '"priority":7' in previous.say(second, fleet.url, "--json", "job", "show", "theirs").replace(" ", "")
    previous.say(second, fleet.url, "job", "pause", "theirs")
    previous.say(first, fleet.url, "job", "resume", "theirs")
    previous.say(second, fleet.url, "job", "update", "theirs", "--priority", "0")


def ids_of(fleet: Fleet, number: int) -> NodeId:
    """The id under which a node ran jobs, from its log."""
    words = (fleet.folder / f"node{number}.log").read_text().partition("Node ")[2]
    return NodeId(words.split()[0])
