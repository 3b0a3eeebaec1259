"""Nodes whose store's clock is wrong for a while: when it is right again all goes on, and no moment comes twice."""

from collections import Counter

import pytest

from tests.unit.examples import NEW_YEAR
from tests.unit.node.world import World
from tokimori.clock import MINUTE, SECOND, Moment
from tokimori.model.ids import JobId
from tokimori.model.policies import Misfire
from tokimori.model.run import Details
from tokimori.model.transitions import RunState

LONG = 900.0
"""Seconds, in place of two days: over all of them nodes beat here."""


@pytest.fixture
def world() -> World:
    """A store and no node yet."""
    return World()


async def is_wrong(world: World, by: float, duration: float) -> None:
    """For so long the store's clock is wrong by so many seconds; then it is right."""
    for offset in (by, 0.0):
        world.store_clock._offset = round(offset * SECOND)
        if offset:
            await work(world, duration)


async def work(world: World, duration: float) -> None:
    """Let time pass, in which whatever begins ends well."""

    def end_all() -> None:
        for member in world.members:
            member.executor.end_all()

    await world.pass_time(duration, each=end_all)


async def minutes_without(world: World, job_id: JobId, since: Moment, until: Moment) -> list[Moment]:
    """The full minutes that are neither a run nor in a skip of the job, which has no moment twice."""
    fired = Counter(run.nominal for run in await world.runs() if run.job_id == job_id)
    assert not fired or max(fired.values()) == 1
    skips = await world.store.skips(job_id, limit=100_000)
    every = [Moment(each) for each in range(since - since % MINUTE + MINUTE, until + 1, MINUTE)]
    assert not [each for each in every if each in fired and any(s.first == each == s.last for s in skips)]
    return [each for each in every if each not in fired and not any(s.first <= each <= s.last for s in skips)]


@pytest.mark.parametrize("misfire", [Misfire.LATEST, Misfire.ALL])
@pytest.mark.parametrize("by", [LONG, -LONG])
async def test_a_clock_that_was_wrong_leaves_nothing_behind(world: World, by: float, misfire: Misfire) -> None:
    """Ahead or behind: jobs fire on within two and a half minutes, and through the stretch that was the future once."""
    await world.add("minutely", schedule="* * * * *", misfire=misfire, max_running=0)
    await world.join()
    await world.join()
    await work(world, 130)
    await is_wrong(world, by, 75)
    await work(world, 150)
    job, now = await world.store.get_job(JobId("minutely")), world.clock.now()
    assert job.next_due is not None
    assert job.fired_through <= now + MINUTE
    assert misfire is Misfire.ALL or job.next_due <= now + MINUTE
    await work(world, LONG + 300)
    assert await minutes_without(world, job.id, NEW_YEAR, Moment(world.clock.now() - MINUTE)) == []


@pytest.mark.parametrize("wrong", [False, True])
async def test_a_node_that_begins_when_the_clock_is_right_again_finds_what_is_ahead(world: World, wrong: bool) -> None:
    """By the newest run, which was made after now."""
    await world.add("minutely", schedule="* * * * *", max_running=0)
    world.store_clock._offset = round(LONG * SECOND) if wrong else 0
    first = await world.join()
    await work(world, 75)
    first.frozen = True
    world.store_clock._offset = 0
    await world.join()
    await work(world, 180)
    job = await world.store.get_job(JobId("minutely"))
    assert job.next_due is not None
    assert job.next_due <= world.clock.now() + MINUTE
    assert job.version == (2 if wrong else 1)


@pytest.mark.parametrize("claimed", [False, True])
async def test_nothing_expires_by_a_clock_that_leaps(world: World, claimed: bool) -> None:
    """Neither what stands still nor what is claimed; what expires by the old time too ends as skipped."""
    job = await world.add("job", max_running=0, schedule=None)
    await world.join()
    await work(world, 10)
    world.store_clock._offset = round(LONG * SECOND)
    await work(world, 15)
    state, now = RunState.READY if claimed else RunState.HELD, world.clock.now()
    of_both = [
        (await world.trigger(job, state=state, details=Details(expires=Moment(now + left * SECOND))))[0]
        for left in (60, 5)
    ]
    await work(world, 0.5 if claimed else 30)
    first, second = [(await world.run(each)).state for each in of_both]
    assert first is (RunState.SUCCEEDED if claimed else RunState.HELD)
    assert second is (RunState.SUCCEEDED if claimed else RunState.SKIPPED)
    (late,) = await world.trigger(job, details=Details(expires=now))
    await work(world, 5)
    assert (await world.run(late)).state is RunState.SKIPPED
