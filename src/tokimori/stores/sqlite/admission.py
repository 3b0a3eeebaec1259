"""What stands between a ready run and its claim besides its job's limit: that of its key, and its semaphores."""

import sqlite3
from dataclasses import dataclass, field
from typing import NamedTuple

from tokimori.clock import Moment
from tokimori.model.ids import Incarnation, Lane, RunId
from tokimori.model.semaphores import DEFAULT_LIMIT, KEY_LINE, line_of
from tokimori.model.transitions import RunState
from tokimori.ports.semaphores import permit_of
from tokimori.stores.rules.lines import Place, fits, must_join
from tokimori.stores.sqlite.line import (
    Freed,
    Turn,
    first_program,
    free_units,
    head_of,
    head_of_key,
    running_of_key,
    units_in,
)

_HOLD = """
INSERT INTO tokimori_permits (id, semaphore, node_id, run_id, weight, "rank", token, since)
SELECT ?, ?, node_id, id, ?, "rank", token, ? FROM tokimori_runs WHERE id = ?
"""


class Candidate(NamedTuple):
    """A ready run with a key, or of a job with semaphores (the columns of both)."""

    rank: int
    id: RunId
    incarnation: Incarnation
    lane: Lane
    concurrency_key: str | None
    max_per_key: int | None
    semaphores: str | None


@dataclass(slots=True)
class Admission:
    """Judges the ready runs of one claim, in order, and counts what it gave them. `freed`: turns to be passed on."""

    db: sqlite3.Connection
    freed: Freed = field(default_factory=Freed)
    _free: dict[str, int] = field(default_factory=dict)
    _programs: dict[str, Place | None] = field(default_factory=dict)
    _running: dict[tuple[Incarnation, str], int] = field(default_factory=dict)
    _heads: dict[tuple[Incarnation, str] | tuple[str, Lane], Place | None] = field(default_factory=dict)
    """Of lines: by job and key, or by semaphore and lane."""
    _held: list[tuple[RunId, str, int]] = field(default_factory=list)

    def admit(self, run: Candidate, refused_by: str | None) -> str | None:
        """The first constraint that refuses the run, as in `Run.blocked_on`; None: it is taken."""
        refused_by = self._refusal(run) if refused_by is None else refused_by
        if refused_by is None:
            self._take(run)
        else:
            turn = Turn(run.incarnation, RunState.READY, run.concurrency_key, None, run.semaphores)
            self.freed.pass_on(turn, refused_by)
        return refused_by

    def _refusal(self, run: Candidate) -> str | None:
        if run.concurrency_key is not None and self._key_refuses(run, run.concurrency_key):
            return KEY_LINE
        units = units_in(run.semaphores)
        return next((line_of(name) for name, weight in units if self._semaphore_refuses(run, name, weight)), None)

    def _key_refuses(self, run: Candidate, key: str) -> bool:
        line = run.incarnation, key
        if line not in self._running:
            self._running[line] = running_of_key(self.db, *line)
            self._heads[line] = head_of_key(self.db, *line)
        free = fits(self._running[line], run.max_per_key or 1)
        return self._joins(line, Place(run.rank, run.id, 1), fits=free, program=None)

    def _semaphore_refuses(self, run: Candidate, name: str, weight: int) -> bool:
        if name not in self._free:
            made = 'INSERT INTO tokimori_semaphores (name, "limit") VALUES (?, ?) ON CONFLICT DO NOTHING'
            self.db.execute(made, (name, DEFAULT_LIMIT))
            self._free[name] = free_units(self.db, name)
            self._programs[name] = first_program(self.db, name)
        line = name, run.lane
        if line not in self._heads:
            self._heads[line] = head_of(self.db, *line)
        free = weight <= self._free[name]
        return self._joins(line, Place(run.rank, run.id, weight), fits=free, program=self._programs[name])

    def _joins(
        self, line: tuple[Incarnation, str] | tuple[str, Lane], place: Place, *, fits: bool, program: Place | None
    ) -> bool:
        joins = must_join(place, fits=fits, ahead=self._heads[line], program=program)
        if joins:
            self._heads[line] = place  # before all that this claim still looks at
        return joins

    def _take(self, run: Candidate) -> None:
        if run.concurrency_key is not None:
            self._running[run.incarnation, run.concurrency_key] += 1
        for name, weight in units_in(run.semaphores):
            self._free[name] -= weight
            self._held.append((run.id, name, weight))

    def hold(self, now: Moment) -> None:
        """Write the permits of the runs that were taken, after these."""
        if not self._held:
            return
        self.db.executemany(
            _HOLD, [(permit_of(run_id, name), name, weight, now, run_id) for run_id, name, weight in self._held]
        )
        holders = {run_id for run_id, *_ in self._held}
        self.db.executemany("UPDATE tokimori_runs SET holds = 1 WHERE id = ?", [(run_id,) for run_id in holders])
