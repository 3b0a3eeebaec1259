"""Five minutes of trouble on each store: nodes, keepers and worker processes killed and frozen, clocks that jump."""

from pathlib import Path

import pytest

from tests.cluster.troubled_soak import PATIENCE, STORES, placed, soak

SECONDS = 300


@pytest.mark.prove
@pytest.mark.timeout(SECONDS + 3 * PATIENCE)
@pytest.mark.parametrize("store", STORES)
def test_a_soak_in_trouble_leaves_every_promise_whole(store: str, tmp_path: Path) -> None:
    """Nothing is missed, nothing begins again against its job's word, and no limit is exceeded."""
    with placed(store, tmp_path) as (fleet, clock):
        findings = soak(fleet, clock, SECONDS, seed=13)
    print(store, dict(findings.figures))
    assert findings.wrong == []
    assert findings.figures["succeeded"] > SECONDS
