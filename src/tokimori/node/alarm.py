"""The one thing that a node waits on: a moment, or being woken before it."""

import asyncio


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
