"""Moves of runs after a change of their job, some in each transaction. A claim takes no run with an outdated lane."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from secrets import randbits

from tokimori.clock import MINUTE, Moment
from tokimori.model.ids import Incarnation, Lane, RunId
from tokimori.model.transitions import RunState
from tokimori.ports.working import LARGE
from tokimori.stores.rows import RUN, SETTLED, SOME_MOVE, Row, json_text
from tokimori.stores.rules.lines import MOST_MOVED, Freed, StillMoving, room
from tokimori.stores.sqlite.family import add_children
from tokimori.stores.sqlite.lines import TURN, serve, turn_in, units_in

_MOVE = (
    "SELECT origin, woken, forced_lane, names, reason, since, priority_was FROM tokimori_moves WHERE incarnation = ?"
)
_BEGIN = """
INSERT OR REPLACE INTO tokimori_moves SELECT ?1, '', count(*), ?2, ?3, ?4, ?5, ?6 FROM tokimori_runs
WHERE incarnation = ?1 AND state = 'running'"""
_SOME = "SELECT id, origin, length(payload) FROM tokimori_runs WHERE incarnation = ? AND origin > ? ORDER BY origin"
_BLOCKED = """
SELECT id, length(payload) FROM tokimori_runs WHERE incarnation = ? AND state = 'blocked' AND blocked_on IS NULL
ORDER BY "rank", id"""
_RELANE = """
UPDATE tokimori_runs SET lane = CASE WHEN lane IS NULL THEN ?1 ELSE ?2 END, blocked_on = NULL,
    state = CASE WHEN blocked_on IS NULL THEN state ELSE 'ready' END
WHERE id IN (SELECT value FROM json_each(?3))
    AND (blocked_on IS NOT NULL OR lane IS NOT CASE WHEN lane IS NULL THEN ?1 ELSE ?2 END)"""
_RERANK = """
UPDATE tokimori_runs SET priority = ?1, "rank" = "rank" + ?3
WHERE id IN (SELECT value FROM json_each(?4)) AND state <> 'running' AND priority = ?2"""
WAKE_NOBODY = """
UPDATE tokimori_moves AS m SET woken = (SELECT max_running FROM tokimori_jobs WHERE incarnation = m.incarnation)
WHERE incarnation = ?"""
"""Mark of the move of a parked job, by which it wakes nobody: the settle passes the place on."""
FOLLOW = """
UPDATE tokimori_runs SET lane = (
    SELECT coalesce(m.forced_lane, j.lane) FROM tokimori_moves m LEFT JOIN tokimori_jobs j USING (incarnation)
    WHERE m.incarnation = tokimori_runs.incarnation)
