"""Time of the store at the last tick, carried on by this node's monotonic clock. Pure."""

from msgspec import Struct

from tokimori.clock import SECOND, Moment

DISAGREEMENT = 5 * SECOND
AGREEING_TICKS = 3
"""After a jump of the store's clock nothing fires until so many ticks in a row agree."""


class Timeline(Struct, frozen=True):
    """The store's time `base` at the monotonic second `at`; `doubtful` ticks are still to agree.

    `since`: the monotonic second of the last disagreement.
    """

    base: Moment
    at: float
    doubtful: int = 0
    since: float = 0

    def now(self, monotonic: float) -> Moment:
        """Return the corrected time."""
        return Moment(self.base + round((monotonic - self.at) * SECOND))

    @property
    def trusted(self) -> bool:
        """Return whether occurrences may be decided by this time."""
        return self.doubtful == 0


def follow(timeline: Timeline, store_now: Moment, sent: float, received: float) -> Timeline:
    """Return the timeline after a tick, sent and answered at these monotonic seconds, at which the store said
    `store_now`.

    The store read its clock at some moment between the two. As long as that fits, the timeline stays as it is:
    following every reply's delay would let time jitter, and go back. Otherwise it takes the earliest time that fits,
    so that nothing starts early.
    """
    known = timeline.now(received)
    latest = store_now + round((received - sent) * SECOND)
    base, at = (timeline.base, timeline.at) if store_now <= known <= latest else (store_now, received)
    if not store_now - DISAGREEMENT <= known <= latest + DISAGREEMENT:
        return Timeline(base, at, AGREEING_TICKS, received)
    return Timeline(base, at, max(0, timeline.doubtful - 1), timeline.since)
