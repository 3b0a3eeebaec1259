"""Moves that several methods share: ending runs, cancelling them, and waking the next in line."""

import json
import sqlite3
from collections import Counter
from collections.abc import Sequence

from tokimori.clock import Moment
from tokimori.model.ids import Incarnation, RunId
from tokimori.stores.rows import RUN, SETTLED
from tokimori.stores.rules import room

_KEPT = [column for column in f"{RUN}, {SETTLED}".split(", ") if column not in {"state", "error", "ended"}]
_CANCEL = f"""
INSERT INTO tokimori_history (state, error, ended, {", ".join(_KEPT)})
SELECT 'cancelled', ?, ?, {", ".join(_KEPT)} FROM tokimori_runs WHERE id = ?
"""


def count_active(db: sqlite3.Connection, incarnation: Incarnation) -> int:
    """How many runs of the job want a place, or have one."""
    (active,) = db.execute(
        "SELECT count(*) FROM tokimori_runs WHERE incarnation = ? AND state <> 'held'", (incarnation,)
    ).fetchone()
    return int(active)


def forget(db: sqlite3.Connection, runs: Sequence[RunId]) -> None:
    """Take runs that have been written to the history out of the live ones."""
    db.execute("DELETE FROM tokimori_runs WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(runs),))


def cancel(db: sqlite3.Connection, which: str, values: tuple[object, ...], reason: str, now: Moment) -> None:
    """End the runs that have not started, order the others to end; those that were ready pass their turn on."""
    rows = db.execute(f"SELECT id, incarnation, state FROM tokimori_runs WHERE {which}", values).fetchall()
    running = [run_id for run_id, _, state in rows if state == "running"]
    ended = [run_id for run_id, _, state in rows if state != "running"]
    db.executemany(
        "UPDATE tokimori_runs SET cancel = coalesce(cancel, ?) WHERE id = ?", [(reason, run_id) for run_id in running]
    )
    db.executemany(_CANCEL, [(reason, now, run_id) for run_id in ended])
    forget(db, ended)
    wake(db, Counter(incarnation for _, incarnation, state in rows if state == "ready"))


def wake(db: sqlite3.Connection, freed: Counter[Incarnation]) -> None:
    """Make the next in line ready, for as many places as were freed. A paused job's are claimed after its resume."""
    waiting = db.execute(
        """
        SELECT incarnation, max_running FROM tokimori_jobs j
        WHERE incarnation IN (SELECT value FROM json_each(?))
            AND EXISTS (SELECT 1 FROM tokimori_runs WHERE incarnation = j.incarnation AND state = 'blocked')
        """,
        (json.dumps(list(freed)),),
    ).fetchall()
    for incarnation, limit in waiting:
        _wake(db, incarnation, limit, freed[incarnation])


def _wake(db: sqlite3.Connection, incarnation: Incarnation, limit: int, places: int) -> None:
    (running,) = db.execute(
        "SELECT count(*) FROM tokimori_runs WHERE incarnation = ? AND state = 'running'", (incarnation,)
    ).fetchone()
    db.execute(
        """
        UPDATE tokimori_runs SET state = 'ready' WHERE id IN (
            SELECT id FROM tokimori_runs WHERE incarnation = ? AND state = 'blocked' ORDER BY "rank", id LIMIT ?)
        """,
        (incarnation, room(running, limit, places)),
    )
