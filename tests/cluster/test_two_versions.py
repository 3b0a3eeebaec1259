"""Nodes of today beside nodes of a newer program, on a store that this one has migrated meanwhile."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import programs
from tests.cluster.accounts import finish, prepare, read
from tests.cluster.checker import FaultKind, check
from tests.cluster.fleet import Fleet
from tests.servers import mariadb, postgres, redis
from tokimori.model.ids import NodeId

JOBS = 10


@pytest.fixture(
    params=["sqlite", *(pytest.param(each, marks=pytest.mark.prove) for each in ("postgres", "mariadb", "redis"))]
)
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    """Nodes to be, on an empty store of each kind."""
    match request.param:
        case "sqlite":
            yield Fleet(tmp_path)
        case "redis":
            keys = redis.Server()
            yield Fleet(tmp_path, keys.url())
            keys.remove()
        case kind:
            server = postgres.Server() if kind == "postgres" else mariadb.Server()
            yield Fleet(tmp_path, server.make("fleet"))
            server.remove()


@pytest.mark.timeout(480)
def test_an_older_node_goes_on_and_may_be_restarted(fleet: Fleet) -> None:
    """Both fire, claim, settle by their own text, edit and take over from each other: every occurrence is one run."""
    newer = programs.newer(fleet.folder / "newer")
    try:
        fleet.start_node()
        fleet.wait_until_up()
        programs.say(None, fleet.url, "job", "add", "theirs", "--noop", "--schedule", "* * * * * *")
        asyncio.run(prepare(fleet, JOBS))
        before = schema_of(fleet, None)
        plan = json.loads(programs.say(newer, fleet.url, "--json", "db", "migrate", "--plan"))
        assert plan["oldest"] == before == schema_of(fleet, None) and len(plan["steps"]) > 0
        programs.say(newer, fleet.url, "db", "migrate")
        first = fleet.start_node(program=newer)
        fleet.wait_until_up()
        time.sleep(4)
        edit(fleet, None, newer)
        edit(fleet, newer, None)
        fleet.kill(first)
        time.sleep(10)
        restarted = fleet.start_node()
        fleet.start_node(program=newer)
        fleet.wait_until_up()
        fleet.kill(restarted)
        time.sleep(4)
        assert schema_of(fleet, None) == schema_of(fleet, newer) == before + 1
        end = asyncio.run(finish(fleet, JOBS, patience=30))
        codes = fleet.stop()
    finally:
        fleet.stop(5)
    history = asyncio.run(read(fleet, JOBS, end))
    # How soon a dead node's runs are taken over is proved where nothing else starts meanwhile.
    assert [fault for fault in check(history) if fault.kind is not FaultKind.TAKE_OVER] == []
    assert codes == [0, 0]
    assert fleet.left_over() == []
    runs = [run for ledger in history.ledgers for run in ledger.runs]
    assert {ids_of(fleet, number) for number in (0, 1)} <= {run.node_id for run in runs}
    if fleet.url.startswith("postgres"):  # of the others the rules are not in the store
        marked = {run.node_id for run in runs if run.result == programs.MARK}
        assert ids_of(fleet, 1) in marked <= {ids_of(fleet, number) for number in (1, 3)}


def edit(fleet: Fleet, first: Path | None, second: Path | None) -> None:
    """One program changes a job, the other one sees it, pauses and resumes it."""
    programs.say(first, fleet.url, "job", "update", "theirs", "--priority", "7")
    assert '"priority":7' in programs.say(second, fleet.url, "--json", "job", "show", "theirs").replace(" ", "")
    programs.say(second, fleet.url, "job", "pause", "theirs")
    programs.say(first, fleet.url, "job", "resume", "theirs")
    programs.say(second, fleet.url, "job", "update", "theirs", "--priority", "0")


def schema_of(fleet: Fleet, program: Path | None) -> int:
    """The number of the store's schema, as this program reads it."""
    status = json.loads(programs.say(program, fleet.url, "--json", "db", "status"))
    assert status["pending"] == []
    return int(status["version"])


def ids_of(fleet: Fleet, number: int) -> NodeId:
    """The id under which a node ran jobs, from its log."""
    words = (fleet.folder / f"node{number}.log").read_text().partition("Node ")[2]
    return NodeId(words.split()[0])
