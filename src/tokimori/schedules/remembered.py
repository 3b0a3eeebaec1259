"""A schedule that is asked about moments near each other: what its rare parts answered is not looked for again."""

from tokimori.clock import Moment
from tokimori.schedules.combined import Except, Union
from tokimori.schedules.grid import FIRST_MOMENT, LAST_MOMENT
from tokimori.schedules.schedule import Schedule


class Remembered:
    """The same moments. For the time of one question, for it holds what it was asked last."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._empty = Moment(0), Moment(0)
        self._found: Moment | None = None
        self._empty_before = Moment(0), Moment(0)
        self._found_before: Moment | None = None

    def next_after(self, moment: Moment) -> Moment | None:
        """The first moment strictly after the given one."""
        low, high = self._empty
        if not low <= moment < high:
            self._found = self._schedule.next_after(moment)
            self._empty = moment, Moment(LAST_MOMENT) if self._found is None else self._found
        return self._found

    def last_before(self, moment: Moment) -> Moment | None:
        """The last moment strictly before the given one."""
        low, high = self._empty_before
        if not low < moment <= high:
            self._found_before = self._schedule.last_before(moment)
            self._empty_before = Moment(FIRST_MOMENT) if self._found_before is None else self._found_before, moment
        return self._found_before

    def count(self, after: Moment, through: Moment) -> int:
        """How many moments t there are with after < t <= through."""
        return self._schedule.count(after, through)


def remembered(schedule: Schedule) -> Schedule:
    """The schedule, each of whose parts remembers what it was asked last."""
    match schedule:
        case Union():
            return Union((), tuple(map(remembered, schedule._parts)))
        case Except():
            return remembered(schedule._kept)
        case _:
            return Remembered(schedule)
