"""Requests that are forced, or that share a key with others: statements on runs and on what they took over."""

from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.model.ids import Lane
from tokimori.model.request import PUT_OFF, REMEMBERED, Manner, answers, is_ahead, never_started, put_off, spans_of_key
from tokimori.model.run import Run
from tokimori.stores.mysql import ending, limits, lines
from tokimori.stores.mysql.moves import check_moved
from tokimori.stores.mysql.sessions import Transaction
from tokimori.stores.mysql.statements import BY_KEY, insert, sql
from tokimori.stores.rows import RUN, RUN_COLUMNS, run_of, run_row
from tokimori.stores.rules.errors import full, no_job, stopped

# Held alone: two requests of one key see each other, and nobody counts beside this one.
_GATE = f"SELECT state, lane, most_active FROM tokimori_jobs {BY_KEY} WHERE incarnation = %s AND id = %s FOR UPDATE"
# Ids are hexadecimal: `g` comes after all of them.
_NEWEST = f"""
SELECT {RUN} FROM (
    (SELECT {RUN} FROM tokimori_runs WHERE incarnation = %s AND origin >= %s AND origin < %s
        ORDER BY origin DESC LIMIT 1)
    UNION ALL
    (SELECT {RUN} FROM tokimori_history WHERE incarnation = %s AND request >= %s AND request < %s
        ORDER BY request DESC LIMIT 1)
) newest ORDER BY origin DESC LIMIT 1"""
_KNOWN = f"""
SELECT {RUN} FROM tokimori_runs WHERE incarnation = %s AND origin = %s
UNION ALL SELECT {RUN} FROM tokimori_history WHERE incarnation = %s AND request = %s
UNION ALL SELECT {RUN} FROM tokimori_runs WHERE id = (SELECT run_id FROM tokimori_requests WHERE id = %s)
UNION ALL SELECT {RUN} FROM tokimori_history WHERE id = (SELECT run_id FROM tokimori_requests WHERE id = %s)"""


async def add_in_manner(transaction: Transaction, run: Run, manner: Manner, now: Moment) -> Run:
    """See `Runs.add_run`."""
    job, known, counted = await transaction.ask(
        sql(_GATE, run.incarnation, run.job_id),
        sql(_KNOWN, run.incarnation, run.origin, run.incarnation, run.origin, run.id, run.id),
        limits.count_active([run.incarnation]),
    )
    for row in known.rows:
        return run_of(row)
    if not job.rows:
        raise no_job(run.job_id)
    ((state, lane, most),) = job.rows
    if manner.forced and lane is None:
        await check_moved(transaction, run.incarnation)
    lane = lane or (run.lane if manner.forced else None)
    if lane is None:
        raise stopped(run.job_id, state)
    for span in spans_of_key(run) if manner.shares_key else ():
        newest = await _newest(transaction, run, span)
        if newest is not None and answers(newest, run, manner):
            return newest
        if newest is not None and manner.replaces and never_started(newest):
            taken_over = await _put_off(transaction, newest, run, lane, now)
            if taken_over is not None:
                return taken_over
        if newest is None or not is_ahead(newest, run):
            break
    if limits.rooms_of(counted).get(run.incarnation, 1) < 1:
        raise full(run.job_id, most)
    added = replace(run, lane=lane)
    await transaction.commit(*insert("INSERT", "tokimori_runs", RUN, [run_row(added)]))
    return added


async def _newest(transaction: Transaction, run: Run, span: tuple[str, str]) -> Run | None:
    place = (run.incarnation, *span)
    (found,) = await transaction.ask(sql(_NEWEST, *place, *place))
    return run_of(found.rows[0]) if found.rows else None


async def _put_off(transaction: Transaction, newest: Run, asked: Run, lane: Lane, now: Moment) -> Run | None:
    """None: it was claimed meanwhile. A claim that shares the gate may hold it locked; then it is waited for."""
    rows, left, places = await ending.apart(transaction, newest.id)
    runs = [run_of(row[:RUN_COLUMNS]) for row in rows]
    if not runs or not never_started(runs[0]):
        return None
    after = put_off(runs[0], asked, lane)
    assignments = ", ".join(f'"{name}" = %s' for name in PUT_OFF)
    values = (getattr(after, each) for each in PUT_OFF)
    writes = (
        sql(f"UPDATE tokimori_runs SET {assignments} WHERE id = %s", *values, after.id),
        sql("DELETE FROM tokimori_requests WHERE asked < %s", now - REMEMBERED),
        *insert("INSERT", "tokimori_requests", "id, run_id, asked", [(asked.id, after.id, now)]),
    )
    await transaction.commit(*await lines.serve(transaction, left, writes, places))
    return after
