"""A job with all that is shown with it."""

import asyncio
from itertools import count

import pytest

from tests.unit.examples import NEW_YEAR, seconds
from tests.unit.service.world import World
from tokimori.model.lanes import Pause
from tokimori.service.view_cache import Foreseen


async def test_what_is_shown_with_a_job_is_asked_at_once(world: World) -> None:
    """Its next moments, edges and pauses come with it; the job itself is asked for once, not once for each of them."""
    await world.add({"noop": True}, "parent")
    await world.add({"noop": True, "schedule": "every 10 seconds", "queue": "mail"}, "timed")
    await world.add({"noop": True, "parents": [{"job": "parent"}]}, "child")
    pause = await world.service.queues.pause("mail")
    asked = {name: world.count(name) for name in ("get_job", "family", "list_pauses")}
    timed = await world.service.jobs.shown("timed", 2)
    assert {name: len(calls) for name, calls in asked.items()} == {"get_job": 1, "family": 1, "list_pauses": 1}
    assert timed.moments == [seconds(10), seconds(20)]
    assert (timed.facts.edges, timed.facts.too_heavy) == ([], ())
    assert timed.facts.pauses == (pause,) == (Pause(queue="mail", since=NEW_YEAR, by="ada"),)
    child = await world.service.jobs.shown("child")
    assert [(edge.parent, edge.child) for edge in child.facts.edges] == [("parent", "child")]
    assert child.facts.edges == (await world.service.jobs.shown("parent")).facts.edges
    assert (child.moments, child.facts.pauses) == ([], ())


async def test_a_stopped_job_is_shown_without_moments(world: World) -> None:
    """Nothing of a paused job will fire, so no moment is promised."""
    await world.add({"noop": True, "schedule": "every 10 seconds"}, "timed")
    await world.service.jobs.pause("timed")
    assert (await world.service.jobs.shown("timed")).moments == ()


async def test_what_is_shown_follows_every_change(world: World) -> None:
    """It is the same object until the first moment comes, time goes back, or the job or a pause changes."""
    await world.add({"noop": True, "schedule": "every 10 seconds"}, "timed")
    first = await world.service.jobs.shown("timed", 2)
    world.pass_seconds(9)
    assert await world.service.jobs.shown("timed", 2) is first
    assert (await world.service.jobs.shown("timed", 1)).moments == [seconds(10)]
    assert (await world.service.jobs.shown("timed", 2)).moments == [seconds(10), seconds(20)]
    world.pass_seconds(1)
    assert (await world.service.jobs.shown("timed", 2)).moments == [seconds(20), seconds(30)]
    world.pass_seconds(-1)
    assert (await world.service.jobs.shown("timed", 2)).moments == [seconds(10), seconds(20)]
    await world.update("timed", {"schedule": "every 7 seconds"})
    assert (await world.service.jobs.shown("timed", 1)).moments == [seconds(16)]
    pause = await world.service.queues.pause()
    assert (await world.service.jobs.shown("timed", 1)).facts.pauses == (pause,)
    await world.service.queues.resume()
    assert (await world.service.jobs.shown("timed", 1)).facts.pauses == ()


async def test_a_store_that_says_nothing_was_written_is_not_asked(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until its mark is another one, the first moment has come, or another number of moments is wanted."""
    await world.add({"noop": True, "schedule": "every 10 seconds"}, "timed")
    marks = ["a"]
    monkeypatch.setattr(world.service._shared.foreseen, "_look", lambda: marks[-1])
    first = await world.service.jobs.shown("timed")
    asked = world.count("get_job")
    assert await world.service.jobs.shown("timed") is first
    assert asked == []
    await world.service.jobs.shown("timed", 1)
    assert len(asked) == 1
    world.pass_seconds(10)
    assert (await world.service.jobs.shown("timed", 1)).moments == [seconds(20)]
    assert len(asked) == 2
    await world.service.queues.pause()
    marks.append("b")
    await asyncio.sleep(0)  # whoever writes is heard in another step
    assert (await world.service.jobs.shown("timed", 1)).facts.pauses
    assert len(asked) == 3


async def test_the_mark_is_looked_up_once_in_a_step_of_the_loop() -> None:
    """Who asks in one step gets the same mark; who is told of a write afterwards gets a new one."""
    numbers, written = count(), asyncio.get_running_loop().create_future()
    foreseen = Foreseen(lambda: next(numbers))

    async def ask_when_written() -> object:
        await written
        return foreseen.mark()

    waiting = asyncio.create_task(ask_when_written())
    await asyncio.sleep(0)
    assert [foreseen.mark(), foreseen.mark()] == [0, 0]
    asyncio.get_running_loop().call_soon_threadsafe(written.set_result, None)
    assert await waiting == 1
