"""How a node stops."""

import os
from contextlib import suppress

import pytest

from tests.unit.node.world import World
from tokimori.clock import Moment
from tokimori.errors import StoreError
from tokimori.model.transitions import RunState
from tokimori.node.node import LONGEST_SLEEP, Node
from tokimori.node.stopping import FAREWELL, Phase
from tokimori.ports.executor import StopReason
from tokimori.ports.working import Claim, Claimed


@pytest.fixture
def world() -> World:
    """A fresh one."""
    return World()


async def test_an_idle_node_leaves_at_once(world: World) -> None:
    """With nothing in hand, a node that is asked to stop has left after a cycle."""
    member = await world.join()
    member.node.stop()
    await world.pass_time(0.1)
    assert member.node.finished
    assert await world.node_states() == {member.node.id: "left"}


async def test_a_node_is_ready_from_when_it_has_joined_until_it_stops(world: World) -> None:
    """And not while its store is silent; each reason is told."""
    member = await world.join()
    fresh = Node(world.store, member.executor, world.clock, os.urandom, member.node.identity)
    said = [fresh.unready, member.node.unready]
    world.clock.advance(60)
    said.append(member.node.unready)
    await world.pass_time(5)
    said.append(member.node.unready)
    member.node.stop()
    said.append(member.node.unready)
    assert said == ["the node has not joined yet", None, "the store does not answer", None, "the node stops"]


async def test_a_node_that_has_left_sleeps_no_more(world: World) -> None:
    """The cycle in which it left asks for no sleep: whoever waits for the process waits for nothing else."""
    member = await world.join()
    await world.pass_time(1)
    member.node.stop()
    delays = []
    while not member.node.finished:
        delays.append(await member.node.cycle())
    assert delays[-1] == 0


async def test_a_draining_node_claims_nothing(world: World) -> None:
    """Asked once, it claims and fires no more, hands back its backlog unpenalised, and lets runs finish."""
    job = await world.add(schedule=None)
    member = await world.join(concurrency=1)
    member.node._worker.work.pace.rate = 50.0  # as measured on a busy node: it claims ahead
    first, second = await world.trigger(job, 2)
    await world.pass_time(0.1)
    member.node.stop()
    (third,) = await world.trigger(job)
    await world.pass_time(10)
    for run_id in (second, third):
        run = await world.run(run_id)
        assert (run.state, run.failures, run.lost) == (RunState.READY, 0, 0)
        assert await world.store.attempts(run_id) == []
    assert member.executor.running == [first]
    assert member.executor.stops == []
    member.executor.end(first)
    await world.pass_time(0.1)
    assert member.node.finished
    assert (await world.run(first)).state is RunState.SUCCEEDED


async def test_what_is_claimed_while_the_stop_comes_is_not_begun(world: World) -> None:
    """Runs of a claim that is answered after the order to stop are handed back, unpenalised, and never started."""
    job = await world.add(schedule=None)
    member = await world.join()
    (run_id,) = await world.trigger(job)
    answered = world.store.claim

    async def claim_as_the_stop_comes(claim: Claim, now: Moment) -> list[Claimed]:
        member.node.stop()
        return await answered(claim, now)

    world.store.claim = claim_as_the_stop_comes  # type: ignore[method-assign]
    await world.pass_time(0.1)
    run = await world.run(run_id)
    assert (run.state, run.attempt, member.executor.tasks) == (RunState.READY, 1, [])
    assert member.node.finished


async def test_the_second_stop_does_not_wait_for_the_store(world: World) -> None:
    """Whatever the store is busy with: the second order ends processes as it comes, the third one kills them."""
    job = await world.add(schedule=None)
    member = await world.join()
    await world.trigger(job)
    await world.pass_time(0.1)
    for _ in range(3):
        member.node.stop()
    assert [stop.grace for stop in member.executor.stops] == [None, 0]


async def test_after_the_grace_what_runs_is_handed_back(world: World) -> None:
    """When the grace is over, processes are ended, their runs are ready for others, and the node leaves."""
    job = await world.add(schedule=None)
    member = await world.join(stop_grace=30)
    (run_id,) = await world.trigger(job)
    await world.pass_time(0.1)
    member.node.stop()
    await world.pass_time(29.5)
    assert member.executor.stops == []
    await world.pass_time(1)
    assert [(stop.reason, stop.grace) for stop in member.executor.stops] == [(StopReason.RELEASE, None)]
    waited = not member.node.finished
    member.executor.obey()
    await world.pass_time(0.1)
    assert (waited, member.node.finished) == (True, True)
    run = await world.run(run_id)
    assert (run.state, run.failures, run.lost) == (RunState.READY, 0, 0)
    other = await world.join()
    await world.pass_time(0.1)
    assert other.executor.running == [run_id]


