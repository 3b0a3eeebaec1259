"""Sleep that can be ended."""

import asyncio
import time

import pytest

from tokimori.node.alarm import Alarm

LONG = 60.0
"""Seconds that no test waits."""
SHORT = 0.05


async def slept(alarm: Alarm, seconds: float) -> float:
    """How long."""
    before = time.monotonic()
    await asyncio.wait_for(alarm.sleep(seconds), LONG / 2)
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
    assert await slept(alarm, SHORT) >= SHORT * 0.9
