"""Turns at a semaphore with a rate: which runs are woken when, and for which units are reserved."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import takewhile
from typing import NamedTuple

from tokimori.clock import SECOND, Moment
from tokimori.model.claim_rate import ClaimRate, Window, free_now
from tokimori.model.ids import Lane
from tokimori.stores.rules.lines import MOST_SERVED, LinePlace

PATIENCE = SECOND
"""Microseconds for which units wait for a woken run; then they are free for others. Nobody may serve its lane."""
_AGAIN = SECOND // 10


class Turns(NamedTuple):
    """Turns as the row of a semaphore keeps them.

    At `wakes` its line continues without an event. `turn` is the next lane; `kept`: other lanes take nothing, because
    its head wants more units than are free. `woken` are units of runs that were woken and have not been claimed. Behind
    `until` neither counts.
    """

    wakes: Moment | None = None
    turn: Lane | None = None
    kept: bool = False
    woken: int = 0
    until: Moment = Moment(0)


class Rated(NamedTuple):
    """Rate of a semaphore, its units taken now, and its turns."""

    rate: ClaimRate
    window: Window
    now: Moment
    turns: Turns

    @property
    def free(self) -> int:
        """Return how many units may be taken now."""
        return free_now(self.rate, self.window, self.now)

    @property
    def kept_for(self) -> Lane | None:
        """Return the lane that alone may take units."""
        return self.turns.turn if self.turns.kept and self.now < self.turns.until else None

    def after(self, weight: int, *, by: Lane | None) -> Turns:
        """Return the turns after a run that may have been woken took its units, or was refused (`by` None).

        If it is of the lane for which units are kept, they are kept no more.
        """
        kept = self.turns.kept and (by is None or by != self.turns.turn)
        return self.turns._replace(woken=max(0, self.turns.woken - weight), kept=kept)


class Served(NamedTuple):
    """The runs to wake, and the turns after that."""

    woken: list[str]
    turns: Turns


Opens = Callable[[int, int], Moment]
"""Function that returns when so many units fit, behind so many that others are to take first."""


class Line(NamedTuple):
    """Line of a semaphore with a rate: the runs of each lane, and the first program that waits.

    `passed`: lanes are left out, as ready runs of theirs come before those in line: units would wait for these.
    `unheld` are the units that nobody holds.
    """

    unheld: int
    lanes: Mapping[Lane, Iterable[LinePlace]]
    program: LinePlace | None = None
    passed: bool = False


def serve_in_turn(line: Line, rated: Rated, opens: Opens) -> Served:
    """Choose one run of each lane after the other, as many as there are units.

    It begins with the lane whose turn it is, and stops at a head that wants more: that one is next. If nobody else was
    woken, what is free is kept for it until it is claimed or leaves the line.
    """
    served = _served(line, rated, opens)
    if not line.passed:
        return served
    again = Moment(rated.now + _AGAIN)
    return served._replace(turns=served.turns._replace(wakes=min(again, served.turns.wakes or again)))


def _served(line: Line, rated: Rated, opens: Opens) -> Served:
    now, kept_for, most = rated.now, rated.kept_for, min(line.unheld, rated.rate.units)
    runs = {lane: _before(line.program, line.lanes[lane]) for lane in _from(rated.turns.turn, line.lanes)}
    units = rated.turns.woken if now < rated.turns.until else 0
    heads = deque(_heads({lane: runs[lane] for lane in runs if kept_for in {None, lane}}, most))
    if kept_for is not None and not (heads or units or line.passed):  # its head has gone
        runs.pop(kept_for, None)
        kept_for, heads = None, deque(_heads(runs, most))
    free, woken = min(line.unheld, rated.free), list[str]()
    while heads and len(woken) < MOST_SERVED:
        lane, head = heads.popleft()
        if head.weight > free - units or (rated.rate.smooth and units):
            turns = Turns(None, lane, False, units, Moment(now + PATIENCE) if woken else rated.turns.until)
            return Served(woken, _stopped(free, head.weight, turns, rated, opens))
        woken.append(head.id)
        units += head.weight
        if kept_for is not None:
            until = Moment(now + PATIENCE)
            return Served(woken, rated.turns._replace(wakes=until, woken=units, until=until))
        heads += _heads({lane: runs[lane]}, most)
    if kept_for is not None:
        return Served(woken, rated.turns._replace(wakes=rated.turns.until))
    program = line.program
    wakes = Moment(now + _AGAIN) if heads else None
    if wakes is None and program is not None and program.weight <= most:
        wakes = opens(program.weight, units)
    until = Moment(now + PATIENCE) if woken else rated.turns.until
    return Served(woken, Turns(wakes, heads[0][0] if heads else None, False, units, until))


def _heads(runs: Mapping[Lane, Iterator[LinePlace]], most: int) -> Iterator[tuple[Lane, LinePlace]]:
    """Yield the next run of each lane. One that wants more than `most` waits: units that are given back serve it."""
    for lane, line in runs.items():
        head = next(line, None)
        if head is not None and head.weight <= most:
            yield lane, head


def _from(turn: Lane | None, lanes: Iterable[Lane]) -> list[Lane]:
    """Return the lanes by name, beginning with the lane that is next, and around."""
    ordered = sorted(lanes)
    return [lane for lane in ordered if lane >= (turn or "")] + [lane for lane in ordered if lane < (turn or "")]


def _before(program: LinePlace | None, runs: Iterable[LinePlace]) -> Iterator[LinePlace]:
    return takewhile(lambda run: program is None or run.rank < program.rank, runs)


def _stopped(free: int, weight: int, turns: Turns, rated: Rated, opens: Opens) -> Turns:
    """Return the turns if the first run of the next lane wants more units than are free."""
    at = opens(weight, turns.woken)
    if turns.woken and weight <= free:
        at = min(at, turns.until)  # if nobody claims what was woken
    wakes = Moment(max(at, rated.now + 1))
    if not turns.woken and 0 < free < weight:
        return turns._replace(wakes=wakes, kept=True, until=Moment(at + PATIENCE))
    return turns._replace(wakes=wakes)
