"""The store's time, for callers who are no nodes: orders follow the clock by which nodes fire."""

from collections.abc import Awaitable, Callable

from tokimori.clock import Clock, Moment
from tokimori.errors import StoreUnavailable
from tokimori.model.lease import Timeline, follow

FRESH = 10.0
"""Seconds for which an answer of the store is carried on by this machine's monotonic clock."""

Now = Callable[[], Awaitable[Moment]]
"""What time is it? May raise `StoreError`."""


class StoreTime:
    """Asks the store what time it is, at most every `FRESH` seconds. The machine's wall clock may be set wrong."""

    def __init__(self, ask: Now, clock: Clock) -> None:
        self._ask = ask
        self._clock = clock
        self._timeline: Timeline | None = None
        self._asked = 0.0

    async def __call__(self) -> Moment:
        """Return the store's time now."""
        sent = self._clock.monotonic()
        if self._timeline is None or sent >= self._asked + FRESH:
            moment = await self._ask_again()
            answered = self._clock.monotonic()
            self._timeline = follow(self._timeline or Timeline(moment, answered), moment, sent, answered)
            self._asked = sent
        return self._timeline.now(self._clock.monotonic())

    async def _ask_again(self) -> Moment:
        """Return the store's time; ask once more after a lost reply. Callers may try again, too."""
        try:
            return await self._ask()
        except StoreUnavailable:
            return await self._ask()
