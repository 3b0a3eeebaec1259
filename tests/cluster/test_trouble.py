"""Three nodes on one PostgreSQL in trouble: nothing is missed, doubled or early, and nobody is missed for long."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.fault_table import ROW
from tests.cluster.proof import RECOVERY, Proof, prove
from tests.cluster.trouble import TROUBLES

Record = Callable[[str, object], None]


def check(proof: Proof, record: Record) -> None:
    """Show what came out, and fail where anything that was promised did not hold."""
    record(ROW, proof.row())
    assert [fault.text for fault in proof.faults] == []
    assert proof.runs == proof.occurrences
    assert proof.recovery is None or proof.recovery <= RECOVERY
    assert set(proof.codes) == {0}
    assert list(proof.left_over) == []


@pytest.mark.prove
def test_wrong_and_jumping_clocks_and_ended_sessions_lose_and_double_nothing(
    tmp_path: Path, record_property: Record
) -> None:
    """Every occurrence is one run, whatever the nodes' clocks say, while sessions end and the server restarts."""
    proof = prove("all but lost nodes", tmp_path, jobs=50, writers=5, seconds=12, freeze=0)
    assert proof.runs >= 50 * 12
    check(proof, record_property)


@pytest.mark.prove
@pytest.mark.timeout(300)
@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_minute_of_trouble_loses_and_doubles_nothing(trouble: str, tmp_path: Path, record_property: Record) -> None:
    """Of 200 jobs that are due every second for a minute every occurrence is one run, and none is early."""
    proof = prove(trouble, tmp_path, jobs=200, writers=10, seconds=60, freeze=20)
    assert proof.runs >= 200 * 60
    check(proof, record_property)
