"""Definitions: statements on the tables of jobs and skips."""

import json
import sqlite3
from collections.abc import Sequence

from tokimori.clock import Moment
from tokimori.model.decide import MOST_CATCHING_UP
from tokimori.model.encoding import encode_definition
from tokimori.model.ids import Incarnation, JobId
from tokimori.model.job import Job
from tokimori.model.run import Skip
from tokimori.model.settle import PARKED_BY
from tokimori.stores.job_rows import JOB, JOB_STAMPS, TOMBSTONE, job_of, job_row
from tokimori.stores.rows import SKIP, marks, prefixed, skip_row
from tokimori.stores.rules.edits import edges_by_job, not_there_yet, was_replaced
from tokimori.stores.rules.errors import existing, no_job
from tokimori.stores.rules.lines import Freed, lane_of_forced, priority_before
from tokimori.stores.rules.settling import JOB_DELETED
from tokimori.stores.sqlite.family import change_edges, leave_family
from tokimori.stores.sqlite.moves import WAKE_NOBODY, begin_move, check_moved, move_runs, step, willing

_ACTIVE = "FROM tokimori_runs WHERE incarnation = j.incarnation AND state <> 'held'"

# Nobody asks for more than MOST_CATCHING_UP unless a limit is larger; SQLite's LIMIT can't name a column.
DUE = f"""
SELECT {prefixed(JOB, "j")},
    CASE WHEN max(j.max_running, coalesce(j.most_active, 0)) > {MOST_CATCHING_UP} THEN (SELECT count(*) {_ACTIVE})
    ELSE (SELECT count(*) FROM (SELECT 1 {_ACTIVE} LIMIT {MOST_CATCHING_UP + 1})) END,
    {prefixed(SKIP, "s")}
FROM tokimori_jobs j
LEFT JOIN tokimori_skips s ON s.incarnation = j.incarnation AND s.last = j.fired_through
    AND s.first = (SELECT max(first) FROM tokimori_skips WHERE incarnation = j.incarnation)"""
"""Jobs as `due_of` reads them; a live run that is not held is active."""
_PUT_OFF = """
UPDATE tokimori_runs SET state = 'waiting'
WHERE incarnation = ? AND state = 'ready' AND due > ? AND origin NOT LIKE 'c:%'
    AND (origin LIKE 's:%' OR due > created)"""
_RUNNING = "SELECT 1 FROM tokimori_runs WHERE incarnation = ? AND state = 'running'"


def add_jobs(db: sqlite3.Connection, jobs: Sequence[Job], family: int | None = None) -> None:
    ids = json.dumps([job.id for job in jobs])
    known = db.execute("SELECT id, incarnation FROM tokimori_jobs WHERE id IN (SELECT value FROM json_each(?))", (ids,))
    added = not_there_yet(jobs, dict(known))
    columns = f"{JOB}, {JOB_STAMPS}"
    db.executemany(f"INSERT INTO tokimori_jobs ({columns}) VALUES ({marks(columns)})", map(job_row, added))
    change_edges(db, {}, edges_by_job(*added), family)


def get_job(db: sqlite3.Connection, job_id: JobId) -> Job:
    found = db.execute(f"SELECT {JOB} FROM tokimori_jobs WHERE id = ?", (job_id,)).fetchone()
    return job_of(existing(found, no_job(job_id)))


def replace_job(
    db: sqlite3.Connection, old: Job, new: Job, skips: Sequence[Skip] = (), family: int | None = None
) -> None:
    stored = get_job(db, old.id)
    if was_replaced(stored, old, new):
        return
    forced, was = lane_of_forced(old, new), priority_before(old, new)
    if forced is not None or was is not None:
        check_moved(db, old.incarnation)
    change_edges(db, edges_by_job(stored), edges_by_job(new), family)
    columns = f"{JOB}, {JOB_STAMPS}"
    values = ", ".join(f"{column} = ?" for column in columns.split(", "))
    begin_move(db, new.incarnation, forced, was=was)
    db.execute(f"UPDATE tokimori_jobs SET {values} WHERE incarnation = ?", (*job_row(new), old.incarnation))
    if new.fired_through < stored.fired_through:
        db.execute(
            "DELETE FROM tokimori_skips WHERE incarnation = ? AND first > ?", (new.incarnation, new.fired_through)
        )
        db.execute(_PUT_OFF, (new.incarnation, new.updated))
    keep_skips(db, [(new.incarnation, skip) for skip in skips])
    move_runs(db, new.incarnation)


def park(db: sqlite3.Connection, incarnation: Incarnation, error: str | None, freed: Freed) -> None:
    """Stop a claimable job with the error of its run; nothing of it is claimed until it is resolved."""
    parked = db.execute(
        """UPDATE tokimori_jobs SET state = 'parked', reason = ?, "by" = ?, next_due = NULL, lane = NULL
        WHERE incarnation = ? AND state IN ('enabled', 'finished')""",
        (error, PARKED_BY, incarnation),
    )
    if parked.rowcount:
        begin_move(db, incarnation, None)
        db.execute(WAKE_NOBODY, (incarnation,))
        with willing(db):
            step(db, incarnation, freed)


def delete_job(db: sqlite3.Connection, job_id: JobId, now: Moment) -> Incarnation:
    job = get_job(db, job_id)
    leave_family(db, job_id)
    begin_move(db, job.incarnation, None, JOB_DELETED, now)
    db.execute("DELETE FROM tokimori_jobs WHERE incarnation = ?", (job.incarnation,))
    gone = f"INSERT INTO tokimori_deleted_jobs (incarnation, job_id, {TOMBSTONE}) VALUES (?, ?, {marks(TOMBSTONE)})"
    runs = db.execute(_RUNNING, (job.incarnation,)).fetchone() is not None
    definition = encode_definition(job.definition).decode() if runs else None
    db.execute(gone, (job.incarnation, job_id, job.version, definition, job.created, now))
    move_runs(db, job.incarnation)
    return job.incarnation


def keep_skips(db: sqlite3.Connection, skips: Sequence[tuple[Incarnation, Skip]]) -> None:
    """Write rows of the ledger. One with the first moment of a known row replaces it."""
    db.executemany(
        f"INSERT OR REPLACE INTO tokimori_skips (incarnation, {SKIP}) VALUES (?, {marks(SKIP)})",
        [(incarnation, *skip_row(skip)) for incarnation, skip in skips],
    )
