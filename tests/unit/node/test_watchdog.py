"""Who holds the loop for too long is named."""

import asyncio
import signal
import time

from tokimori.node.watchdog import watched

LIMIT = 0.02


async def _hold(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


async def _give_way() -> None:
    for _ in range(20):
        await _hold(LIMIT / 5)
        await asyncio.sleep(0)


def test_a_step_that_holds_the_loop_is_told_with_its_stack() -> None:
    """The stack of a step that computes for longer than the limit is told once."""
    told: list[str] = []
    with watched(told.append, signal.ITIMER_VIRTUAL) as (runner, begin):
        begin(LIMIT)
        runner.run(_hold(LIMIT * 10))
    assert len(told) == 1
    assert "_hold" in told[0]


def test_steps_that_give_way_are_not_told() -> None:
    """Many short steps, together longer than the limit, tell nothing."""
    told: list[str] = []
    with watched(told.append, signal.ITIMER_VIRTUAL) as (runner, begin):
        begin(LIMIT)
        runner.run(_give_way())
    assert told == []
