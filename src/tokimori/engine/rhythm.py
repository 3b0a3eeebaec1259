"""Moments at which a node looks for what is due: at once, or at ticks aligned to minutes. Pure."""

from msgspec import Struct

from tokimori.clock import MINUTE, SECOND, Moment
from tokimori.model.lease import TICK_IDLE


class Rhythm(Struct, frozen=True, kw_only=True):
    """The settings `worker` and `schedule` of a node.

    With `interval_minutes` it looks only at its ticks, which come at whole multiples of so many minutes since midnight
    UTC and are at least `minimum_interval_seconds` apart (Koyomi's `[worker]`); 0: whenever anything is due. An edit is
    known after at most `update_interval_seconds`, even where the store tells nobody of it; each beat tells it too.
    """

    interval_minutes: int = 0
    minimum_interval_seconds: float = 30
    update_interval_seconds: float = TICK_IDLE


WHENEVER_DUE = Rhythm()


def next_tick(tick: Moment, rhythm: Rhythm) -> Moment:
    """Return the tick after the one at this moment; the first tick is when the node starts."""
    period = max(1, rhythm.interval_minutes) * MINUTE
    aligned = tick + period - tick % period
    return Moment(max(aligned, tick + round(rhythm.minimum_interval_seconds * SECOND)))


def newest_tick(tick: Moment, now: Moment, rhythm: Rhythm) -> Moment:
    """Return the newest tick by now, where `tick` was one before: what is due by then is fired. Without an interval,
    now.

    After a sleep, or where the clock was set, the grid alone says which.
    """
    if not rhythm.interval_minutes:
        return now
    period = rhythm.interval_minutes * MINUTE
    if not tick <= now < tick + 2 * period:
        tick = Moment(now - now % period)
    while (following := next_tick(tick, rhythm)) <= now:
        tick = following
    return tick


def next_look(tick: Moment, due: Moment, rhythm: Rhythm) -> Moment:
    """Return when to look for what is due at `due`, if the newest tick was this."""
    return due if not rhythm.interval_minutes or due <= tick else max(due, next_tick(tick, rhythm))