WHERE id = ?"""


def begin_move(
    db: sqlite3.Connection,
    job: Incarnation,
    forced_lane: Lane | None,
    reason: str | None = None,
    since: int = 0,
    *,
    was: int | None = None,
) -> None:
    """Begin to move the runs of the job, before its change is written; an earlier move begins anew."""
    before = db.execute(_MOVE, (job,)).fetchone()
    names = json.dumps(sorted(wanted_by(db, job).union(json.loads(before[3]) if before else ())))
    was = before[-1] if before and was is None else was
    db.execute(_BEGIN, (job, forced_lane, names, reason, since, was))


def some_move(db: sqlite3.Connection) -> Incarnation | None:
    """See `SOME_MOVE`."""
    return next((job for (job,) in db.execute(SOME_MOVE.format("?"), (randbits(63),))), None)


def check_moved(db: sqlite3.Connection, job: Incarnation) -> None:
    """Raise `StillMoving`."""
    if db.execute(_MOVE, (job,)).fetchone() is not None:
        raise StillMoving(job)


def wanted_by(db: sqlite3.Connection, job: Incarnation) -> set[str]:
    """Return the semaphores for which runs of the job may wait in line, or have the turn."""
    rows = db.execute("SELECT semaphores FROM tokimori_jobs WHERE incarnation = ?", (job,)).fetchall()
    return {name for (semaphores,) in rows for name, _ in units_in(semaphores)}


def move_runs(db: sqlite3.Connection, job: Incarnation) -> bool:
    """Move more runs; return if all have moved."""
    done = step(db, job, freed := Freed())
    serve(db, freed)
    return done


@contextmanager
def willing(db: sqlite3.Connection) -> Iterator[None]:
    """Undo only the work done here if the database refuses it: beats try it again."""
    db.execute("SAVEPOINT willing")
    try:
        yield
    except sqlite3.Error:
        if not db.in_transaction:
            raise
        db.execute("ROLLBACK TO willing")
    db.execute("RELEASE willing")


def step(db: sqlite3.Connection, job: Incarnation, freed: Freed) -> bool:
    """Move more runs, or end them if the job is deleted; return if all are done: then serve its lines."""
    move = db.execute(_MOVE, (job,)).fetchone()
    if move is None:
        return True
    origin, woken, forced_lane, names, reason, since, was = move
    some, more = few(db, _SOME, (job, origin), MOST_MOVED)
    ids, waked, more_blocked = json.dumps([run_id for run_id, *_ in some]), 0, False
    if reason is None:
        _rerank(db, job, ids, was)
        waked, more_blocked = _relane(db, job, ids, forced_lane, woken)
    else:
        which = "id IN (SELECT value FROM json_each(?)) AND state <> 'running'"
        cancel(db, which, (ids,), reason, Moment(since), names=json.loads(names))
    if more or more_blocked:
        moved = "UPDATE tokimori_moves SET origin = ?, woken = ? WHERE incarnation = ?"
        db.execute(moved, (some[-1][1] if some else origin, woken + waked, job))
        return False
    db.execute("DELETE FROM tokimori_moves WHERE incarnation = ?", (job,))
    freed.semaphores.update(json.loads(names))
    return True


def few(db: sqlite3.Connection, found: str, values: Sequence[object], most: int) -> tuple[list[Row], bool]:
    """Return the first runs found, fewer if large (each row ends with its length), and if there may be more."""
    rows, large = list[Row](), 0
    with closing(db.execute(found, values)) as cursor:
        while len(rows) < most and large < LARGE and (row := next(cursor, None)):
            rows.append(row)
            large += row[-1] or 0
    return rows, len(rows) == most or large >= LARGE


def _rerank(db: sqlite3.Connection, job: Incarnation, ids: str, was: int | None) -> None:
    """Set the new priority of the job at its runs that have the old priority."""
    of_job = "SELECT priority FROM tokimori_jobs WHERE incarnation = ?"
    for (priority,) in db.execute(of_job, (job,)).fetchall() if was is not None else ():
        db.execute(_RERANK, (priority, was, (was - priority) * MINUTE, ids))


def _relane(db: sqlite3.Connection, job: Incarnation, ids: str, forced: Lane | None, woken: int) -> tuple[int, bool]:
    """Set the new lane at runs, and make blocked ones ready. Return their number, and if there may be more."""
    terms = "SELECT lane, max_running FROM tokimori_jobs WHERE incarnation = ?"
    for lane, limit in db.execute(terms, (job,)).fetchall():
        db.execute(_RELANE, (lane, forced or lane, ids))
        places = room(woken, limit, MOST_MOVED)
        blocked, more = few(db, _BLOCKED, (job,), places)
        db.executemany("UPDATE tokimori_runs SET state = 'ready' WHERE id = ?", [(run_id,) for run_id, _ in blocked])
        return len(blocked), more and (places == MOST_MOVED or len(blocked) < places)
    return 0, False


_ENDING = {"state", "error", "ended", "blocked_on"}
_KEPT = [column for column in f"{RUN}, {SETTLED}".split(", ") if column not in _ENDING]
_CANCEL = f"""
INSERT INTO tokimori_history (state, error, ended, {", ".join(_KEPT)})
SELECT ?, ?, ?, {", ".join(_KEPT)} FROM tokimori_runs WHERE id = ?"""


def forget(db: sqlite3.Connection, runs: Sequence[RunId]) -> None:
    """Remove runs that have been written to the history from the live ones."""
    db.execute("DELETE FROM tokimori_runs WHERE id IN (SELECT value FROM json_each(?))", (json_text(runs),))


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
    add_children(db, ended)
    freed = Freed()
    for run_id in ended:
        freed.leave(turns[run_id]._replace(semaphores=names) if names else turns[run_id])
    serve(db, freed)
