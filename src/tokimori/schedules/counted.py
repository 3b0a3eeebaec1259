"""Moments that are found by counting: the span of time that has any is halved until one is left."""

from collections.abc import Callable

from tokimori.clock import Moment

Count = Callable[[Moment, Moment], int]
"""How many moments t there are with after < t <= through."""


def first_counted(count: Count, after: Moment, through: Moment) -> Moment:
    """The first moment t with after < t <= through; there is one."""
    while through - after > 1:
        middle = Moment((after + through) // 2)
        if count(after, middle):
            through = middle
        else:
            after = middle
    return through


def last_counted(count: Count, first: Moment, before: Moment) -> Moment:
    """The last moment t with first <= t < before; there is one."""
    while before - first > 1:
        middle = Moment((first + before) // 2)
        if count(Moment(middle - 1), Moment(before - 1)):
            first = middle
        else:
            before = middle
    return first
