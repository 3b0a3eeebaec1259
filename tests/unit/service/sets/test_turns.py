"""Turns at a set: of two who apply it at the same time one is refused, and what was left half done is taken over."""

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.service.world import World
from tokimori.clock import DAY, SECOND, Moment
from tokimori.errors import Conflict, NotFound, Refused
from tokimori.service.documents import Documents
from tokimori.service.schema import StoreOnDemand
from tokimori.service.service import service_on
from tokimori.service.sets.app_jobs import Declared, declare
from tokimori.service.sets.turns import SETS, TURN_LASTS
from tokimori.stores.memory.store import MemoryStore

Jobs = Mapping[str, Any]
OLD: Jobs = {"old": {"noop": True}, "shared": {"noop": True}}
NEW: Jobs = {**{f"new-{number}": {"noop": True} for number in range(3)}, "shared": {"noop": True}}


def wait(world: World, microseconds: int) -> None:
    world.clock.moment = Moment(world.clock.moment + microseconds)


async def ids(world: World) -> set[str]:
    return {job.id for job in await world.service.jobs.list()}


def before_next(store: MemoryStore, method: str, act: Callable[[], Awaitable[object]]) -> None:
    """Have this done once, just before such a store carries out the next call of the method."""
    real, kind = getattr(type(store), method), type(store)

    async def first(store: object, *args: object) -> None:
        setattr(kind, method, real)
        await act()
        await real(store, *args)

    setattr(kind, method, first)


async def test_who_planned_before_another_changed_the_set_is_refused(world: World) -> None:
    """He has changed nothing; asked again he sees what the other one did."""
    await world.service.sets.apply("prod", OLD)
    before_next(world.store, "put_document", lambda: world.service.sets.apply("prod", NEW, prune=True))
    with pytest.raises(Conflict, match="set prod: another apply was faster"):
        await world.service.sets.apply("prod", {"third": {"noop": True}}, prune=True)
    assert await ids(world) == {*NEW}
    assert (await world.service.sets.apply("prod", NEW, prune=True)).unchanged == (*NEW,)


async def test_while_one_is_at_work_others_are_refused(world: World) -> None:
    """By whom and since when is told; a dry run is no change."""
    other = world.service.acting_as("eve")
    told: list[str] = []

    async def while_at_work() -> None:
        with pytest.raises(Conflict) as refused:
            await other.sets.apply("prod", NEW, prune=True)
        told.append(refused.value.message)
        assert [state.state for state in await other.sets.list("prod")] == ["at_work"]
        await other.sets.apply("prod", NEW, dry_run=True)
        await other.sets.apply("staging", {"theirs": {"noop": True}})

    before_next(world.store, "add_jobs", while_at_work)
    await world.service.sets.apply("prod", OLD)
    assert told == [
        "set prod: another apply is at work, by ada since 2030-01-01T00:00:00Z: try again when it has ended; what it "
        "left is free after 2030-01-01T00:00:30Z"
    ]
    assert await ids(world) == {*OLD, "theirs"}


async def test_who_stood_still_longer_than_his_lease_changes_nothing_any_more(world: World) -> None:
    """Somebody has taken over meanwhile: what he declares is there, and nothing of the one who wakes."""
    await world.service.sets.apply("prod", OLD)

    async def frozen() -> None:
        wait(world, TURN_LASTS)
        await world.service.sets.apply("prod", OLD, prune=True)

    before_next(world.store, "delete_job", frozen)
    with pytest.raises(Conflict, match="another apply was faster"):
        await world.service.sets.apply("prod", {**NEW, "late": {"noop": True}}, prune=True)
    assert await ids(world) == {*OLD}
    assert [state.state for state in await world.service.sets.list("prod")] == ["whole"]


async def test_a_lease_is_renewed_while_the_work_goes_on(world: World) -> None:
    """However long all of it takes, nobody else gets in between."""
    await world.service.sets.apply("prod", NEW)
    looks: list[str] = []

    async def slow() -> None:
        wait(world, 20 * SECOND)
        with pytest.raises(Conflict, match="another apply is at work"):
            await world.service.acting_as("eve").sets.apply("prod", {}, prune=True)
        looks.append("at work")
        if len(looks) < len(NEW):
            before_next(world.store, "delete_job", slow)

    before_next(world.store, "delete_job", slow)
    await world.service.sets.apply("prod", {}, prune=True)
    assert (len(looks), await ids(world)) == (4, set())


