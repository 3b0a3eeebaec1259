"""Semaphores as people ask for them."""

import pytest

from tests.unit.service.world import World
from tokimori.errors import InvalidInput, NotFound, Refused
from tokimori.model.ids import NodeId, PermitId


async def test_a_semaphore_says_who_holds_it(world: World) -> None:
    """The process, by host and pid, and how many units."""
    await world.hold("api", 2)
    found = await world.service.semaphores.get("api")
    assert (found.limit, found.used, found.waiting) == (3, 2, 0)
    (holder,) = found.holders
    assert (holder.host, holder.pid, holder.run_id, holder.weight, holder.token) == ("db-1", 42, None, 2, 1)


async def test_all_are_listed_by_name(world: World) -> None:
    """Those that a program asked for and those that a person made."""
    await world.hold("b")
    await world.service.semaphores.set("c", 2)
    await world.service.semaphores.set("a", 5)
    assert [(each.name, each.limit) for each in await world.service.semaphores.list()] == [("a", 5), ("b", 3), ("c", 2)]


async def test_a_semaphore_in_use_stays(world: World) -> None:
    """It is deleted when nobody holds it; one that is not there is not found."""
    await world.hold("api")
    with pytest.raises(Refused):
        await world.service.semaphores.delete("api")
    await world.store.release(PermitId("permit"), NodeId("program"), world.clock.now())
    await world.service.semaphores.delete("api")
    with pytest.raises(NotFound):
        await world.service.semaphores.delete("api")


@pytest.mark.parametrize(
    ("name", "limit", "field"), [("a b", 1, "semaphore"), ("a", 0, "limit"), ("a", 10**7, "limit")]
)
async def test_bad_semaphores_are_refused(world: World, name: str, limit: int, field: str) -> None:
    """With field, value and what is allowed."""
    with pytest.raises(InvalidInput) as refusal:
        await world.service.semaphores.set(name, limit)
    assert (refusal.value.field, bool(refusal.value.allowed)) == (field, True)


async def test_programs_are_listed_among_nodes_while_they_live(world: World) -> None:
    """Of one that has left nothing stays."""
    await world.hold("api")
    assert [node.is_program for node in await world.service.nodes.list()] == [True]
    await world.store.leave(NodeId("program"), world.clock.now())
    assert await world.service.nodes.list() == []
