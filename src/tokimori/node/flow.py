"""Flow: a busy node settles and claims at the same time, and the store has the next of these while the node works."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

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
