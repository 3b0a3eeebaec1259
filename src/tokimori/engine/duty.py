"""Duty of a node: work that it repeats, a short step at a time; and how long its calls to the store take."""

from collections.abc import Awaitable, Callable
from math import inf
from typing import Protocol, TypeVar

from tokimori.clock import DAY, HOUR, SECOND, Clock, Moment
from tokimori.model.ids import NodeId
from tokimori.model.retention import first_id_at
from tokimori.ports.meter import Meter
from tokimori.ports.store import OCCURRENCES, RunFilter, Runs


class Duty(Protocol):
    """A duty: a file in `tokimori.engine`, and a line in `duties_of`. The steps that are due are taken together."""

    @property
    def next_at(self) -> float:
        """Return when the next step is due, in seconds of the monotonic clock; `inf`: not before something happens."""
        ...

    async def step(self, by: NodeId, now: Moment, at: float) -> bool:
        """Take a short step, so that the next beat is not late. `now` and `at` are the same moment.

        Return if there may be something new to do: then the node looks at once. An error hinders no other duty, and the
        step is retried soon.
        """
        ...


STEADY = HOUR / SECOND
"""Seconds for which the store's time must have run steadily, unless runs were made within the day before."""
BELIEVED = 60.0
"""Seconds until the next check."""


class SureTime(Duty):
    """A duty that takes its steps as long as the time is sure. `steady` is that of `engine.rewind.Rewinder`."""

    def __init__(self, duty: Duty, store: Runs, steady: Callable[[float], float]) -> None:
        self._duty = duty
        self._store = store
        self._steady = steady
        self._asked_again = self._not_before = -inf

    @property
    def next_at(self) -> float:
        """See `Duty`."""
        return max(self._duty.next_at, self._not_before)

    async def step(self, by: NodeId, now: Moment, at: float) -> bool:
        """See `Duty`."""
        if at < self.next_at:
            return False
        if at >= self._asked_again and await self._has_leapt(now, at):
            self._not_before = at + BELIEVED
            return False
        self._asked_again = max(self._asked_again, at + BELIEVED if at >= self._asked_again else -inf)
        return await self._duty.step(by, now, at)

    async def _has_leapt(self, now: Moment, at: float) -> bool:
        """Return if the store's time may have leapt.

        A node that starts while the clock is ahead sees no leap. It looks for a day without runs before the last hour.
        """
        if self._steady(at) >= STEADY:
            return False
        before = first_id_at(Moment(now - HOUR))
        older = await self._store.list_runs(RunFilter(before=before, limit=1, longest=OCCURRENCES))
        return bool(older) and older[0].id < first_id_at(Moment(now - HOUR - DAY))


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
            self._meter.count_call(call, self._clock.monotonic() - began)
