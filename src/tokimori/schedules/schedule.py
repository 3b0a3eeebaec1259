"""Protocol of all schedules: values that answer "the next moment after t"."""

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

    def count(self, after: Moment, through: Moment) -> int:
        """Count the moments t with after < t <= through, without walking them."""
        ...


class OnDemand(Struct, frozen=True):
    """No moments: the job runs when somebody asks."""

    def next_after(self, moment: Moment) -> Moment | None:
        """Return always None."""
        return None

    def last_before(self, moment: Moment) -> Moment | None:
        """Return always None."""
        return None

    def count(self, after: Moment, through: Moment) -> int:
        """Return always 0."""
        return 0

    def __str__(self) -> str:
        return "on demand"


class Reboot(OnDemand, frozen=True):
    """No moments of its own: the job runs once for each start of the host, which a schedule can't know."""

    def __str__(self) -> str:
        return "@reboot"


def each_moment(schedule: Schedule, after: Moment, through: float = inf) -> Iterator[Moment]:
    """Yield the moments t with after < t <= through, as far as they are asked for."""
    while (found := schedule.next_after(after)) is not None and found <= through:
        yield found
        after = found


def next_moments(schedule: Schedule, after: Moment, n: int) -> list[Moment]:
    """Return the first `n` moments strictly after the given one, fewer where the schedule ends."""
    return list(islice(each_moment(schedule, after), n))
