"""Long computations in threads: beats and claims on the loop do not wait for an answer to a caller."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")

AT_ONCE = 20
"""Number of moments that are computed faster here than elsewhere."""


class Aside:
    """One computation at a time, in a thread: many at once would leave less of the processor to the loop."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def compute(self, work: Callable[[], _T]) -> _T:
        """Run the work, a pure function, and return its result. Its errors are raised here."""
        async with self._turn:
            return await asyncio.to_thread(work)
