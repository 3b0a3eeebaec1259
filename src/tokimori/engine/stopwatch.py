"""Durations of calls to the store."""

from collections.abc import Awaitable
from typing import TypeVar

from tokimori.clock import Clock
from tokimori.ports.meter import Meter

T = TypeVar("T")


class Stopwatch:
    """Tells a meter how long each call took that is awaited through it."""

    def __init__(self, meter: Meter, clock: Clock) -> None:
        self._meter = meter
        self._clock = clock

    async def __call__(self, call: str, answer: Awaitable[T]) -> T:
        """Return the answer to the call of this name; one that fails is told, too."""
        began = self._clock.monotonic()
        try:
            return await answer
        finally:
            self._meter.asked(call, self._clock.monotonic() - began)
