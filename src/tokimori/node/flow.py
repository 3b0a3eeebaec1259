"""Flow of a busy node: it settles and claims at the same time, so that the store works while the node does."""

import asyncio
from collections.abc import Awaitable, Callable
from math import inf
from typing import TypeVar

DEAF = 0.5
"""Seconds after a failure of the store in which its notices are ignored: failed tries of others send notices, too."""


class Bell:
    """Interruptible sleep; a ring before the sleep is not lost."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()
        self._soon: asyncio.TimerHandle | None = None
        self._deaf_until = -inf

    def ring(self) -> None:
        """End the sleep, or the next one. To be called on the loop."""
        self._rung.set()

    def notice(self, at: float) -> None:
        """Ring for a notice of the store, unless it has just failed."""
        if at >= self._deaf_until:
            self.ring()

    def deafen(self, at: float) -> None:
        """Ignore notices for a while: the store has failed at this moment (monotonic seconds)."""
        self._deaf_until = at + DEAF

    def ring_within(self, seconds: float) -> None:
        """Ring after these seconds. While such a ring is pending, another call changes nothing."""
        if seconds <= 0:
            self.ring()
        elif self._soon is None:
            self._soon = asyncio.get_running_loop().call_later(seconds, self.ring)

    async def sleep(self, seconds: float) -> None:
        """Wait for the next ring, at most this long."""
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
"""Seconds for which a step is repeated: all else that a node does waits for the end of the flow."""


class Flow:
    """Steps that wait for the store at the same time, each repeated while another one is under way.

    Else the store would wait while the node works on both answers, and the node for the later one: that costs a fifth
    of two cores. No step is repeated once `goes_on` is false.
    """

    def __init__(self, goes_on: Callable[[], bool]) -> None:
        self._goes_on = goes_on
        self._under_way = 0

    async def again(self, step: Callable[[], Awaitable[T]], enough: Callable[[], bool]) -> T:
        """Take the step, and repeat it while it did something and there is `enough` to do; return the last result."""
        self._under_way += 1
        try:
            done = await step()
            while done and self._under_way > 1 and enough() and self._goes_on():
                done = await step()
            return done
        finally:
            self._under_way -= 1
