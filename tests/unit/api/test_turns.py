"""Requests take turns with the engine."""

import asyncio
from itertools import pairwise

import pytest

from tests.unit.api.asgi import SECRET, Asker
from tests.unit.api.conftest import HEALTHY
from tests.unit.service.world import World
from tokimori.api.app import Health, create_app
from tokimori.api.turns import LONGEST_STEP
from tokimori.clock import MILLISECOND, Moment

EACH = 5 * MILLISECOND
"""How long a request holds the loop."""


async def test_requests_that_come_at_once_hold_up_nobody_together(world: World) -> None:
    """However many they are: what else waits for the loop has it after 20 ms, and the request that began before."""

    def slowly() -> Health:
        world.clock.moment = Moment(world.clock.moment + EACH)
        return HEALTHY

    door = Asker(create_app(world.service, world.clock, interface="127.0.0.1", secret=SECRET, health=slowly), bare=True)
    began, steps = world.clock.monotonic(), [0.0]
    asked = [asyncio.ensure_future(door.get("/healthz")) for _ in range(100)]
    while not all(each.done() for each in asked):
        await asyncio.sleep(0)
        steps.append(world.clock.monotonic() - began)
    longest = max(after - before for before, after in pairwise(steps))
    assert steps[-1] == pytest.approx(100 * 0.005), "all were answered"
    assert longest < LONGEST_STEP + 0.005