async def test_what_broke_off_is_half_applied_and_the_next_one_goes_on(world: World) -> None:
    """It is told by whom; applying what is there already makes it whole."""
    await world.service.sets.apply("prod", OLD)

    async def gone() -> None:
        raise Refused("the job is in use")

    before_next(world.store, "delete_job", gone)
    with pytest.raises(Refused, match="in use"):
        await world.service.sets.apply("prod", NEW, prune=True)
    (found,) = await world.service.sets.list()
    assert (found.name, found.state, found.version, found.by, found.jobs) == ("prod", "half_applied", 2, "ada", 5)
    await world.service.sets.apply("prod", NEW, prune=True)
    (found,) = await world.service.sets.list("prod")
    assert (found.state, found.version, found.jobs) == ("whole", 3, 4)


async def test_who_changes_nothing_takes_no_turn(world: World) -> None:
    """The version stays; where the last one broke off it is whole again."""
    await world.service.sets.apply("prod", OLD)
    await world.service.sets.apply("prod", OLD)
    (found,) = await world.service.sets.list("prod")
    assert (found.state, found.version) == ("whole", 1)
    documents = Documents(world.store, SETS, bytes)
    known = await documents.find("prod")
    await documents.replace(known, replace(documents.value_of(known), until=world.clock.now()))
    await world.service.sets.apply("prod", OLD)
    (found,) = await world.service.sets.list("prod")
    assert (found.state, found.version) == ("whole", 2)
    with pytest.raises(NotFound, match="there is no set 'other'"):
        await world.service.sets.list("other")


async def test_a_lease_of_a_clock_that_was_ahead_keeps_nobody_away(world: World) -> None:
    """Whoever was killed then has left the set half applied, as at any other time."""
    await world.service.sets.apply("prod", OLD)
    documents = Documents(world.store, SETS, bytes)
    known = await documents.find("prod")
    ahead = Moment(world.clock.now() + 2 * DAY + TURN_LASTS)
    await documents.replace(known, replace(documents.value_of(known), until=ahead))
    assert [state.state for state in await world.service.sets.list("prod")] == ["half_applied"]
    await world.service.sets.apply("prod", NEW, prune=True)
    assert await ids(world) == {*NEW}


async def test_two_versions_of_an_app_do_not_delete_each_others_jobs(world: World) -> None:
    """Each of them plans by what the other has left: in the end the jobs are those of the last one, and all of them."""
    both = {**OLD, **NEW}
    await declare(world.service.jobs, Declared(app="shop", jobs=both))
    old, new = (Declared(app="shop", jobs=jobs, vanished="delete") for jobs in (OLD, NEW))
    before_next(world.store, "put_document", lambda: declare(world.service.jobs, old))
    await declare(world.service.jobs, new)
    assert await ids(world) == {*NEW}
    (found,) = await world.service.sets.list("app/shop")
    assert (found.state, found.jobs) == ("whole", 4)


async def test_semaphores_of_a_store_of_their_own_are_changed_in_turn(world: World) -> None:
    """There the set has a version, too: who stood still gives no limit any more."""
    apart = MemoryStore(world.clock)
    service = service_on(world.store, world.clock, os.urandom, semaphore_store=StoreOnDemand(apart))

    async def frozen() -> None:
        wait(world, TURN_LASTS)
        await service.sets.apply("prod", {}, semaphores={"printer": {"limit": 3}}, take_over=True)

    before_next(apart, "put_semaphore", frozen)
    with pytest.raises(Conflict, match="another apply was faster"):
        await service.sets.apply("prod", {}, semaphores={"printer": {"limit": 2}})
    assert (await apart.get_semaphore("printer")).limit == 3
    versions = [SETS.decode((await store.get_document("set", "prod")).text) for store in (world.store, apart)]
    assert [(each.version, each.until) for each in versions] == [(2, None), (2, None)]
