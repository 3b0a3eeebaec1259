"""Look: know what there is to do, as the store said last."""

from collections.abc import Iterable

from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.model.ids import Lane
from tokimori.ports.nodes import Survey
from tokimori.ports.work_source import WorkSource


class Lookout:
    """Keeps the newest survey: a copy, which the next tick corrects. `every` and all other times are monotonic seconds.

    `stale`: something has changed since it was made. `next_at`: when it is too old even if nobody told of a change.
    """

    def __init__(self, source: WorkSource, every: float, at: float) -> None:
        self._source = source
        self._every = every
        self.survey = Survey(next_due=None, lanes=())
        self.stale = True
        self.next_at = at
        self._past: Moment | None = None

    def hear(self, survey: Survey, sent: float) -> None:
        """Take the survey of a tick that was sent at this moment."""
        self.survey = survey
        self.next_at = sent + self._every
        self._past = None

    async def look(self, now: Moment, at: float) -> None:
        """Ask for a new one."""
        self.stale = False
        self.survey = await self._source.survey(now, past=self._past)
        self.next_at = at + self._every

    def look_past(self, moment: Moment) -> None:
        """Ignore what is due by then until the next tick."""
        self._past = moment
        self.survey = replace(self.survey, next_due=None)

    def add(self, lanes: Iterable[Lane]) -> None:
        """There are ready runs in these lanes now."""
        self.survey = replace(self.survey, lanes=tuple(sorted({*lanes, *self.survey.lanes})))

    def drop(self, lanes: Iterable[Lane]) -> None:
        """In these there is nothing ready any more."""
        gone = frozenset(lanes)
        self.survey = replace(self.survey, lanes=tuple(lane for lane in self.survey.lanes if lane not in gone))
