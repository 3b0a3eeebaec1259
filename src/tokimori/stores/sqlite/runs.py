"""Runs as people and programs ask for them: statements on live and finished runs, attempts and outputs."""

import sqlite3
from collections.abc import Iterator

from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.errors import NotFound, Refused
from tokimori.model.ids import RunId
from tokimori.model.job import JobState
from tokimori.model.run import Attempt, Output, Run
from tokimori.ports.store import RunFilter
from tokimori.stores.rows import ATTEMPT, OUTPUT, RUN, attempt_of, marks, output_of, run_of, run_row
from tokimori.stores.rules import CLAIMABLE, may_hold, may_resume
from tokimori.stores.sqlite import line

_LIVE, _HISTORY = "tokimori_runs", "tokimori_history"
# A live run belongs to the job of now, or runs on though its job is gone: both are found by an index, job_id is not.
_LIVE_OF_JOB = """
    job_id = :job_id AND incarnation IN (
        SELECT incarnation FROM tokimori_jobs WHERE id = :job_id
        UNION SELECT incarnation FROM tokimori_runs WHERE state = 'running')
"""


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
    """The run of that origin, live or finished; of finished ones only requested runs are known by it."""
    for table, indexed in zip((_LIVE, _HISTORY), ("1", "origin NOT LIKE 's:%'"), strict=True):
        statement = f"SELECT {RUN} FROM {table} WHERE incarnation = ? AND origin = ? AND {indexed}"
        row = db.execute(statement, (run.incarnation, run.origin)).fetchone()
        if row is not None:
            return run_of(row)
    return None


def get_run(db: sqlite3.Connection, run_id: RunId) -> Run:
    """See `Runs.get_run`."""
    for table in (_LIVE, _HISTORY):
        row = db.execute(f"SELECT {RUN} FROM {table} WHERE id = ?", (run_id,)).fetchone()
        if row is not None:
            return run_of(row)
    raise NotFound(f"there is no run {run_id!r}", field="id", value=run_id)


def list_runs(db: sqlite3.Connection, wanted: RunFilter) -> list[Run]:
    """See `Runs.list_runs`."""
    runs = []
    for table, of_job in ((_LIVE, _LIVE_OF_JOB), (_HISTORY, "job_id = :job_id")):
        conditions = " AND ".join(_conditions(wanted, of_job))
        statement = f"SELECT {RUN} FROM {table} WHERE {conditions} ORDER BY id DESC LIMIT :limit"
        values = {"job_id": wanted.job_id, "before": wanted.before, "limit": wanted.limit}
        runs += [run_of(row) for row in db.execute(statement, values)]
    return sorted(runs, key=lambda run: run.id, reverse=True)[: wanted.limit]


def _conditions(wanted: RunFilter, of_job: str) -> Iterator[str]:
    yield "1"
    if wanted.job_id is not None:
        yield of_job
    if wanted.before is not None:
        yield "id < :before"
    if wanted.states:
        yield f"state IN ({', '.join(repr(str(state)) for state in wanted.states)})"


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


def hold_run(db: sqlite3.Connection, run_id: RunId, reason: str) -> Run:
    """See `Runs.hold_run`."""
    if may_hold(get_run(db, run_id)):
        freed = line.Freed()
        turn = db.execute(f"SELECT {line.TURN} FROM tokimori_runs WHERE id = ?", (run_id,)).fetchone()
        freed.leave(line.Turn._make(turn))
        held = "UPDATE tokimori_runs SET state = 'held', error = ?, blocked_on = NULL WHERE id = ?"
        db.execute(held, (reason, run_id))
        line.serve(db, freed)
    return get_run(db, run_id)


def resume_run(db: sqlite3.Connection, run_id: RunId) -> Run:
    """See `Runs.resume_run`."""
    if may_resume(get_run(db, run_id)):
        db.execute("UPDATE tokimori_runs SET state = 'waiting', error = NULL WHERE id = ?", (run_id,))
    return get_run(db, run_id)
