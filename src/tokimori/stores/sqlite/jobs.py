"""Definitions and plans of jobs: statements on the tables of jobs and skips."""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice

from tokimori.clock import Moment
from tokimori.model.decide import MOST_CATCHING_UP, REPLACED, Due, Plan, PlannedRun
from tokimori.model.encoding import encode_definition
from tokimori.model.ids import Incarnation, JobId, RunId
from tokimori.model.job import Job, JobState
from tokimori.model.run import FIRST_TOKEN, NEVER, Skip, encode_details
from tokimori.model.settle import PARKED_BY
from tokimori.ports.planning import ALL, MOST_MAKING_WAY, Share
from tokimori.stores.rows import (
    JOB,
    JOB_STAMPS,
    SKIP,
    TOMBSTONE,
    Row,
    due_of,
    job_of,
    job_row,
    marks,
    prefixed,
    row_writer,
    skip_row,
)
from tokimori.stores.rules.edits import edges_by_job, not_there_yet, was_replaced
from tokimori.stores.rules.errors import existing, job_changed, no_job
from tokimori.stores.rules.lines import Freed, has_room, lane_of_forced, priority_before
from tokimori.stores.rules.new_runs import Cursor, born, is_readable, may_apply, was_applied
from tokimori.stores.rules.settling import JOB_DELETED
from tokimori.stores.sqlite import lines
from tokimori.stores.sqlite.family import change_edges, leave_family
from tokimori.stores.sqlite.moves import WAKE_NOBODY, begin_move, cancel, check_moved, few, move_runs, step, willing

_ACTIVE = f"FROM tokimori_runs WHERE incarnation = j.incarnation AND state <> 'held' AND due <> {NEVER}"

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


def delete_job(db: sqlite3.Connection, job_id: JobId, now: Moment, known: Job | None = None) -> Incarnation:
    job = get_job(db, job_id)
    if known is not None and job.stamp != known.stamp:
        raise job_changed(job_id)
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


_BORN = (
    'id, origin, nominal, due, priority, "rank", lane, state, job_id, incarnation, created, details, concurrency_key, '
    "token"
)

# One statement for a whole batch: each step of a statement gives up the GIL, and taking it back is what costs.
_ADD_RUNS = f"""
INSERT INTO tokimori_runs ({_BORN})
SELECT {", ".join(f"value ->> {column}" for column in range(13))}, {FIRST_TOKEN} FROM json_each(?) WHERE true
ON CONFLICT (incarnation, origin) DO NOTHING"""
_KNOWN = "SELECT 1 FROM tokimori_runs WHERE id = ?1 UNION ALL SELECT 1 FROM tokimori_history WHERE id = ?1"
_ADVANCE = """
UPDATE tokimori_jobs SET fired_through = max(fired_through, value ->> 1), next_due = value ->> 2, state = value ->> 3,
    anchor = value ->> 4, runs_remaining = value ->> 5, tzdata = value ->> 6
FROM json_each(?) WHERE incarnation = value ->> 0"""


def due(db: sqlite3.Connection, now: Moment, limit: int, share: Share = ALL) -> list[Due]:
    statement = f"""{DUE} WHERE j.state = 'enabled' AND j.next_due IS NOT NULL AND j.next_due <= ?
        AND j.incarnation % ? = ? ORDER BY j.next_due, j.incarnation"""
    # No LIMIT: what this program can't read must not count, and rows are only made as they are asked for.
    with closing(db.execute(statement, (now, share.of, share.part))) as rows:
        return list(islice((due for due in map(due_of, rows) if is_readable(due.job)), limit))


