"""Turns: what became free in a transaction, and who had a turn that now has to be passed on."""

from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

from msgspec import Struct, field

from tokimori.model.ids import Incarnation
from tokimori.model.run import Run
from tokimori.model.semaphores import KEY_LINE, LIMIT_LINE, line_of, semaphore_of
from tokimori.model.transitions import RunState

Key = tuple[Incarnation, str]
"""A concurrency key: each job has keys of its own."""


class Turn(NamedTuple):
    """Part of a run that says in which lines it may have the turn; `semaphores` are the names that its job wants."""

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
        """Let a ready run go and pass its turn on; a blocked one makes way in the line of its semaphore."""
        semaphore = semaphore_of(turn.blocked_on)
        if turn.state == RunState.READY:
            self.pass_on(turn)
        elif semaphore is not None:
            self.semaphores.add(semaphore)
