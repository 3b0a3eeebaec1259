"""Requests, lists, orders and pruning of runs: statements on live and finished runs, attempts and outputs."""

import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Sequence
from functools import lru_cache
from sqlite3 import Connection

from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.model.ids import Incarnation, JobId, Lane, RunId
from tokimori.model.request import (
    PLAIN,
    PUT_OFF,
    REMEMBERED,
    Manner,
    answers,
    check_in_place_of,
    expiries_of,
    is_ahead,
    never_started,
    put_off,
    spans_of_key,
)
from tokimori.model.retention import PASSED, Expiry, day_of
from tokimori.model.run import Run
from tokimori.model.transitions import RunState
from tokimori.ports.copying import Copied, Kind
from tokimori.ports.store import Most, RunFilter
from tokimori.stores.copying import TARGETS, row_of
from tokimori.stores.reading import FORGET, GET_RUN, LEAVE_LINE, NOT_RUNNING, OF_JOB_LIVE, RUNNING, listed
from tokimori.stores.rows import DOCUMENT, RUN, document_row, marks, run_columns, run_of, run_row, run_values
from tokimori.stores.rules.errors import full, no_job, stopped
from tokimori.stores.rules.lines import Freed, has_room
from tokimori.stores.sqlite import lines
from tokimori.stores.sqlite.moves import cancel, check_moved

_LIVE, _HISTORY = "tokimori_runs", "tokimori_history"
_INDEXED = ("1", "origin NOT LIKE 's:%'")
"""Conditions of the indexes by origin, for either table."""
_SIZE = "length(CAST({0} AS BLOB))"


_HAVE_LIVE = f"""
SELECT job_id FROM {_LIVE} INDEXED BY {RUNNING} WHERE state = 'running' AND job_id IN (SELECT value FROM json_each(?1))
UNION ALL
SELECT value FROM json_each(?1) WHERE EXISTS (
    SELECT 1 FROM {_LIVE} INDEXED BY {OF_JOB_LIVE} WHERE job_id = value AND {NOT_RUNNING})"""


def add_run(db: Connection, run: Run, now: Moment, manner: Manner = PLAIN) -> Run:
    known = next(iter(runs_of(db, run.incarnation, [run.origin])), None) or (
        _taken_over(db, run) if manner.replaces else None
    )
    if known is not None:
        return known
    statement = "SELECT state, lane, most_active FROM tokimori_jobs WHERE id = ? AND incarnation = ?"
    job = db.execute(statement, (run.job_id, run.incarnation)).fetchone()
    if job is None:
        raise no_job(run.job_id)
    state, lane, most = job
    if manner.forced and lane is None:
        check_moved(db, run.incarnation)
    lane = lane or (run.lane if manner.forced else None)
    if lane is None:
        raise stopped(run.job_id, state)
    for span in spans_of_key(run) if manner.shares_key else ():
        newest = _newest(db, run, span, manner)
        if newest is not None and answers(newest, run, manner):
            return newest
        if newest is not None and manner.replaces and never_started(newest):
            check_in_place_of(newest, manner)
            return _put_off(db, newest, run, lane, now)
        if newest is None or not is_ahead(newest, run):
            break
    check_in_place_of(None, manner)
    if most is not None and not has_room(lines.count_active(db, run.incarnation), 1, most):
        raise full(run.job_id, most)
    added = replace(run, lane=lane)
    db.execute(f"INSERT INTO tokimori_runs ({RUN}) VALUES ({marks(RUN)})", run_row(added))
    _note_expiry(db, run)
    return added


def add_runs(db: Connection, runs: Sequence[Run], now: Moment) -> list[Run]:
    return [add_run(db, run, now) for run in runs]


def _taken_over(db: Connection, run: Run) -> Run | None:
    """Return the run that an earlier call with this request has put off, or None."""
    for (run_id,) in db.execute("SELECT run_id FROM tokimori_requests WHERE id = ?", (run.id,)).fetchall():
        return next(map(run_of, db.execute(GET_RUN.replace("%s", "?1"), (run_id,))), None)
    return None


def _note_expiry(db: Connection, run: Run) -> None:
    statement = f"INSERT OR IGNORE INTO tokimori_documents ({DOCUMENT}) VALUES ({marks(DOCUMENT)})"
    db.executemany(statement, map(document_row, expiries_of(run)))


def _newest(db: Connection, run: Run, span: tuple[str, str], manner: Manner) -> Run | None:
    """Return the newest run of the same key: its origin is within this span."""
    found: list[Run] = []
    for table, indexed in list(zip((_LIVE, _HISTORY), _INDEXED, strict=True))[: 1 if manner.of_live else 2]:
        statement = f"""SELECT {RUN} FROM {table} WHERE incarnation = ? AND origin >= ? AND origin < ? AND {indexed}
            ORDER BY origin DESC LIMIT 1"""
        found += map(run_of, db.execute(statement, (run.incarnation, *span)))
    return max(found, key=lambda each: each.origin, default=None)


