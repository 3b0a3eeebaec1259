"""A node whose app can't be loaded for a while."""

from tests.unit.node.world import World
from tokimori.model.target import Function, Noop
from tokimori.model.transitions import RunState


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