def apply(db: sqlite3.Connection, plans: Sequence[tuple[Plan, Sequence[RunId]]], now: Moment) -> list[bool]:
    cursors = _cursors(db, [plan.incarnation for plan, _ in plans])
    answers, accepted = [], list[tuple[Plan, Sequence[RunId]]]()
    bounded = {plan.incarnation for plan, _ in plans if plan.most_active is not None}
    active: Counter[Incarnation] = Counter({job: lines.count_active(db, job) for job in bounded})
    for plan, ids in plans:
        cursor = cursors.get(plan.incarnation)
        fits = has_room(active[plan.incarnation], len(plan.runs), plan.most_active)
        if cursor is not None and may_apply(plan, cursor) and fits:
            active[plan.incarnation] += len(plan.runs)
            cursors[plan.incarnation] = cursor._replace(fired_through=plan.fired_through, state=plan.state)
            accepted.append((plan, ids))
            answers.append(True)
        else:
            known = [row for run_id in ids[:1] for row in db.execute(_KNOWN, (run_id,))]
            answers.append(was_applied(plan, cursor, first_run_exists=bool(known)))
    _write(db, accepted, now)
    return answers


def _cursors(db: sqlite3.Connection, incarnations: Sequence[Incarnation]) -> dict[Incarnation, Cursor]:
    rows = db.execute(
        """SELECT incarnation, version, fired_through, state FROM tokimori_jobs
        WHERE incarnation IN (SELECT value FROM json_each(?))""",
        (json.dumps(incarnations),),
    )
    return {row[0]: Cursor(row[0], row[1], row[2], JobState(row[3])) for row in rows}


def _write(db: sqlite3.Connection, plans: Sequence[tuple[Plan, Sequence[RunId]]], now: Moment) -> None:
    for plan, _ in plans:
        if plan.replaces:
            scheduled = "incarnation = ? AND origin BETWEEN 's:' AND 's;' AND state <> 'held' LIMIT ?"
            cancel(db, scheduled, (plan.incarnation, MOST_MAKING_WAY), REPLACED, now)
    db.execute(_ADD_RUNS, (json.dumps([row for plan, ids in plans for row in _new_rows(plan, ids, now)]),))
    keep_skips(db, [(plan.incarnation, skip) for plan, _ in plans for skip in plan.skips])
    db.execute(_ADVANCE, (json.dumps([_cursor_row(plan) for plan, _ in plans]),))


_cursor_row = row_writer(
    Plan, "incarnation", "fired_through", "next_due", "state", "anchor", "runs_remaining", "tzdata"
)
_planned_row = row_writer(PlannedRun, "origin", "nominal", "due", "priority", "rank", "lane")


def _new_rows(plan: Plan, ids: Sequence[RunId], now: Moment) -> Iterator[Row]:
    alike = (plan.job_id, plan.incarnation, now, encode_details(plan.details), plan.concurrency_key)
    for planned, run_id in zip(plan.runs, ids, strict=True):
        yield (run_id, *_planned_row(planned), born(planned.due, now), *alike)


def outdated(db: sqlite3.Connection, tzdata: str, limit: int) -> list[Job]:
    statement = f"""SELECT {JOB} FROM tokimori_jobs WHERE state = 'enabled' AND next_due IS NOT NULL AND tzdata < ?
        ORDER BY tzdata, incarnation"""
    with closing(db.execute(statement, (tzdata,))) as rows:
        return list(islice(filter(is_readable, map(job_of, rows)), limit))


def promote(db: sqlite3.Connection, now: Moment, limit: int, skip: int = 0) -> int:
    waiting = """SELECT id, length(payload) FROM tokimori_runs WHERE state = 'waiting' AND due <= ?
        ORDER BY due LIMIT -1 OFFSET ?"""
    ids = json.dumps([run_id for run_id, _ in few(db, waiting, (now, skip), limit)[0]])
    promote = """UPDATE tokimori_runs AS r SET state = 'ready', lane = coalesce(lane, (
            SELECT lane FROM tokimori_jobs j WHERE j.incarnation = r.incarnation))
        WHERE id IN (SELECT value FROM json_each(?)) RETURNING lane, incarnation"""
    promoted = db.execute(promote, (ids,)).fetchall()
    orphan = """INSERT INTO tokimori_moves SELECT ?1, '', 0, NULL, '[]', ?2, ?3, NULL
        WHERE NOT EXISTS (SELECT 1 FROM tokimori_jobs WHERE incarnation = ?1) ON CONFLICT DO NOTHING"""
    db.executemany(orphan, {(job, JOB_DELETED, now) for lane, job in promoted if lane is None})
    return len(promoted) + lines.go_on(db, now)
