"""Orders go by the store's time, whatever the clock of who gives them says."""

import os

import pytest

from tests.unit.virtual import Link, OffsetClock
from tokimori.clock import HOUR, SECOND, Moment
from tokimori.errors import StoreUnavailable
from tokimori.ports.store import RunFilter
from tokimori.service.service import Service, service_on
from tokimori.service.store_calls import FRESH, StoreTime
from tokimori.stores.memory.store import MemoryStore
from tokimori.testing.manual import VirtualClock


class World:
    """A store with its clock."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock)


@pytest.fixture
def world() -> World:
    """A fresh one."""
    return World()


def ahead(world: World, seconds: float = 3600.0) -> Service:
    """A door on a machine whose clock is wrong by so many seconds."""
    return service_on(world.store, OffsetClock(world.clock, seconds), os.urandom)


@pytest.mark.parametrize("wrong", [3600.0, -3600.0])
async def test_an_edit_makes_no_runs_of_what_has_not_come(world: World, wrong: float) -> None:
    """A job of every minute is edited at a machine whose clock is an hour off: nothing is decided, nothing lost."""
    door = ahead(world, wrong)
    job = await door.jobs.add("job", command="true", schedule="* * * * *")
    assert job.next_due is not None and job.next_due - world.clock.now() <= 60 * SECOND
    edited = await door.jobs.update("job", command="false")
    assert await world.store.list_runs(RunFilter()) == []
    assert (edited.next_due, await world.store.skips(job.id)) == (job.next_due, [])


@pytest.mark.parametrize("wrong", [3600.0, -3600.0])
async def test_a_pause_silences_no_job(world: World, wrong: float) -> None:
    """Who pauses and resumes at once loses no moment."""
    door = ahead(world, wrong)
    job = await door.jobs.add("job", command="true", schedule="* * * * *")
    await door.jobs.pause("job")
    resumed = await door.jobs.resume("job")
    assert (resumed.next_due, await world.store.skips(job.id)) == (job.next_due, [])


async def test_a_request_is_due_now(world: World) -> None:
    """A run that is asked for is ready, and throttled for no longer than it says."""
    door = ahead(world)
    await door.jobs.add("job", command="true")
    run = await door.jobs.trigger("job", "key", throttle=60.0)
    assert (run.state, run.due) == ("ready", world.clock.now())
    world.clock.advance(61)
    assert (await door.jobs.trigger("job", "key", throttle=60.0)).id != run.id


async def test_the_store_is_asked_now_and_then(world: World) -> None:
    """Between two questions this machine's monotonic clock carries the time on, whatever its wall clock does."""
    link, wrong = Link(world.store), OffsetClock(world.clock, HOUR / SECOND)
    now = StoreTime(link.store.now, wrong)
    for _ in range(4):
        assert await now() == world.clock.now()
        world.clock.advance(FRESH / 2)
    assert link.calls["now"] == 2


async def test_a_lost_reply_is_asked_for_again(world: World) -> None:
    """One lost reply harms nobody; a store that stays away is told."""
    link = Link(world.store)
    link.lose_reply["now"] = 1
    assert await StoreTime(link.store.now, world.clock)() == Moment(world.clock.now())
    link.away = True
    with pytest.raises(StoreUnavailable):
        await StoreTime(link.store.now, world.clock)()
