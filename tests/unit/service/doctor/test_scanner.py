"""What a node looks at again and again: what must always hold."""

import pytest
from msgspec.structs import replace

from tests.unit.service.world import NODE, World, every_minute
from tokimori.clock import MINUTE
from tokimori.engine.settle import change_of
from tokimori.model.ids import NodeId
from tokimori.model.outcome import Succeeded
from tokimori.ports.nodes import Beat
from tokimori.service.db import Scanner, scanner_of
from tokimori.service.doctor.rules import CHECKS, INVARIANTS, LATE


@pytest.fixture
def world() -> World:
    """A fresh one."""
    return World()


async def scanned(world: World, *, times: int = 2, scanner: Scanner | None = None) -> Scanner:
    """After so many looks."""
    found = scanner or scanner_of(world.service._shared)
    for _ in range(times):
        await found.look()
    return found


async def test_where_all_is_well(world: World) -> None:
    """Each check is there, and has found nothing; every one of them is one of the doctor's."""
    await world.register()
    await world.add(every_minute(), "j")
    scanner = await scanned(world)
    assert scanner.broken == dict.fromkeys(INVARIANTS, 0)
    assert {check for check, _, _ in CHECKS} >= INVARIANTS


async def test_what_is_due_and_not_fired(world: World) -> None:
    """It is told after a minute, by two looks, because a node may be at it.

    When it was fired all is well again.
    """
    await world.register()
    await world.add(every_minute(), "j")
    world.pass_seconds(125)
    assert (await scanned(world, times=1)).failures == ()
    scanner = await scanned(world)
    assert [each.check for each in scanner.failures] == ["fired"]
    assert scanner.broken["fired"] == 1
    await world.fire()
    await scanner.look()
    assert scanner.failures == ()


async def test_where_ticks_are_aligned_what_is_due_may_wait(world: World) -> None:
    """For as long as they say."""
    await world.register()
    await world.add(every_minute(), "j")
    world.pass_seconds(125)
    assert (await scanned(world, scanner=scanner_of(world.service._shared, LATE + 15 * MINUTE))).failures == ()


async def test_a_run_without_a_living_node(world: World) -> None:
    """One that nobody takes over is found by who looks."""
    await world.add({"noop": True}, "j")
    await world.trigger("j")
    (claimed,) = await world.begin(1)
    await world.register("other")
    assert (await scanned(world)).failures == ()
    pulse = await world.store.tick(Beat(node=NodeId("other")), world.clock.now())
    assert pulse is not None
    ((peer, beat),) = pulse.peers
    await world.store.bury(peer, beat, NodeId("other"), world.clock.now())
    (found,) = (await scanned(world)).failures
    assert (found.check, claimed.run.id in found.text) == ("running", True)


async def test_a_line_that_moves_is_in_order(world: World) -> None:
    """Short runs of a full job, of which each look sees another one, and a head that waits for a place on a node."""
    await world.add({"noop": True, "max_running": 1}, "j")
    for _ in range(5):
        await world.trigger("j")
    scanner = scanner_of(world.service._shared)
    for _ in range(3):
        (claimed,) = await world.begin(1)
        assert (await scanned(world, times=1, scanner=scanner)).failures == ()
        now = world.clock.now()
        await world.store.settle([change_of(claimed, Succeeded(), owner=NODE, now=now, chance=0)], NODE, now)
        assert (await scanned(world, times=1, scanner=scanner)).failures == ()
        world.pass_seconds(1)
    await world.trigger("j")
    assert (await scanned(world, scanner=scanner)).failures == ()


async def test_what_only_people_can_decide_is_no_failure(world: World) -> None:
    """A run that has been held for over a week is counted, and hinders no node."""
    await world.register()
    await world.add({"noop": True}, "j")
    await world.service.runs.hold((await world.trigger("j")).id, "later")
    world.pass_seconds(8 * 86_400)
    scanner = await scanned(world)
    assert (scanner.failures, scanner.broken["held"]) == ((), 1)
    assert replace(scanner.findings[0], text="").check == "held"
