"""May a node still work?"""

import pytest

from tokimori.model.lease import DEAD_AFTER, LEASE, TICK_BUSY, TICK_IDLE, Lease


@pytest.mark.parametrize(("at", "holds"), [(10.0, True), (14.999, True), (15.0, False), (99.0, False)])
def test_five_seconds_from_when_it_was_sent(at: float, holds: bool) -> None:
    """A lease holds for 5 s from when the last answered beat was sent, and not a moment longer."""
    assert Lease(10.0).holds(at) is holds


def test_a_node_gives_up_before_others_take_over() -> None:
    """The lease, and the 1.5 s in which processes are ended after it, are over before anybody may call a node dead."""
    assert LEASE + 1.5 < DEAD_AFTER
    assert TICK_BUSY < TICK_IDLE < LEASE / 2
