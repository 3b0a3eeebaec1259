"""Searches by counts, and counts by searches.

A long span is counted from its first moment to its last. Moments are found by counting where the span of time that has
any is halved until one is left.
"""

from collections.abc import Callable

from tokimori.clock import DAY, Moment
from tokimori.schedules.schedule import Schedule

LONG = 2 * 366 * DAY
"""In a span longer than this its first and its last moment are looked for before it is counted."""

Count = Callable[[Moment, Moment], int]
"""How many moments t there are with after < t <= through."""


def narrowed(schedule: Schedule, after: Moment, through: Moment) -> tuple[Moment, Moment]:
    """Return the span, after < t <= through; of a long one the part that the schedule's moments in it take up."""
    if through - after <= LONG:
        return after, through
    first, last = schedule.next_after(after), schedule.last_before(Moment(through + 1))
    if first is None or last is None or first > through:
        return after, after
    return Moment(first - 1), last


def first_counted(count: Count, after: Moment, through: Moment) -> Moment:
    """Return the first moment t with after < t <= through; there is one."""
    while through - after > 1:
        middle = Moment((after + through) // 2)
        if count(after, middle):
            through = middle
        else:
            after = middle
    return through


def last_counted(count: Count, first: Moment, before: Moment) -> Moment:
    """Return the last moment t with first <= t < before; there is one."""
    while before - first > 1:
        middle = Moment((first + before) // 2)
        if count(Moment(middle - 1), Moment(before - 1)):
            first = middle
        else:
            before = middle
    return first
