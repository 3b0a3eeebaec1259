"""Lines before limits and semaphores: who fits, who has to join, and who is next."""

from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import NamedTuple

MOST_SWEPT = 4
"""How many semaphores one tick may serve."""
MOST_SERVED = 1000
"""How many programs, and how many runs of a lane, are served at once; beats serve those behind them."""


def fits(used: int, limit: int, weight: int = 1) -> bool:
    """Return whether one more run may run, or so many more units be held; limit 0 is unlimited."""
    return not limit or used + weight <= limit


def room(running: int, limit: int, waiters: int) -> int:
    """Return how many of the waiters may wake."""
    return waiters if not limit else max(0, min(waiters, limit - running))


def has_room(active: int, coming: int, most: int | None) -> bool:
    """Return whether so many more runs of a job may be active, of `most` (None: any number).

    None coming is always right: an edit may have lowered the number.
    """
    return most is None or not coming or active + coming <= most


class LinePlace(NamedTuple):
    """Place of a run or a program in the line of a semaphore, smaller first, and the units that it wants."""

    rank: int
    id: str
    weight: int


def must_join(run: LinePlace, *, fits: bool, ahead: LinePlace | None, program: LinePlace | None) -> bool:
    """Return whether a ready run joins the line of a semaphore or a key instead of taking a unit.

    So where the units do not fit, and where somebody is before it in the line: the first blocked run of its own lane
    (`ahead`), or the first program that waits (before a run of its rank). A heavy head must not starve.
    """
    behind = ahead is not None and ahead[:2] < run[:2]
    return not fits or behind or (program is not None and program.rank <= run.rank)


def programs_served(free: int, programs: Iterable[LinePlace], first_run: LinePlace | None) -> list[LinePlace]:
    """Return the programs of a line, in order, that are granted: not behind any blocked run, as far as they fit."""
    before = takewhile(lambda program: first_run is None or program.rank <= first_run.rank, programs)
    return list(_fitting(free, before))


def runs_woken(free: int, lane: Iterable[LinePlace], first_program: LinePlace | None) -> list[LinePlace]:
    """Return the blocked runs of one lane, in order, that are made ready, as far as they fit together.

    `first_program` is the first of those that still wait: no run behind it is woken.
    """
    before = takewhile(lambda run: first_program is None or run.rank < first_program.rank, lane)
    return list(_fitting(free, before))


def _fitting(free: int, line: Iterable[LinePlace]) -> Iterator[LinePlace]:
    """Yield the places that fit. One that does not fit lets nobody behind pass."""
    for place in line:
        if place.weight > free:
            return
        free -= place.weight
        yield place
