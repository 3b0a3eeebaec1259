"""Durations of calls to the store."""

from collections.abc import Awaitable
from typing import TypeVar

from tokimori.clock import Clock
from tokimori.ports.meter import Meter

T = TypeVar("T")


class Stopwatch:
    """Timer that reports to a meter how long each awaited call took."""

    def __init__(self, meter: Meter, clock: Clock) -> None:
        self._meter = meter
        self._clock = clock

    async def __call__(self, call: str, answer: Awaitable[T]) -> T:
        """Return the answer to the call of this name. Failed calls are reported, too."""
        began = self._clock.monotonic()
        try:
            return await answer
        finally:
            self._meter.asked(call, self._clock.monotonic() - began)