def _put_off(db: Connection, known: Run, asked: Run, lane: Lane, now: Moment) -> Run:
    after, freed = put_off(known, asked, lane), Freed()
    turn = db.execute(f"SELECT {lines.TURN} FROM tokimori_runs WHERE id = ?", (known.id,)).fetchone()
    freed.leave(lines.turn_in(turn))
    assignments = ", ".join(f'"{name}" = ?' for name in PUT_OFF)
    db.execute(f"UPDATE tokimori_runs SET {assignments} WHERE id = ?", (*run_values(PUT_OFF)(after), known.id))
    db.execute("DELETE FROM tokimori_requests WHERE asked < ?", (now - REMEMBERED,))
    db.execute("INSERT INTO tokimori_requests (id, run_id, asked) VALUES (?, ?, ?)", (asked.id, known.id, now))
    _note_expiry(db, after)
    lines.serve(db, freed)
    return after


def runs_of(db: Connection, incarnation: Incarnation, origins: Sequence[str], longest: Most = None) -> list[Run]:
    statement = _of_origin(longest)
    return [run_of(row) for origin in origins for row in db.execute(statement, (incarnation, origin))]


@lru_cache(maxsize=16)
def _of_origin(longest: Most) -> str:
    columns = run_columns(longest, _SIZE)
    return " UNION ALL ".join(
        f"SELECT {columns} FROM {table} WHERE incarnation = ?1 AND origin = ?2 AND {indexed}"
        for table, indexed in zip((_LIVE, _HISTORY), _INDEXED, strict=True)
    )


def list_runs(db: Connection, wanted: RunFilter) -> list[Run]:
    return _listed_in(db, wanted, (_LIVE, _HISTORY))


def _listed_in(db: Connection, wanted: RunFilter, tables: Collection[str]) -> list[Run]:
    columns = run_columns(wanted.longest, _SIZE)
    runs, values = [], {"job_id": wanted.job_id, "before": wanted.before, "limit": wanted.limit}
    selects = (each for each in listed(wanted, ":job_id", ":before") if each[0] in tables)
    for table, index, condition in selects:
        place = f"{table} INDEXED BY {index}" if index else table
        statement = f"SELECT {columns} FROM {place} WHERE {condition} ORDER BY id DESC LIMIT :limit"
        runs += list(map(run_of, db.execute(statement, values).fetchall()))
    return sorted(runs, key=lambda run: run.id, reverse=True)[: wanted.limit]


def last_runs(db: Connection, job_ids: Sequence[JobId], limit: int, longest: Most = None) -> list[Run]:
    """Return the newest runs of each job. Most jobs have no live run: one statement says which do, instead of many."""
    live = {job_id for (job_id,) in db.execute(_HAVE_LIVE, (json.dumps(job_ids),))}
    runs = list[Run]()
    for job_id in job_ids:
        wanted = RunFilter(job_id=job_id, limit=limit, longest=longest)
        runs += _listed_in(db, wanted, (_LIVE, _HISTORY) if job_id in live else (_HISTORY,))
    return sorted(runs, key=lambda run: run.id, reverse=True)


def cancel_run(db: Connection, run_id: RunId, reason: str, now: Moment, unbegun: int | None = None) -> None:
    if unbegun is None:
        cancel(db, "id = ?", (run_id,), reason, now)
    else:
        which = "id = ? AND attempt = ? AND state <> 'running'"
        cancel(db, which, (run_id, unbegun), reason, now, state=RunState.SKIPPED)


def leave_line(db: Connection, run_id: RunId, was: Moment | None, state: RunState, *new: object) -> None:
    """See `TableReader._leave_line`."""
    which = "id = ? AND state IN ('waiting', 'ready', 'blocked') AND due = coalesce(?, due)"
    for turn in db.execute(f"SELECT {lines.TURN} FROM tokimori_runs WHERE {which}", (run_id, was)).fetchall():
        freed = Freed()
        freed.leave(lines.turn_in(turn))
        db.execute(LEAVE_LINE.replace("%s", "?"), (state, *new, run_id))
        lines.serve(db, freed)


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
        if left:  # so nothing of this one is left
            done = rest.pop(0)
            if done.deleted:
                db.execute(FORGET.format(incarnation="?1", job="?2"), (done.incarnation, done.job_id))
    db.executemany(_COUNT, [(*key, count) for key, count in counted.items()])
    return rest


def _prune_runs(db: sqlite3.Connection, expiry: Expiry, left: int, counted: Counter[_Key]) -> tuple[Expiry, int]:
    if expiry.deleted and db.execute("SELECT 1 FROM tokimori_jobs WHERE id = ?", (expiry.job_id,)).fetchone():
        return expiry, left
    if expiry.keep_runs and _old_runs(db, expiry, 1):
        wanted = min(expiry.keep_runs, PASSED * left)
        seen, oldest = db.execute(_NEWEST_RUNS, (expiry.job_id, expiry.kept, wanted)).fetchone()
        expiry, left = expiry.passed(wanted, seen, oldest), left - seen // PASSED
    if expiry.keep_runs or not (rows := _old_runs(db, expiry, left)):
        return expiry, left
    old = [row for row in rows if expiry.has_expired(row[2], row[4])]
    counted.update((expiry.job_id, incarnation, day_of(ended), state) for _, incarnation, _, state, ended in old)
    ids = json.dumps([run_id for run_id, *_ in old])
    for table, column in (("history", "id"), ("attempts", "run_id"), ("outputs", "run_id")):
        db.execute(f"DELETE FROM tokimori_{table} WHERE {column} IN (SELECT value FROM json_each(?))", (ids,))
    return replace(expiry, after=rows[-1][0]), left - len(rows)


def _old_runs(db: sqlite3.Connection, expiry: Expiry, limit: int) -> list[tuple[RunId, Incarnation, str, str, Moment]]:
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
