"""Sleep that can be ended."""

import asyncio
import time

import pytest

from tokimori.node.alarm import Alarm

LONG = 60.0
"""Seconds that no test waits."""
LEAST = 0.05


async def slept(alarm: Alarm, seconds: float, least: float = 0.0) -> float:
    """How long."""
    before = time.monotonic()
    await asyncio.wait_for(alarm.sleep(seconds, least), LONG / 2)
    return time.monotonic() - before


@pytest.mark.parametrize("early", [True, False], ids=["before", "meanwhile"])
async def test_a_ring_ends_the_sleep(early: bool) -> None:
    """What rings while somebody sleeps ends it; what rang before ends the next sleep, and no other."""
    alarm = Alarm()
    if early:
        alarm.ring()
    else:
        asyncio.get_running_loop().call_soon(alarm.ring)
    await slept(alarm, LONG)
    assert await slept(alarm, LEAST) >= LEAST * 0.9


async def test_a_ring_leaves_the_least() -> None:
    """However often it rings, the least is slept, and no more than that; it is never more than the whole."""
    alarm = Alarm()
    alarm.ring()
    assert await slept(alarm, LONG, LEAST) >= LEAST * 0.9
    assert await slept(alarm, LEAST, LONG) >= LEAST * 0.9