async def test_asked_twice_it_hands_back_now(world: World) -> None:
    """The second time there is no grace any more; the third time nothing is asked politely."""
    job = await world.add(schedule=None)
    member = await world.join(stop_grace=30)
    await world.trigger(job)
    await world.pass_time(0.1)
    member.node.stop()
    member.node.stop()
    await world.pass_time(0.1)
    assert [stop.grace for stop in member.executor.stops] == [None]
    member.node.stop()
    assert [stop.grace for stop in member.executor.stops] == [None, 0]
    member.executor.obey()
    await world.pass_time(0.1)
    assert member.node.finished


async def test_a_stopping_node_still_beats(world: World) -> None:
    """However long it drains, nobody takes its runs over."""
    job = await world.add(schedule=None)
    member, other = await world.join(stop_grace=300), await world.join(labels={"other": "yes"})
    await world.trigger(job)
    await world.pass_time(0.1)
    holder = member if member.executor.running else other
    holder.node.stop()
    await world.pass_time(60)
    assert set((await world.node_states()).values()) == {"alive"}
    assert holder.node.phase is Phase.DRAINING
    assert holder.executor.stops == []


async def test_a_stop_waits_for_the_store(world: World) -> None:
    """A node does not leave before the store knows how its runs ended."""
    job = await world.add(schedule=None)
    member = await world.join()
    (run_id,) = await world.trigger(job)
    await world.pass_time(0.1)
    member.node.stop()
    member.link.away = True
    member.executor.end(run_id)
    await world.pass_time(4)
    waited = not member.node.finished
    member.link.away = False
    await world.pass_time(3)
    assert (waited, member.node.finished) == (True, True)
    assert (await world.run(run_id)).state is RunState.SUCCEEDED


async def test_a_stop_finds_what_a_lost_claim_left(world: World) -> None:
    """Runs whose claim was not heard of are handed back before the node leaves."""
    job = await world.add(schedule=None)
    member = await world.join()
    (run_id,) = await world.trigger(job)
    member.link.lose_reply["claim"] = 1
    await member.cycle()
    await member.cycle()
    assert (await world.run(run_id)).state is RunState.RUNNING
    member.node.stop()
    await world.pass_time(3)
    assert member.node.finished
    run = await world.run(run_id)
    assert (run.state, run.lost) == (RunState.READY, 0)


async def test_a_lost_farewell_is_said_again(world: World) -> None:
    """Where the reply to leaving is lost, the node still comes to its end."""
    member = await world.join()
    member.link.lose_reply["leave"] = 1
    member.node.stop()
    await world.pass_time(3)
    assert member.node.finished
    assert await world.node_states() == {member.node.id: "left"}


async def test_a_cancel_reaches_a_draining_node(world: World) -> None:
    """While a node drains, orders to cancel still come with its ticks."""
    job = await world.add(schedule=None)
    member = await world.join(stop_grace=300)
    (run_id,) = await world.trigger(job)
    await world.pass_time(0.1)
    member.node.stop()
    await world.store.cancel_run(run_id, "by me", world.clock.now())
    await world.pass_time(3)
    assert [stop.reason for stop in member.executor.stops] == [StopReason.CANCEL]


async def test_a_node_that_must_stop_does_not_wait_for_a_store_for_ever(world: World) -> None:
    """Asked three times, a node whose store does not answer ends all the same; others take its runs over."""
    job = await world.add(schedule=None)
    member = await world.join()
    await world.trigger(job)
    await world.pass_time(0.1)
    member.link.away = True
    for _ in range(3):
        member.node.stop()
        await world.pass_time(1)
    member.executor.obey()
    await world.pass_time(30)
    assert member.node.finished


async def test_an_idle_node_does_not_wait_for_its_store(world: World) -> None:
    """Asked once, a node that has nothing in hand says farewell for a few seconds, and goes without an answer."""
    member = await world.join()
    member.link.away = True
    member.node.stop()
    await world.pass_time(FAREWELL - 1)
    waited = not member.node.finished
    await world.pass_time(LONGEST_SLEEP + 2)
    assert (waited, member.node.finished) == (True, True)


async def test_a_node_whose_store_is_away_stops_after_its_grace(world: World) -> None:
    """Asked once, it ends what runs when the grace is over, and soon goes, though nobody has heard of it."""
    job = await world.add(schedule=None)
    member = await world.join(stop_grace=10)
    await world.trigger(job)
    await world.pass_time(0.1)
    member.link.away = True
    member.node.stop()
    await world.pass_time(9)
    assert member.node.phase is Phase.DRAINING
    await world.pass_time(2)
    member.executor.obey()
    await world.pass_time(FAREWELL + LONGEST_SLEEP + 1)
    assert member.node.finished


async def test_a_node_that_leaves_an_absent_store_says_so(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """What the store has not heard of, others take over: the log says that, word by word."""
    job = await world.add(schedule=None)
    member = await world.join()
    await world.trigger(job)
    await world.pass_time(0.1)
    member.link.away = True
    for _ in range(3):
        member.node.stop()
    member.executor.obey()
    for passed in (0, FAREWELL + 1):
        world.clock.advance(passed)
        with suppress(StoreError):
            await member.node.cycle()
    assert "Stopping with unsaved results; other nodes will take over these runs." in caplog.messages
