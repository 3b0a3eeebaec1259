"""Lines before limits and semaphores: joins, turns and wake-ups. Moves of runs to another lane."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from itertools import takewhile
from typing import NamedTuple

from msgspec import Struct, field

from tokimori.model.ids import Incarnation, Lane
from tokimori.model.job import Job, JobState
from tokimori.model.lanes import lane_of
from tokimori.model.run import Run
from tokimori.model.semaphores import KEY_LINE, LIMIT_LINE, line_of, semaphore_of
from tokimori.model.transitions import RunState

CLAIMABLE = frozenset({JobState.ENABLED, JobState.FINISHED})
"""States of a job whose runs have a lane."""


class StillMoving(Exception):
    """Error: some runs of a job have not moved after its last change, so the request can't be answered yet."""

    def __init__(self, incarnation: Incarnation) -> None:
        self.incarnation = incarnation


MOST_MOVED = 500
"""Runs of a job that are moved in one transaction."""
MOST_STEPS = 20
"""Such transactions that the change of a job waits for; ticks of nodes do the rest."""


def lane_for(job: Job) -> Lane | None:
    """Return the lane of the job's runs: none while it is paused or parked."""
    return lane_of(job.definition) if job.state in CLAIMABLE else None


def lane_of_forced(old: Job, new: Job) -> Lane | None:
    """Return the lane of forced runs of a job that is still stopped: only they have one."""
    return lane_of(new.definition) if not {old.state, new.state} & CLAIMABLE else None


def priority_before(old: Job, new: Job) -> int | None:
    """Return the old priority, whose waiting runs take the new one; None if it stays."""
    was = old.definition.priority
    return None if was == new.definition.priority else was


Key = tuple[Incarnation, str]
"""A concurrency key: each job has keys of its own."""


class Turn(NamedTuple):
    """Facts of a run that determine the lines in which it may have the turn; `semaphores` are those of its job."""

    incarnation: Incarnation
    state: str
    concurrency_key: str | None
    blocked_on: str | None
    semaphores: Collection[str]


def turn_of(run: Run, semaphores: Collection[str] = ()) -> Turn:
    """Return the turn of a run whose job wants these semaphores."""
    return Turn(run.incarnation, run.state, run.concurrency_key, run.blocked_on, semaphores)


class Freed(Struct):
    """Places and units freed in a transaction, and turns to pass on: served together, at its end."""

    places: Counter[Incarnation] = field(default_factory=Counter)
    keys: set[Key] = field(default_factory=set)
    semaphores: set[str] = field(default_factory=set)

    def pass_on(self, turn: Turn, refused_by: str | None = None) -> None:
        """Pass on the turn of the run in each of its lines, but for the one that refuses it now."""
        if refused_by != LIMIT_LINE:
            self.places[turn.incarnation] += 1
        if turn.concurrency_key is not None and refused_by != KEY_LINE:
            self.keys.add((turn.incarnation, turn.concurrency_key))
        self.semaphores.update(name for name in turn.semaphores if line_of(name) != refused_by)

    def leave(self, turn: Turn) -> None:
        """Remove a ready run and pass its turn on, or remove a blocked one from the line of its semaphore."""
        semaphore = semaphore_of(turn.blocked_on)
        if turn.state == RunState.READY:
            self.pass_on(turn)
        elif semaphore is not None:
            self.semaphores.add(semaphore)


MOST_SWEPT = 4
"""Semaphores that one tick may serve."""
MOST_SERVED = 1000
"""Programs, and runs of a lane, that are served at once; beats serve those behind them."""


def fits(used: int, limit: int, weight: int = 1) -> bool:
    """Return whether `weight` more units fit below the limit; 0 is unlimited."""
    return not limit or used + weight <= limit


def room(running: int, limit: int, waiters: int) -> int:
    """Return how many of the waiters may wake."""
    return waiters if not limit else max(0, min(waiters, limit - running))


def has_room(active: int, coming: int, most: int | None) -> bool:
    """Return whether the job may have `coming` more active runs. None always fit: an edit may have lowered `most`."""
    return most is None or not coming or active + coming <= most


class LinePlace(NamedTuple):
    """Place of a run or a program in the line of a semaphore, smaller first, and the units that it wants."""

    rank: int
    id: str
    weight: int


def must_join(run: LinePlace, *, fits: bool, ahead: LinePlace | None, program: LinePlace | None) -> bool:
    """Return whether a ready run joins the line of a semaphore or a key instead of taking a unit.

    It does if the units do not fit, or if another one is before it in the line: the first blocked run of its own lane
    (`ahead`), or the first program that waits (before a run of its rank). A heavy head must not starve.
    """
    behind = ahead is not None and ahead[:2] < run[:2]
    return not fits or behind or (program is not None and program.rank <= run.rank)


def programs_served(free: int, programs: Iterable[LinePlace], first_run: LinePlace | None) -> list[LinePlace]:
    """Return the programs of a line to grant, in order: those before every blocked run, as far as they fit."""
    before = takewhile(lambda program: first_run is None or program.rank <= first_run.rank, programs)
    return list(_fitting(free, before))


def runs_woken(free: int, lane: Iterable[LinePlace], first_program: LinePlace | None) -> list[LinePlace]:
    """Return the blocked runs of one lane to make ready, in order, as far as they fit together.

    `first_program` is the first program that still waits: no run behind it is woken.
    """
    before = takewhile(lambda run: first_program is None or run.rank < first_program.rank, lane)
    return list(_fitting(free, before))


def _fitting(free: int, line: Iterable[LinePlace]) -> Iterator[LinePlace]:
    """Yield the places that fit, up to the first that does not."""
    for place in line:
        if place.weight > free:
            return
        free -= place.weight
        yield place
