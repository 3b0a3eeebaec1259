"""What a node was asked, and how far its stopping has come."""

import pytest

from tokimori.node.stopping import Phase, Stopping
from tokimori.testing.manual import VirtualClock


def test_each_order_goes_one_phase_further() -> None:
    """Asked once it drains, then it releases, then it leaves, and stays at that."""
    stopping, phases = Stopping(VirtualClock(), 30), []
    assert stopping.working
    for _ in range(4):
        said = stopping.ask()
        phases.append((stopping.phase, said.partition(":")[0]))
    assert phases == [
        (Phase.DRAINING, "The node stops"),
        (Phase.RELEASING, "The node stops now"),
        (Phase.LEAVING, "The node stops at once"),
        (Phase.LEAVING, "The node stops at once"),
    ]
    assert not stopping.working


def test_a_node_goes_on_answering_for_a_while() -> None:
    """From when it was asked to stop; asked again it does not."""
    clock = VirtualClock()
    stopping = Stopping(clock, 30)
    assert not stopping.drains(5)
    stopping.ask()
    clock.advance(4)
    assert stopping.drains(5)
    clock.advance(2)
    assert not stopping.drains(5)
    assert stopping.drains(60)
    stopping.ask()
    assert not stopping.drains(60)


def test_the_grace_ends_once() -> None:
    """A node that drains releases when its grace is over, and is told so one time; one that works has no grace."""
    clock = VirtualClock()
    stopping = Stopping(clock, 30)
    clock.advance(100)
    assert not stopping.grace_is_over()
    stopping.ask()
    assert stopping.release_at == pytest.approx(clock.monotonic() + 30)
    clock.advance(29.9)
    assert not stopping.grace_is_over()
    clock.advance(0.2)
    assert [stopping.grace_is_over(), stopping.grace_is_over()] == [True, False]
    assert stopping.phase is Phase.RELEASING
