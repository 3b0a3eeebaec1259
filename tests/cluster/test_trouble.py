"""Three nodes on one PostgreSQL in trouble: nothing is missed, doubled or early, and nobody is missed for long."""

from pathlib import Path

import pytest

from tests.cluster.proof import RECOVERY, prove, table
from tests.cluster.trouble import TROUBLES


def hold(trouble: str, folder: Path, *, jobs: int, writers: int, seconds: float, freeze: float) -> None:
    """Let it happen, print what came out, and fail where anything that was promised did not hold."""
    proof = prove(trouble, folder, jobs=jobs, writers=writers, seconds=seconds, freeze=freeze)
    print(table([proof]))
    assert [fault.text for fault in proof.faults] == []
    assert proof.runs >= proof.occurrences >= jobs * (seconds - 2)
    assert proof.recovery is None or proof.recovery <= RECOVERY
    assert set(proof.codes) == {0}
    assert list(proof.left_over) == []


def test_wrong_and_jumping_clocks_and_ended_sessions_lose_and_double_nothing(tmp_path: Path) -> None:
    """Every occurrence is one run, whatever the nodes' clocks say, while sessions end and the server restarts."""
    hold("all but lost nodes", tmp_path, jobs=50, writers=5, seconds=12, freeze=0)


@pytest.mark.prove
@pytest.mark.timeout(300)
@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_minute_of_trouble_loses_and_doubles_nothing(trouble: str, tmp_path: Path) -> None:
    """Of 200 jobs that are due every second for a minute every occurrence is one run, and none is early."""
    hold(trouble, tmp_path, jobs=200, writers=10, seconds=60, freeze=20)
