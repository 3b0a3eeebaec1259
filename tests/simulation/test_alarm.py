"""The one thing that a node waits on, in virtual time."""

import asyncio

from tests.simulation.virtual_time import run_virtually
from tokimori.node.flow import Bell


def slept(alarm: Bell, seconds: float, *, rung_after: float | None = None) -> float:
    """For how many seconds the alarm slept, if somebody rings so much later."""

    async def sleep() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        if rung_after is not None:
            loop.call_later(rung_after, alarm.ring)
        await alarm.sleep(seconds)
        return loop.time() - began

    return run_virtually(sleep())


def test_it_sleeps_as_long_as_it_was_told() -> None:
    """Unless somebody rings, it sleeps for the time that was asked for."""
    assert round(slept(Bell(), 3600.0), 3) == 3600.0
    assert slept(Bell(), 0.0) == 0.0


def test_it_is_woken() -> None:
    """Whoever rings ends the sleep."""
    assert round(slept(Bell(), 3600.0, rung_after=2.0), 3) == 2.0


def test_a_ring_while_nobody_slept_is_not_lost() -> None:
    """What rang before the sleep ends it at once, and the one after it is a whole one again."""

    async def sleeps() -> list[float]:
        alarm, loop, slept = Bell(), asyncio.get_running_loop(), []
        alarm.ring()
        alarm.ring()
        for _ in range(2):
            began = loop.time()
            await alarm.sleep(5.0)
            slept.append(round(loop.time() - began, 3))
        return slept

    assert run_virtually(sleeps()) == [0.0, 5.0]


def test_an_old_timer_does_not_end_a_later_sleep() -> None:
    """A sleep that was cut short leaves no timer behind that would end the next one early."""

    async def second() -> float:
        alarm, loop = Bell(), asyncio.get_running_loop()
        loop.call_later(1.0, alarm.ring)
        await alarm.sleep(5.0)
        await alarm.sleep(60.0)
        return loop.time()

    assert round(run_virtually(second()), 3) == 61.0


def test_who_may_wait_rings_a_little_later() -> None:
    """The first of several says when, and what was to come is dropped with the sleep that somebody else ends."""

    async def sleeps() -> list[float]:
        alarm, loop, slept = Bell(), asyncio.get_running_loop(), []
        alarm.ring_within(2.0)
        alarm.ring_within(9.0)
        for others in (None, 1.0, None):
            if others is not None:
                alarm.ring_within(3.0)
                loop.call_later(others, alarm.ring)
            began = loop.time()
            await alarm.sleep(5.0)
            slept.append(round(loop.time() - began, 3))
        alarm.ring_within(0)
        await alarm.sleep(5.0)
        return [*slept, round(loop.time() - began, 3)]

    assert run_virtually(sleeps()) == [2.0, 1.0, 5.0, 5.0]
