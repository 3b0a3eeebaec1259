"""Which functions a node claims: those that it serves, and while its app can be loaded."""

import pytest

from tests.unit.node.world import World
from tokimori.model.handlers import Handler
from tokimori.model.ids import Lane
from tokimori.model.lanes import serves
from tokimori.model.target import Function, Noop
from tokimori.model.transitions import RunState
from tokimori.node import identity


async def test_a_node_that_can_start_no_function_claims_none() -> None:
    """It goes on with all else, sleeps meanwhile, and claims them as soon as it is told that it can."""
    world = World()
    function = await world.add("f", target=Function(name="f"), schedule=None)
    other = await world.add("n", target=Noop(), schedule=None)
    member = await world.join(handlers=("f",))
    member.node.able = lambda: False
    waiting, begun = [(await world.trigger(job))[0] for job in (function, other)]
    await world.pass_time(30)
    assert (member.executor.running, (await world.run(waiting)).state) == ([begun], RunState.READY)
    calls = member.link.calls["claim"]
    await world.pass_time(30)
    assert member.link.calls["claim"] == calls
    member.node.able = lambda: True
    member.node.wake()
    await world.pass_time(0)
    assert member.executor.running == [begun, waiting]


async def test_whether_a_lane_is_served_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each claim asks it of all lanes, of which an app of a thousand functions has as many."""
    asked: list[Lane] = []

    def counted(labels: dict[str, str], lane: Lane, handlers: tuple[Handler, ...]) -> bool:
        asked.append(lane)
        return serves(labels, lane, handlers)

    monkeypatch.setattr(identity, "serves", counted)
    world = World()
    await world.join(handlers=("f0",))
    for n in range(10):
        await world.trigger(await world.add(f"j{n}", target=Function(name=f"f{n}"), schedule=None))
        await world.pass_time(3)
    assert sorted(asked) == [f"default|f{n}|" for n in range(10)]
