"""A node on a machine that has enough to do."""

import pytest

from tests.unit.node.world import World
from tokimori.model.transitions import RunState
from tokimori.node.worker import LoadCap


def test_beginning_and_end_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Above the cap nothing is claimed, and without one the load is never asked for."""
    loads = [1.0, 2.0, 2.5, 9.0, 2.0, 1.0, 3.0]
    cap = LoadCap(2, iter(loads).__next__)
    assert [cap.look() for _ in loads] == [False, False, True, True, False, False, True]
    began = "no run is claimed until the load average, {}, is at most 2 (node.max_load)"
    assert caplog.messages == [
        began.format("2.50"),
        "runs are claimed again: the load average is 2.00",
        began.format("3.00"),
    ]
    assert not LoadCap(None, iter([]).__next__).look()


async def test_a_node_under_load_claims_nothing_new() -> None:
    """What runs goes on and is settled; what is ready waits, unharmed, until the load has fallen."""
    world, load = World(), [1.0]
    job = await world.add(schedule=None)
    member = await world.join(load=lambda: load[0], max_load=4.0)
    (first,) = await world.trigger(job)
    await world.pass_time(3)
    load[0] = 4.5
    (second,) = await world.trigger(job)
    member.executor.end(first)
    await world.pass_time(60)
    assert ((await world.run(first)).state, (await world.run(second)).state) == (RunState.SUCCEEDED, RunState.READY)
    assert member.node.healthy
    load[0] = 4.0
    await world.pass_time(3)
    assert member.executor.running == [second]
