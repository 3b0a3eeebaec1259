"""Runs as people and programs ask for them: statements on live and finished runs, attempts and outputs."""

import sqlite3
from dataclasses import replace

from tokimori.clock import Moment
from tokimori.errors import NotFound, Refused
from tokimori.model.ids import RunId
from tokimori.model.job import JobState
from tokimori.model.run import Attempt, Output, Run
from tokimori.ports.store import RunFilter
from tokimori.stores.rules import CLAIMABLE
from tokimori.stores.sqlite import line
from tokimori.stores.sqlite.rows import ATTEMPT, OUTPUT, RUN, attempt_of, marks, output_of, run_of, run_row

_TABLES = ("tokimori_runs", "tokimori_history")


def add_run(db: sqlite3.Connection, run: Run) -> Run:
    """See `Runs.add_run`."""
    known = _run_with_origin(db, run)
    if known is not None:
        return known
    job = db.execute("SELECT state, lane, incarnation FROM tokimori_jobs WHERE id = ?", (run.job_id,)).fetchone()
    if job is None or job[2] != run.incarnation:
        raise NotFound(f"there is no job {run.job_id!r}", field="id", value=run.job_id)
    state, lane, _ = job
    if JobState(state) not in CLAIMABLE:
        raise Refused(f"the job {run.job_id!r} is {state}", field="id", value=run.job_id)
    added = replace(run, lane=lane)
    db.execute(f"INSERT INTO tokimori_runs ({RUN}) VALUES ({marks(RUN)})", run_row(added))
    return added


def _run_with_origin(db: sqlite3.Connection, run: Run) -> Run | None:
    for table in _TABLES:
        statement = f"SELECT {RUN} FROM {table} WHERE incarnation = ? AND origin = ?"
        row = db.execute(statement, (run.incarnation, run.origin)).fetchone()
        if row is not None:
            return run_of(row)
    return None


def get_run(db: sqlite3.Connection, run_id: RunId) -> Run:
    """See `Runs.get_run`."""
    for table in _TABLES:
        row = db.execute(f"SELECT {RUN} FROM {table} WHERE id = ?", (run_id,)).fetchone()
        if row is not None:
            return run_of(row)
    raise NotFound(f"there is no run {run_id!r}", field="id", value=run_id)


def list_runs(db: sqlite3.Connection, wanted: RunFilter) -> list[Run]:
    """See `Runs.list_runs`."""
    conditions, values = _conditions(wanted)
    runs = []
    for table in _TABLES:
        statement = f"SELECT {RUN} FROM {table} WHERE {conditions} ORDER BY id DESC LIMIT ?"
        runs += [run_of(row) for row in db.execute(statement, (*values, wanted.limit))]
    return sorted(runs, key=lambda run: run.id, reverse=True)[: wanted.limit]


def _conditions(wanted: RunFilter) -> tuple[str, list[object]]:
    conditions, values = ["1"], list[object]()
    if wanted.job_id is not None:
        conditions.append("job_id = ?")
        values.append(wanted.job_id)
    if wanted.before is not None:
        conditions.append("id < ?")
        values.append(wanted.before)
    if wanted.states:
        conditions.append(f"state IN ({', '.join('?' for _ in wanted.states)})")
        values.extend(wanted.states)
    return " AND ".join(conditions), values


def attempts(db: sqlite3.Connection, run_id: RunId) -> list[Attempt]:
    """See `Runs.attempts`."""
    statement = f"SELECT {ATTEMPT} FROM tokimori_attempts WHERE run_id = ? ORDER BY number"
    return [attempt_of(row) for row in db.execute(statement, (run_id,))]


def output(db: sqlite3.Connection, run_id: RunId, attempt: int) -> Output | None:
    """See `Runs.output`."""
    statement = f"SELECT {OUTPUT} FROM tokimori_outputs WHERE run_id = ? AND attempt = ?"
    row = db.execute(statement, (run_id, attempt)).fetchone()
    return None if row is None else output_of(row)


def cancel_run(db: sqlite3.Connection, run_id: RunId, reason: str, now: Moment) -> Run:
    """See `Runs.cancel_run`."""
    line.cancel(db, "id = ?", (run_id,), reason, now)
    return get_run(db, run_id)
