"""What time is it? The store's time at the last tick, carried on by this node's monotonic clock. Pure."""

from dataclasses import dataclass

from tokimori.clock import SECOND, Moment

DISAGREEMENT = 5 * SECOND
AGREEING_TICKS = 3
"""After a jump of the store's clock nothing fires until so many ticks in a row agree."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """The store's time `base` at the monotonic second `at`; `doubtful` ticks are still to agree."""

    base: Moment
    at: float
    doubtful: int = 0

    def now(self, monotonic: float) -> Moment:
        """The corrected time."""
        return Moment(self.base + round((monotonic - self.at) * SECOND))

    @property
    def trusted(self) -> bool:
        """Whether occurrences may be decided by this time."""
        return self.doubtful == 0


def follow(timeline: Timeline, store_now: Moment, monotonic: float) -> Timeline:
    """The timeline after a tick at which the store's clock said `store_now`."""
    if abs(store_now - timeline.now(monotonic)) > DISAGREEMENT:
        return Timeline(store_now, monotonic, AGREEING_TICKS)
    return Timeline(store_now, monotonic, max(0, timeline.doubtful - 1))
