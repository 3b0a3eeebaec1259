"""Lookout: times at which a node looks for work, and its copy of the newest survey of the store."""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import MINUTE, SECOND, Moment
from tokimori.model.ids import Lane
from tokimori.model.lease import TICK_IDLE
from tokimori.ports.nodes import Survey
from tokimori.ports.work_source import WorkSource


class Rhythm(Struct, frozen=True, kw_only=True):
    """The settings `worker` and `schedule` of a node.

    With `interval_minutes` it looks only at its ticks: at whole multiples of so many minutes since midnight UTC, at
    least `minimum_interval_seconds` apart (Koyomi's `[worker]`). 0: whenever anything is due. A node learns of an edit
    after at most `update_interval_seconds`, even without a notice, and with each beat.
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
    """Return the newest tick by now; `tick` was an earlier one. Jobs due by then are fired. Without an interval, now.

    After a sleep, or a change of the clock, the grid alone decides.
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


class Lookout:
    """The newest survey: a copy, which the next tick corrects. `every` and all other times are monotonic seconds.

    `stale`: something has changed since it was made. `next_at`: when it is too old, even without a notice of a change.
    """

    def __init__(self, source: WorkSource, every: float, at: float) -> None:
        self._source = source
        self._every = every
        self.survey = Survey(next_due=None, lanes=())
        self.stale = True
        self.next_at = at
        self._past: Moment | None = None

    def receive(self, survey: Survey, sent: float) -> None:
        """Store the survey of a tick that was sent at this moment."""
        self.survey = survey
        self.next_at = sent + self._every
        self._past = None

    async def look(self, now: Moment, at: float) -> None:
        """Request a new survey."""
        self.stale = False
        self.survey = await self._source.survey(now, past=self._past)
        self.next_at = at + self._every

    def look_past(self, moment: Moment) -> None:
        """Ignore jobs due by then until the next tick."""
        self._past = moment
        self.survey = replace(self.survey, next_due=None)

    def add(self, lanes: Iterable[Lane]) -> None:
        """Note that these lanes have ready runs now."""
        self.survey = replace(self.survey, lanes=tuple(sorted({*lanes, *self.survey.lanes})))

    def drop(self, lanes: Iterable[Lane]) -> None:
        """Note that these lanes have no ready runs any more."""
        gone = frozenset(lanes)
        self.survey = replace(self.survey, lanes=tuple(lane for lane in self.survey.lanes if lane not in gone))
