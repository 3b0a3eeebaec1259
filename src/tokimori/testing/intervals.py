"""Units held at a time: a walk along the beginnings and ends of what ran."""

from collections.abc import Iterable
from typing import NamedTuple


class Interval(NamedTuple):
    """Something that held so many units from `began` up to, but not including, `ended`; the unit of time is free."""

    began: float
    ended: float
    weight: int = 1


class Most(NamedTuple):
    """The most that was held at any moment, and the first such moment."""

    units: int
    at: float


def most_held(intervals: Iterable[Interval]) -> Most:
    """Return the most that was held. At one moment what ends gives back before what begins takes."""
    changes = []
    for each in intervals:
        if each.began < each.ended:
            changes += [(each.began, each.weight), (each.ended, -each.weight)]
    held, most = 0, Most(0, 0)
    for at, change in sorted(changes):
        held += change
        if held > most.units:
            most = Most(held, at)
    return most
