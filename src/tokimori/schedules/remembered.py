"""A schedule that is asked about moments near each other: what its rare parts answered is not looked for again."""

from collections.abc import Iterator

from tokimori.clock import Moment
from tokimori.schedules.combined import ENDLESS, Difference, Except, Union
from tokimori.schedules.grid import FIRST_MOMENT, LAST_MOMENT
from tokimori.schedules.schedule import Schedule


class _Part:
    """A part of the schedule. What it was asked last: from where on, how far it was looked, and what was found."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._base = _Part(schedule.base) if isinstance(schedule, Difference) else None
        self._after, self._through = Moment(LAST_MOMENT), Moment(LAST_MOMENT)
        self._found: Moment | None = None
        self._before, self._since = Moment(FIRST_MOMENT), Moment(FIRST_MOMENT)
        self._found_before: Moment | None = None

    def next_after(self, moment: Moment, limit: Moment) -> Moment | None:
        """Return the first moment strictly after the given one; it need not be looked for behind the limit."""
        known = limit <= self._through if self._found is None else moment < self._found
        if moment < self._after or not known:
            found, through = self._look_after(moment, limit)
            if found is not None or not (moment <= self._after <= through <= self._through):
                self._found, self._through = found, through
            self._after = moment
        return self._found

    def last_before(self, moment: Moment, limit: Moment) -> Moment | None:
        """Return the last moment strictly before the given one; it need not be looked for before the limit."""
        known = limit >= self._since if self._found_before is None else moment > self._found_before
        if moment > self._before or not known:
            found, since = self._look_before(moment, limit)
            if found is not None or not (since <= self._before <= moment and self._since <= since):
                self._found_before, self._since = found, since
            self._before = moment
        return self._found_before

    def _look_after(self, moment: Moment, limit: Moment) -> tuple[Moment | None, Moment]:
        """Return what is found, and how far it was looked. Of a difference the base is asked first, which remembers,
        too.
        """
        if self._base is None or not isinstance(self._schedule, Difference):
            return self._schedule.next_after(moment), Moment(LAST_MOMENT)
        if (first := self._base.next_after(moment, limit)) is None:
            return None, Moment(LAST_MOMENT)
        if first > limit:
            return None, Moment(first - 1)
        return self._schedule.look_after(moment, ENDLESS, limit)[0], limit

    def _look_before(self, moment: Moment, limit: Moment) -> tuple[Moment | None, Moment]:
        """Return what is found, and back to where it was looked; see `_look_after`."""
        if self._base is None or not isinstance(self._schedule, Difference):
            return self._schedule.last_before(moment), Moment(FIRST_MOMENT)
        if (last := self._base.last_before(moment, limit)) is None:
            return None, Moment(FIRST_MOMENT)
        if last < limit:
            return None, Moment(last + 1)
        return self._schedule.look_before(moment, ENDLESS, limit)[0], limit


class Remembered:
    """The same moments. For the time of one question, for each part holds what it was asked last."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._parts = [_Part(part) for part in _parts_of(schedule)]

    def next_after(self, moment: Moment, limit: Moment | None = None) -> Moment | None:
        """Return the first moment strictly after the given one; it need not be looked for behind the limit."""
        found: Moment | None = None
        end = Moment(LAST_MOMENT) if limit is None else limit
        for part in self._parts:
            at = part.next_after(moment, end)
            if at is not None and (found is None or at < found):
                found, end = at, Moment(min(at, end))
        return found

    def last_before(self, moment: Moment, limit: Moment | None = None) -> Moment | None:
        """Return the last moment strictly before the given one; it need not be looked for before the limit."""
        found: Moment | None = None
        end = Moment(FIRST_MOMENT) if limit is None else limit
        for part in self._parts:
            at = part.last_before(moment, end)
            if at is not None and (found is None or at > found):
                found, end = at, Moment(max(at, end))
        return found

    def count(self, after: Moment, through: Moment) -> int:
        """Count the moments t with after < t <= through."""
        return self._schedule.count(after, through)


def remembered(schedule: Schedule) -> Remembered:
    """Return the schedule, each of whose parts remembers what it was asked last."""
    return schedule if isinstance(schedule, Remembered) else Remembered(schedule)


def _parts_of(schedule: Schedule) -> Iterator[Schedule]:
    match schedule:
        case Union():
            for part in schedule._parts:
                yield from _parts_of(part)
        case Except():
            yield from _parts_of(schedule._kept)
        case _:
            yield schedule
