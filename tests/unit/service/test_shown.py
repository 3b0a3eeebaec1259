"""A job with all that is shown with it."""

from tests.unit.examples import NEW_YEAR, seconds
from tests.unit.service.world import World
from tokimori.model.pause import Pause


async def test_what_is_shown_with_a_job_is_asked_at_once(world: World) -> None:
    """Its next moments, edges and pauses come with it; the job itself is asked for once, not once for each of them."""
    await world.add({"noop": True}, "parent")
    await world.add({"noop": True, "schedule": "every 10 seconds", "queue": "mail"}, "timed")
    await world.add({"noop": True, "parents": [{"job": "parent"}]}, "child")
    pause = await world.service.queues.pause("mail")
    asked = {name: world.count(name) for name in ("get_job", "family", "list_pauses")}
    timed = await world.service.shown("timed", 2)
    assert {name: len(calls) for name, calls in asked.items()} == {"get_job": 1, "family": 1, "list_pauses": 1}
    assert timed.moments == [seconds(10), seconds(20)]
    assert (timed.edges, timed.too_heavy) == ([], ())
    assert timed.pauses == (pause,) == (Pause(queue="mail", since=NEW_YEAR, by="ada"),)
    child = await world.service.shown("child")
    assert [(edge.parent, edge.child) for edge in child.edges] == [("parent", "child")]
    assert child.edges == (await world.service.shown("parent")).edges
    assert (child.moments, child.pauses) == ([], ())


async def test_a_stopped_job_is_shown_without_moments(world: World) -> None:
    """Nothing of a paused job will fire, so no moment is promised."""
    await world.add({"noop": True, "schedule": "every 10 seconds"}, "timed")
    await world.service.pause("timed")
    assert (await world.service.shown("timed")).moments == ()
