"""A node decides a moment ahead what it writes at its moment."""

import pytest

from tests.unit.examples import seconds
from tests.unit.node.world import World, second
from tokimori.engine.lookout import Rhythm
from tokimori.model.policies import Misfire
from tokimori.model.run import SkipReason


@pytest.fixture
def world() -> World:
    """A fresh one."""
    return World()


async def test_at_its_moment_an_occurrence_is_only_written(world: World) -> None:
    """The node has read and decided before: when the moment comes it writes, and asks for nothing else first."""
    await world.add(schedule="*/5 * * * * *")
    member = await world.join()
    await world.pass_time(4.95)
    assert await world.runs() == []
    read = member.link.calls["due"]
    assert read == 1
    await world.pass_time(0.05)
    (run,) = await world.runs()
    assert (run.created, member.link.calls["due"]) == (seconds(5), read)


async def test_a_node_with_ticks_foresees_each(world: World) -> None:
    """What is due by its next tick is read shortly before that, once."""
    await world.add(schedule="30 * * * * *")
    member = await world.join(rhythm=Rhythm(interval_minutes=1))
    await world.pass_time(59.8)
    assert member.link.calls["due"] == 0
    await world.pass_time(0.2)
    (run,) = await world.runs()
    assert (second(run.nominal), second(run.created), member.link.calls["due"]) == (30, 60, 1)


async def test_a_job_that_comes_at_the_last_moment_is_fired_too(world: World) -> None:
    """What was added after the node had looked ahead is found at the moment itself."""
    await world.add("early", schedule="*/5 * * * * *")
    await world.join()
    await world.pass_time(4.95)
    await world.add("late", schedule="*/5 * * * * *")
    await world.pass_time(0.05)
    assert {run.job_id: run.created for run in await world.runs()} == {"early": seconds(5), "late": seconds(5)}


async def test_a_node_that_froze_after_it_looked_ahead_asks_the_policies(world: World) -> None:
    """It wakes when what it had foreseen is missed: nothing of that is written, the misfire policy decides."""
    job = await world.add(schedule="0 */5 * * * *", misfire=Misfire.SKIP)
    member = await world.join()
    await world.pass_time(299.95)
    assert member.link.calls["due"] == 1
    member.frozen = True
    await world.pass_time(120)
    member.frozen = False
    await world.pass_time(5)
    assert await world.runs() == []
    (skip,) = await world.store.skips(job.id)
    assert (skip.first, skip.count, skip.reason) == (seconds(300), 1, SkipReason.MISFIRE)


async def test_a_store_that_fails_when_it_is_asked_ahead_costs_nothing(world: World) -> None:
    """The node asks again, at the latest at the moment."""
    await world.add(schedule="*/5 * * * * *")
    member = await world.join()
    await world.pass_time(4.85)
    member.link.lose_call["due"] = 1
    await world.pass_time(0.2)
    assert [run.created for run in await world.runs()] == [seconds(5)]


async def test_what_is_due_in_close_succession_is_fired_together(world: World) -> None:
    """What comes a few milliseconds later is not foreseen: others that have come by then are fired with it."""
    for name, moment in [("first", "00:00:05.000"), ("second", "00:00:05.010")]:
        await world.add(name, schedule=f"at 2030-01-01T{moment}Z")
    member = await world.join()
    await world.pass_time(5.005)
    assert member.link.calls["due"] == 1
    await world.pass_time(0.1)
    assert {run.job_id: run.created for run in await world.runs()} == {"first": seconds(5), "second": seconds(5.01)}
