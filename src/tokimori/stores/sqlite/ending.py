"""Ends of runs: moves from live runs to the history."""

import json
import sqlite3
from collections.abc import Sequence

from tokimori.clock import Moment
from tokimori.model.ids import RunId
from tokimori.model.transitions import RunState
from tokimori.stores.rows import RUN, SETTLED, Row
from tokimori.stores.rules.lines import Freed
from tokimori.stores.sqlite.family import bear_children
from tokimori.stores.sqlite.lines import TURN, serve, turn_in

_ENDING = {"state", "error", "ended", "blocked_on"}
_KEPT = [column for column in f"{RUN}, {SETTLED}".split(", ") if column not in _ENDING]
_CANCEL = f"""
INSERT INTO tokimori_history (state, error, ended, {", ".join(_KEPT)})
SELECT ?, ?, ?, {", ".join(_KEPT)} FROM tokimori_runs WHERE id = ?"""


def forget(db: sqlite3.Connection, runs: Sequence[RunId]) -> None:
    """Remove runs that have been written to the history from the live ones."""
    db.execute("DELETE FROM tokimori_runs WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(runs),))


def cancel(
    db: sqlite3.Connection,
    which: str,
    values: Row,
    reason: str,
    now: Moment,
    *,
    names: Sequence[str] = (),
    state: RunState = RunState.CANCELLED,
) -> None:
    """End the runs that have not started, order the others to end. `names` are the semaphores of a deleted job."""
    rows = db.execute(f"SELECT id, {TURN} FROM tokimori_runs WHERE {which}", values).fetchall()
    turns = {run_id: turn_in(turn) for run_id, *turn in rows}
    running = [run_id for run_id, turn in turns.items() if turn.state == RunState.RUNNING]
    ended = [run_id for run_id, turn in turns.items() if turn.state != RunState.RUNNING]
    db.executemany(
        "UPDATE tokimori_runs SET cancel = coalesce(cancel, ?) WHERE id = ?", [(reason, run_id) for run_id in running]
    )
    db.executemany(_CANCEL, [(state, reason, now, run_id) for run_id in ended])
    forget(db, ended)
    bear_children(db, ended)
    freed = Freed()
    for run_id in ended:
        freed.leave(turns[run_id]._replace(semaphores=names) if names else turns[run_id])
    serve(db, freed)
