"""Two nodes on each store, and what can happen to it: nothing is missed or doubled, and all is soon well again."""

from pathlib import Path

import pytest

from tests.cluster.proof import prove_store
from tests.cluster.store_faults import FAULTS
from tests.cluster.test_trouble import Record, check


@pytest.mark.prove
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("store", "fault"), FAULTS, ids=lambda word: word.replace(" ", "-"))
def test_no_fault_of_a_store_loses_or_doubles_anything(
    store: str, fault: str, tmp_path: Path, record_property: Record
) -> None:
    """Every occurrence is one run, nodes go on unaided, and soon after the fault all is punctual again."""
    proof = prove_store(store, fault, tmp_path, jobs=20, before=3, seconds=6)
    assert proof.runs >= 20 * 9
    check(proof, record_property)
