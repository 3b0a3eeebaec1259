"""How often the garbage collector looks through the heap of a node."""

import gc
from collections.abc import Iterator

import pytest

from tokimori.node.wiring import YOUNG, spare_the_collector


@pytest.fixture
def _collector() -> Iterator[None]:
    """Python's own thresholds, and afterwards those of the tests."""
    thresholds = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*thresholds)


@pytest.mark.usefixtures("_collector")
def test_what_a_claim_brings_begins_no_look() -> None:
    """Five thousand objects that live for a moment are freed without the collector, again and again."""
    spare_the_collector()
    looks = gc.get_stats()[0]["collections"]

    for _ in range(10):
        claim = [[n] for n in range(5_000)]
        del claim

    assert gc.get_stats()[0]["collections"] == looks


@pytest.mark.usefixtures("_collector")
def test_garbage_in_cycles_is_found_in_time() -> None:
    """What refers to itself is freed when as many new objects have come as are allowed to."""
    spare_the_collector()
    collected = gc.get_stats()[0]["collected"]

    for _ in range(2 * YOUNG):
        cycle: list[object] = []
        cycle.append(cycle)

    assert gc.get_stats()[0]["collected"] >= collected + YOUNG // 2
