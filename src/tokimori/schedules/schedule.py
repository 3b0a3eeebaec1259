"""Protocol of all schedules: values that answer "the next moment after t"."""

from bisect import bisect_right
from collections.abc import Iterator
from enum import StrEnum
from itertools import islice
from math import inf
from typing import Protocol

from msgspec import Struct

from tokimori.clock import Moment


class Gap(StrEnum):
    """Rules for a time that wall clocks skip: right after the gap, once; not on that day; or the gap's length later.

    The first two are about fixed times. The third one is about all: where clocks jump from 02:00 to 03:00, 02:30 runs
    at 03:30 (as in iCalendar, and in `zoneinfo` with fold = 0), and what is there already runs once.
    """

    SHIFT = "shift"
    SKIP = "skip"
    LATER = "later"


class Fold(StrEnum):
    """Rules for a fixed time that wall clocks show twice: it runs the first time, or both times."""

    FIRST = "first"
    BOTH = "both"


class Schedule(Protocol):
    """A set of moments: an immutable, hashable value. `str` gives the text that `parse_schedule` reads back."""

    def next_after(self, moment: Moment) -> Moment | None:
        """Return the first moment strictly after the given one; None when there is none."""
        ...

    def last_before(self, moment: Moment) -> Moment | None:
        """Return the last moment strictly before the given one; None when there is none."""
        ...


class OnDemand(Struct, frozen=True):
    """No moments: the job runs when somebody asks."""

    def next_after(self, moment: Moment) -> Moment | None:
        """Return always None."""
        return None

    def last_before(self, moment: Moment) -> Moment | None:
        """Return always None."""
        return None

    def __str__(self) -> str:
        return "on demand"


class Reboot(OnDemand, frozen=True):
    """No moments of its own: the job runs once for each start of the host, which a schedule can't know."""

    def __str__(self) -> str:
        return "@reboot"


class Bounded(Struct, frozen=True):
    """Moments of `base` that are neither before `first` nor after `last` (None: no bound), nor in `without`.

    `without` are in order: few, as each that is met costs as much as a moment.
    """

    base: Schedule
    first: Moment | None
    last: Moment | None
    without: tuple[Moment, ...] = ()

    def next_after(self, moment: Moment) -> Moment | None:
        """Return the first moment strictly after the given one."""
        found = self.base.next_after(self._from(moment))
        while found is not None and self._is_out(found):
            found = self.base.next_after(found)
        return None if found is None or (self.last is not None and found > self.last) else found

    def last_before(self, moment: Moment) -> Moment | None:
        """Return the last moment strictly before the given one."""
        found = self.base.last_before(moment if self.last is None else Moment(min(moment, self.last + 1)))
        while found is not None and self._is_out(found):
            found = self.base.last_before(found)
        return None if found is None or (self.first is not None and found < self.first) else found

    def _is_out(self, moment: Moment) -> bool:
        place = bisect_right(self.without, moment)
        return place > 0 and self.without[place - 1] == moment

    def _from(self, moment: Moment) -> Moment:
        return moment if self.first is None else Moment(max(moment, self.first - 1))

    def __str__(self) -> str:
        return str(self.base)


class Remembered:
    """A schedule that is asked about moments near each other: what it answered last is not looked for again."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._next: tuple[Moment, Moment | None] | None = None
        self._last: tuple[Moment, Moment | None] | None = None

    def next_after(self, moment: Moment) -> Moment | None:
        """Return the first moment strictly after the given one."""
        known = self._next
        if known is None or moment < known[0] or (known[1] is not None and moment >= known[1]):
            self._next = known = moment, self._schedule.next_after(moment)
        return known[1]

    def last_before(self, moment: Moment) -> Moment | None:
        """Return the last moment strictly before the given one."""
        known = self._last
        if known is None or moment > known[0] or (known[1] is not None and moment <= known[1]):
            self._last = known = moment, self._schedule.last_before(moment)
        return known[1]


def each_moment(schedule: Schedule, after: Moment, through: float = inf) -> Iterator[Moment]:
    """Yield the moments t with after < t <= through, as far as they are asked for."""
    while (found := schedule.next_after(after)) is not None and found <= through:
        yield found
        after = found


def next_moments(schedule: Schedule, after: Moment, n: int) -> list[Moment]:
    """Return the first `n` moments strictly after the given one, fewer if the schedule ends."""
    return list(islice(each_moment(schedule, after), n))
