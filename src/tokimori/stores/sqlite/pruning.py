"""From old rows to counts: statements on history, skips and what is counted of them."""

import json
import sqlite3
from collections import Counter
from collections.abc import Sequence

from tokimori.clock import DAY, Moment
from tokimori.model.ids import Incarnation, JobId, RunId
from tokimori.model.retention import DailyCount, Expiry, day_of, first_id_at
from tokimori.stores.rules.counts import daily_counts

_Key = tuple[JobId, Incarnation, Moment, str]

_OLDEST_KEPT = "SELECT id FROM tokimori_history WHERE job_id = ? ORDER BY id DESC LIMIT 1 OFFSET ?"
_OLD_RUNS = """
SELECT id, incarnation, state, ended FROM tokimori_history
WHERE job_id = ? AND id < ? AND id < ? AND ended < ? AND (origin LIKE 's:%' OR ended < ?) ORDER BY id LIMIT ?
"""
_OLD_SKIPS = """
SELECT first, last, reason, count FROM tokimori_skips WHERE incarnation = ?1 AND first < ?2 AND last < ?2
    AND (?3 OR first < (SELECT max(first) FROM tokimori_skips WHERE incarnation = ?1))
ORDER BY first LIMIT ?4
"""
_COUNT = """
INSERT INTO tokimori_counts (job_id, incarnation, day, outcome, count) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (job_id, incarnation, day, outcome) DO UPDATE SET count = count + excluded.count
"""
_FORGET = """
DELETE FROM tokimori_deleted_jobs WHERE incarnation = ?1
    AND NOT EXISTS (SELECT 1 FROM tokimori_skips WHERE incarnation = ?1)
    AND NOT EXISTS (SELECT 1 FROM tokimori_arrivals WHERE incarnation = ?1)
    AND NOT EXISTS (SELECT 1 FROM tokimori_runs WHERE incarnation = ?1)
    AND (EXISTS (SELECT 1 FROM tokimori_jobs WHERE id = ?2)
        OR NOT EXISTS (SELECT 1 FROM tokimori_history WHERE job_id = ?2))
"""
_DROP_ARRIVALS = """
DELETE FROM tokimori_arrivals WHERE incarnation = ?1 AND root IN (
    SELECT root FROM tokimori_arrivals WHERE incarnation = ?1 AND latest < ?2 LIMIT ?3)
"""
_NO_ID = "~"
"""Greater than every id."""


def prune(db: sqlite3.Connection, expiries: Sequence[Expiry], limit: int) -> int:
    left = limit
    counted: Counter[_Key] = Counter()
    for expiry in expiries:
        if left:
            left -= _prune_runs(db, expiry, left, counted)
        if left:
            left -= _prune_skips(db, expiry, left, counted)
        if left:
            left -= db.execute(_DROP_ARRIVALS, (expiry.incarnation, expiry.keyed_before, left)).rowcount
        if left and expiry.deleted:
            db.execute(_FORGET, (expiry.incarnation, expiry.job_id))
    db.executemany(_COUNT, [(*key, count) for key, count in counted.items()])
    return limit - left


def _prune_runs(db: sqlite3.Connection, expiry: Expiry, limit: int, counted: Counter[_Key]) -> int:
    if expiry.deleted and db.execute("SELECT 1 FROM tokimori_jobs WHERE id = ?", (expiry.job_id,)).fetchone():
        return 0
    bounds = first_id_at(expiry.before), _first_kept(db, expiry), expiry.before, expiry.keyed_before
    rows = db.execute(_OLD_RUNS, (expiry.job_id, *bounds, limit)).fetchall()
    for _, incarnation, state, ended in rows:
        counted[expiry.job_id, incarnation, day_of(ended), state] += 1
    ids = json.dumps([run_id for run_id, *_ in rows])
    for table, column in (("history", "id"), ("attempts", "run_id"), ("outputs", "run_id")) if rows else ():
        db.execute(f"DELETE FROM tokimori_{table} WHERE {column} IN (SELECT value FROM json_each(?))", (ids,))
    return len(rows)


def _first_kept(db: sqlite3.Connection, expiry: Expiry) -> RunId | str:
    """The oldest of the newest runs that stay; all others have smaller ids."""
    if not expiry.keep_runs:
        return _NO_ID
    row = db.execute(_OLDEST_KEPT, (expiry.job_id, expiry.keep_runs - 1)).fetchone()
    return "" if row is None else str(row[0])


def _prune_skips(db: sqlite3.Connection, expiry: Expiry, limit: int, counted: Counter[_Key]) -> int:
    rows = db.execute(_OLD_SKIPS, (expiry.incarnation, expiry.before, expiry.deleted, limit)).fetchall()
    for _, last, reason, count in rows:
        counted[expiry.job_id, expiry.incarnation, day_of(last), reason] += count
    firsts = [(expiry.incarnation, first) for first, *_ in rows]
    db.executemany("DELETE FROM tokimori_skips WHERE incarnation = ? AND first = ?", firsts)
    return len(rows)


def deleted_jobs(db: sqlite3.Connection, after: Incarnation | None, limit: int) -> list[tuple[Incarnation, JobId]]:
    statement = "SELECT incarnation, job_id FROM tokimori_deleted_jobs WHERE incarnation > ? ORDER BY 1 LIMIT ?"
    return db.execute(statement, (-1 if after is None else after, limit)).fetchall()


def prune_nodes(db: sqlite3.Connection, before: Moment, limit: int) -> int:
    pruned = db.execute(
        """
        DELETE FROM tokimori_nodes WHERE id IN (
            SELECT id FROM tokimori_nodes n WHERE state <> 'alive' AND "left" < ? AND NOT EXISTS (
                SELECT 1 FROM tokimori_runs WHERE state = 'running' AND node_id = n.id)
            ORDER BY "left" LIMIT ?)
        """,
        (before, limit),
    )
    return pruned.rowcount


def counts(db: sqlite3.Connection, job_id: JobId) -> list[DailyCount]:
    kept = db.execute(
        f"""
        SELECT ended - ended % {DAY}, state, count(*) FROM tokimori_history WHERE job_id = ?1 GROUP BY 1, 2
        UNION ALL
        SELECT last - last % {DAY}, reason, sum(count) FROM tokimori_skips WHERE incarnation IN (
            SELECT incarnation FROM tokimori_jobs WHERE id = ?1
            UNION SELECT incarnation FROM tokimori_deleted_jobs WHERE job_id = ?1) GROUP BY 1, 2
        """,
        (job_id,),
    ).fetchall()
    pruned = db.execute(
        "SELECT day, outcome, sum(count) FROM tokimori_counts WHERE job_id = ? GROUP BY day, outcome", (job_id,)
    ).fetchall()
    return daily_counts({row[:2]: row[2] for row in kept}, {row[:2]: row[2] for row in pruned})
