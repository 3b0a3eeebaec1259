"""Flow: a busy node settles and claims at the same time, and the store has the next of these while the node works."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar


class Alarm:
    """Sleeps for a while, unless something rings; what rang while nobody slept is not lost."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()
        self._soon: asyncio.TimerHandle | None = None

    def ring(self) -> None:
        """End the sleep, or the next one. To be called on the loop."""
        self._rung.set()

    def ring_within(self, seconds: float) -> None:
        """Ring after so many seconds. While such a ring is to come, another call for one changes nothing."""
        if seconds <= 0:
            self.ring()
        elif self._soon is None:
            self._soon = asyncio.get_running_loop().call_later(seconds, self.ring)

    async def sleep(self, seconds: float) -> None:
        """Wait until rung, at most so long."""
        if seconds > 0:
            handle = asyncio.get_running_loop().call_later(seconds, self._rung.set)
            await self._rung.wait()
            handle.cancel()
        else:
            await asyncio.sleep(0)
        self._rung.clear()
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None


T = TypeVar("T", bound=int)

LONGEST_FLOW = 0.2
"""Seconds for which a step is taken again: what else a node does waits for the end of all of them."""


class Flow:
    """Steps that wait for the store at the same time, each taken again while another one is under way.

    Else the store would wait while the node works on both answers, and the node for the later one: a fifth of two
    cores. No step is taken again once `goes_on` denies it.
    """

    def __init__(self, goes_on: Callable[[], bool]) -> None:
        self._goes_on = goes_on
        self._under_way = 0

    async def again(self, step: Callable[[], Awaitable[T]], enough: Callable[[], bool]) -> T:
        """Take the step, and again while it did something and there is `enough` to do; what it did last."""
        self._under_way += 1
        try:
            done = await step()
            while done and self._under_way > 1 and enough() and self._goes_on():
                done = await step()
            return done
        finally:
            self._under_way -= 1
