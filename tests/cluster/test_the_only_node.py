"""The only node dies in the middle of work: nothing is lost, and nothing is left running twice."""

import asyncio
import time
from pathlib import Path

import pytest

from tests.cluster.accounts import finish, prepare, read, report
from tests.cluster.checker import check
from tests.cluster.fleet import Fleet

JOBS = 10
KEEPER_GRACE = 3


@pytest.mark.prove
def test_a_killed_node_is_made_good_at_the_next_start(tmp_path: Path) -> None:
    """After kill -9 of the only node its processes end, and the next start makes every occurrence good, once."""
    fleet = Fleet(tmp_path)
    asyncio.run(prepare(fleet, JOBS))
    try:
        node = fleet.start_node()
        time.sleep(5.5)
        fleet.kill(node)
        time.sleep(KEEPER_GRACE)
        left_over = fleet.left_over()
        fleet.note_silence(node)  # where no node is left, take-over counts from the next start
        fleet.start_node()
        time.sleep(11)
        end = asyncio.run(finish(fleet, JOBS, patience=15))
        codes = fleet.stop()
    finally:
        fleet.stop(5)
    history = asyncio.run(read(fleet, JOBS, end))
    assert left_over == []
    assert check(history) == []
    assert codes == [0]
    assert fleet.left_over() == []
    assert fleet.integrity() == "ok"
    report(history)
