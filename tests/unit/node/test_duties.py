"""What a node does again and again: each duty is asked when it wants its next step, and gets it."""

import pytest

from tests.unit.node.world import Member, World
from tokimori.clock import Moment
from tokimori.errors import StoreUnavailable
from tokimori.model.ids import NodeId
from tokimori.model.transitions import RunState
from tokimori.ports.nodes import Pulse


class Every:
    """A duty with a step every so many seconds, which may fail."""

    def __init__(self, period: float, at: float) -> None:
        self._period = period
        self.next_at = at + period
        self.steps: list[tuple[NodeId, Moment]] = []
        self.fails = False
        self.finds_work = False

    async def step(self, by: NodeId, now: Moment, at: float) -> bool:
        """See `Duty`."""
        self.next_at = at + self._period
        self.steps.append((by, now))
        if self.fails:
            raise StoreUnavailable("away")
        return self.finds_work


@pytest.fixture
def world() -> World:
    """A fresh one."""
    return World()


async def joined(world: World, period: float) -> tuple[Member, Every]:
    """A node with one more duty."""
    member = await world.join()
    duty = Every(period, world.clock.monotonic())
    member.node._duties += (duty,)
    return member, duty


async def test_a_node_wakes_for_each_step(world: World) -> None:
    """A duty that wants a step between two beats gets it at its moment, by the node's id and in the store's time."""
    member, duty = await joined(world, 0.7)
    began = world.clock.now()
    await world.pass_time(7.01)
    steps = [(now - began) / 1_000_000 for _, now in duty.steps]
    assert steps == pytest.approx([0.7 * n for n in range(1, 11)])
    assert {by for by, _ in duty.steps} == {member.node.id}


async def test_the_reaper_hears_of_every_beat(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the store says to the node's beats is told to the duty that takes over, as long as the node lives."""
    member, heard = await world.join(), list[Pulse]()
    monkeypatch.setattr(member.node._reaper, "receive", heard.append)
    member.link.calls.clear()
    await world.pass_time(10)
    assert len(heard) == member.link.calls["tick"] >= 5


async def test_a_duty_that_fails_hinders_no_other(world: World) -> None:
    """Its error ends the cycle, after everything else was done in it."""
    member, duty = await joined(world, 0.1)
    duty.fails = True
    job = await world.add(schedule=None)
    (run_id,) = await world.trigger(job)
    await world.pass_time(0.2)
    assert member.executor.running == [run_id]
    assert len(duty.steps) == 2


async def test_what_a_duty_finds_is_looked_for_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a step that may have made something ready the node looks, though nobody woke it."""
    monkeypatch.setattr(world.store, "watch", lambda _wake: None)
    member, duty = await joined(world, 0.3)
    await world.pass_time(0.1)
    (run_id,) = await world.trigger(await world.add(schedule=None))
    duty.finds_work = True
    await world.pass_time(0.21)
    assert member.executor.running == [run_id]


async def test_a_node_that_stops_takes_no_more_steps(world: World) -> None:
    """While it drains only what running attempts write is still saved."""
    member, duty = await joined(world, 0.1)
    await world.trigger(await world.add(schedule=None))
    await world.pass_time(0.05)
    member.node.stop()
    await world.pass_time(1)
    assert duty.steps == []
    assert len(await world.runs(RunState.RUNNING)) == 1
