"""Admission of ready runs: the state of lines before a claim, and the permits after it."""

import json
import sqlite3
from collections.abc import Sequence

from msgspec import Struct, field

from tokimori.clock import Moment
from tokimori.model.ids import Incarnation, Lane, RunId
from tokimori.model.semaphores import DEFAULT_LIMIT
from tokimori.ports.semaphores import permit_of
from tokimori.stores.rules.admission import Candidate
from tokimori.stores.rules.lines import LinePlace
from tokimori.stores.rules.turns import Key
from tokimori.stores.sqlite.lines import first_program, free_units, head_of, head_of_key, running_of_key, units_in

Ready = tuple[int, RunId, Incarnation, int, int, str | None, bool, int]
"""A ready run: rank, id, incarnation, its job's limit, how many of the job's runs run where it has one, where it has a
key or its job wants semaphores, lane, key, limit of keys and semaphores, as JSON, whether it is to follow a change of
its job, and the length of its payload: whatever is written to the row writes that anew."""
_HOLD = """
INSERT INTO tokimori_permits (id, semaphore, node_id, run_id, weight, "rank", token, since)
SELECT ?, ?, node_id, id, ?, "rank", token, ? FROM tokimori_runs WHERE id = ?"""


class SqliteLines(Struct):
    """See `Lines`. How many runs of a job run came with its ready ones."""

    db: sqlite3.Connection
    _running: dict[Incarnation, int] = field(default_factory=dict)

    def candidate(self, ready: Ready) -> Candidate:
        """Return a ready run, as it is judged."""
        rank, run_id, incarnation, limit, running, stated, *_ = ready
        self._running[incarnation] = running
        if stated is None:
            return Candidate(rank, run_id, incarnation, None, limit)
        lane, key, max_per_key, semaphores = json.loads(stated)
        return Candidate(rank, run_id, incarnation, lane, limit, key, max_per_key or 1, units_in(semaphores))

    def running(self, incarnation: Incarnation) -> int:
        return self._running[incarnation]

    def of_key(self, key: Key) -> tuple[int, LinePlace | None]:
        return running_of_key(self.db, *key), head_of_key(self.db, *key)

    def of_semaphore(self, name: str) -> tuple[int, LinePlace | None]:
        made = 'INSERT INTO tokimori_semaphores (name, "limit") VALUES (?, ?) ON CONFLICT DO NOTHING'
        self.db.execute(made, (name, DEFAULT_LIMIT))
        return free_units(self.db, name), first_program(self.db, name)

    def head(self, name: str, lane: Lane | None) -> LinePlace | None:
        return None if lane is None else head_of(self.db, name, lane)


def hold(db: sqlite3.Connection, held: Sequence[tuple[RunId, str, int]], now: Moment) -> None:
    """Write the permits of the runs that were taken, after these: run, semaphore, weight."""
    db.executemany(_HOLD, [(permit_of(run_id, name), name, weight, now, run_id) for run_id, name, weight in held])
    db.executemany("UPDATE tokimori_runs SET holds = 1 WHERE id = ?", {(run_id,) for run_id, *_ in held})
