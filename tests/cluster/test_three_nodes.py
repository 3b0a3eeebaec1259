"""Three nodes on one store, one killed and one frozen, and the proof that nothing was missed or doubled."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.accounts import finish, prepare, read, report
from tests.cluster.checker import check, take_overs
from tests.cluster.fleet import Fleet
from tests.servers import postgres

JOBS = 50


@pytest.fixture(params=["sqlite", "postgres"])
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    """Nodes to be, on an empty store of each kind."""
    if request.param == "sqlite":
        yield Fleet(tmp_path)
        return
    yield Fleet(tmp_path, postgres.loans.url_of(tmp_path))
    postgres.loans.give_back(tmp_path)


def prove(fleet: Fleet, seconds: int, frozen: int) -> None:
    """Run the fleet with both faults, and check what is left."""
    asyncio.run(prepare(fleet, JOBS))
    try:
        first, second, _ = (fleet.start_node() for _ in range(3))
        time.sleep(seconds / 4)
        fleet.wait_until_it_runs(first)
        fleet.freeze(first)
        time.sleep(max(0, seconds / 2 - seconds / 4))
        fleet.kill(second)
        time.sleep(max(0, frozen - seconds / 4))
        fleet.thaw(first)
        time.sleep(max(0, seconds / 2 - max(0, frozen - seconds / 4)))
        end = asyncio.run(finish(fleet, JOBS, patience=30))
        codes = fleet.stop()
    finally:
        fleet.stop(5)
    history = asyncio.run(read(fleet, JOBS, end))
    assert check(history) == []
    assert codes == [0, 0]
    assert fleet.left_over() == []
    assert fleet.integrity() == "ok"
    assert sum(len(ledger.runs) for ledger in history.ledgers) >= JOBS * (seconds - 2)
    assert take_overs(history)
    report(history)


def test_a_kill_and_a_short_freeze_lose_and_double_nothing(fleet: Fleet) -> None:
    """Every occurrence is one run, whatever happens to the nodes."""
    prove(fleet, seconds=24, frozen=12)


@pytest.mark.prove
@pytest.mark.timeout(240)
@pytest.mark.parametrize("fleet", ["sqlite"], indirect=True)
def test_a_kill_and_a_freeze_of_20_seconds_lose_and_double_nothing(fleet: Fleet) -> None:
    """Every occurrence of a minute is one run, with one node killed and another frozen for 20 s.

    On PostgreSQL `test_trouble` proves it, with more jobs and more trouble.
    """
    prove(fleet, seconds=60, frozen=20)
