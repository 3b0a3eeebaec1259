"""Pruning, and exports and imports of rows for copies: statements."""

import json
import sqlite3
from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.model.ids import Incarnation, JobId, RunId
from tokimori.model.retention import PASSED, Expiry, day_of
from tokimori.ports.copying import Copied, Kind
from tokimori.stores.copying import TARGETS, row_of
from tokimori.stores.reading import FORGET
from tokimori.stores.rows import marks


def import_rows(db: sqlite3.Connection, kind: Kind, rows: Sequence[Copied]) -> None:
    table, columns = TARGETS[kind]
    values = [row_of(row) for row in rows]
    db.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks(columns)}) ON CONFLICT DO NOTHING", values)


_Key = tuple[JobId, Incarnation, Moment, str]

_NEWEST_RUNS = """
SELECT count(*), min(id) FROM (
    SELECT id FROM tokimori_history WHERE job_id = ? AND id < ? ORDER BY id DESC LIMIT ?)"""
_OLD_RUNS = """
SELECT id, incarnation, origin, state, ended FROM tokimori_history
WHERE job_id = ? AND id > ? AND id < ? AND id < ? ORDER BY id LIMIT ?"""
_OLD_SKIPS = """
SELECT first, last, reason, count FROM tokimori_skips WHERE incarnation = ?1 AND first < ?2 AND last < ?2
    AND (?3 OR first < (SELECT max(first) FROM tokimori_skips WHERE incarnation = ?1))
ORDER BY first LIMIT ?4"""
_COUNT = """
INSERT INTO tokimori_counts (job_id, incarnation, day, outcome, count) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (job_id, incarnation, day, outcome) DO UPDATE SET count = count + excluded.count"""
_DROP_ARRIVALS = """
DELETE FROM tokimori_arrivals WHERE incarnation = ?1 AND root IN (
    SELECT root FROM tokimori_arrivals WHERE incarnation = ?1 AND latest < ?2 LIMIT ?3)"""


def prune(db: sqlite3.Connection, expiries: Sequence[Expiry], limit: int) -> Sequence[Expiry]:
    counted: Counter[_Key] = Counter()
    rest = list(expiries)
    left = limit
    while rest and left:
        rest[0], left = _prune_runs(db, rest[0], left, counted)
        left -= _prune_skips(db, rest[0], left, counted)
        left -= db.execute(_DROP_ARRIVALS, (rest[0].incarnation, rest[0].keyed_before, left)).rowcount
        if left and rest[0].deleted:
            db.execute(FORGET.format(incarnation="?1", job="?2"), (rest[0].incarnation, rest[0].job_id))
        del rest[: bool(left)]
    db.executemany(_COUNT, [(*key, count) for key, count in counted.items()])
    return rest


def _prune_runs(db: sqlite3.Connection, expiry: Expiry, left: int, counted: Counter[_Key]) -> tuple[Expiry, int]:
    if expiry.deleted and db.execute("SELECT 1 FROM tokimori_jobs WHERE id = ?", (expiry.job_id,)).fetchone():
        return expiry, left
    if expiry.keep_runs and _look(db, expiry, 1):
        wanted = min(expiry.keep_runs, PASSED * left)
        seen, oldest = db.execute(_NEWEST_RUNS, (expiry.job_id, expiry.kept, wanted)).fetchone()
        expiry, left = expiry.passed(wanted, seen, oldest), left - seen // PASSED
    if expiry.keep_runs or not (rows := _look(db, expiry, left)):
        return expiry, left
    old = [row for row in rows if expiry.has_expired(row[2], row[4])]
    counted.update((expiry.job_id, incarnation, day_of(ended), state) for _, incarnation, _, state, ended in old)
    ids = json.dumps([run_id for run_id, *_ in old])
    for table, column in (("history", "id"), ("attempts", "run_id"), ("outputs", "run_id")):
        db.execute(f"DELETE FROM tokimori_{table} WHERE {column} IN (SELECT value FROM json_each(?))", (ids,))
    return replace(expiry, after=rows[-1][0]), left - len(rows)


def _look(db: sqlite3.Connection, expiry: Expiry, limit: int) -> list[tuple[RunId, Incarnation, str, str, Moment]]:
    return db.execute(_OLD_RUNS, (expiry.job_id, expiry.after, expiry.made_before, expiry.kept, limit)).fetchall()


def _prune_skips(db: sqlite3.Connection, expiry: Expiry, limit: int, counted: Counter[_Key]) -> int:
    rows = db.execute(_OLD_SKIPS, (expiry.incarnation, expiry.before, expiry.deleted, limit)).fetchall()
    for _, last, reason, count in rows:
        counted[expiry.job_id, expiry.incarnation, day_of(last), reason] += count
    firsts = [(expiry.incarnation, first) for first, *_ in rows]
    db.executemany("DELETE FROM tokimori_skips WHERE incarnation = ? AND first = ?", firsts)
    return len(rows)


def prune_nodes(db: sqlite3.Connection, before: Moment, limit: int) -> int:
    gone = """DELETE FROM tokimori_nodes WHERE id IN (
        SELECT id FROM tokimori_nodes n WHERE state <> 'alive' AND "left" < ? AND NOT EXISTS (
            SELECT 1 FROM tokimori_runs WHERE state = 'running' AND node_id = n.id)
        ORDER BY "left" LIMIT ?)"""
    return db.execute(gone, (before, limit)).rowcount
