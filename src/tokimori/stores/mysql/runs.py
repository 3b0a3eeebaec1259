"""Runs as people and programs ask for them: statements on live and finished runs, attempts and outputs."""

from collections.abc import Sequence

from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.model.ids import Incarnation, JobId, RunId
from tokimori.model.request import PLAIN, Manner
from tokimori.model.run import Run
from tokimori.ports.store import RunFilter
from tokimori.stores.listing import STATE_LIVE, listed
from tokimori.stores.mysql import ending, family, limits, lines
from tokimori.stores.mysql.requests import add_in_manner
from tokimori.stores.mysql.sessions import Sessions, Transaction
from tokimori.stores.mysql.statements import BY_KEY, SHARED, insert, sql
from tokimori.stores.rows import RUN, RUN_COLUMNS, run_of, run_row
from tokimori.stores.rules.errors import existing, full, no_job, no_run, stopped
from tokimori.stores.rules.holding import may_hold, may_resume

_LIVE, _HISTORY = "tokimori_runs", "tokimori_history"
_GATE = "gate.state, gate.lane, gate.most_active"
# Chosen without a lock, then locked: of two that share a gate and then want it alone neither would get it.
_FREE_GATE = f"""
SELECT {_GATE} FROM (
    SELECT incarnation FROM tokimori_jobs {BY_KEY} WHERE incarnation = %s AND id = %s AND most_active IS NULL LIMIT 1
) chosen STRAIGHT_JOIN tokimori_jobs gate {BY_KEY} ON gate.incarnation = chosen.incarnation {SHARED}"""
_BOUNDED_GATE = f"SELECT {_GATE} FROM tokimori_jobs gate {BY_KEY} WHERE incarnation = %s AND id = %s FOR UPDATE"


async def add_run(transaction: Transaction, run: Run, now: Moment, manner: Manner = PLAIN) -> Run:
    if manner == PLAIN:
        return await _add(transaction, run)
    return await add_in_manner(transaction, run, manner, now)


async def get_run(db: Sessions, run_id: RunId) -> Run:
    """See `Runs.get_run`. One statement: a run that moves to the history meanwhile is in one of both."""
    statement = " UNION ALL ".join(f"SELECT {RUN} FROM {table} WHERE id = %s" for table in (_LIVE, _HISTORY))
    return run_of(existing(await db.row(sql(statement, run_id, run_id)), no_run(run_id)))


async def list_runs(db: Sessions, wanted: RunFilter) -> list[Run]:
    return [run_of(row) for row in await db.rows(_list(wanted))]


async def last_runs(db: Sessions, job_ids: Sequence[JobId], limit: int) -> list[Run]:
    if not job_ids:
        return []
    lists = (_list(RunFilter(job_id=job_id, limit=limit)) for job_id in job_ids)
    rows = await db.rows(" UNION ALL ".join(f"SELECT * FROM ({each}) run" for each in lists))
    return sorted(map(run_of, rows), key=lambda run: run.id, reverse=True)


async def runs_of(db: Sessions, incarnation: Incarnation, origins: Sequence[str]) -> list[Run]:
    live = _of_origins(_LIVE, "origin", incarnation, origins)
    return [
        run_of(row)
        for row in await db.rows(f"{live} UNION ALL {_of_origins(_HISTORY, 'request', incarnation, origins)}")
    ]


async def cancel_run(db: Sessions, run_id: RunId, reason: str, now: Moment) -> Run:
    await db.transact(lambda transaction: _cancel(transaction, run_id, reason, now))
    return await get_run(db, run_id)


async def hold_run(db: Sessions, run_id: RunId, reason: str) -> Run:
    """See `Runs.hold_run`. What was read is looked at again under the locks; a loser reads again."""
    while may_hold(run := await get_run(db, run_id)):
        await db.transact(lambda transaction: _hold(transaction, run_id, reason))
    return run


async def resume_run(db: Sessions, run_id: RunId) -> Run:
    if may_resume(await get_run(db, run_id)):
        resume = "UPDATE tokimori_runs SET state = 'waiting', error = NULL WHERE id = %s AND state = 'held'"
        await db.ask(sql(resume, run_id))
    return await get_run(db, run_id)


_INDEX = {None: "PRIMARY", STATE_LIVE: "PRIMARY"}
"""Each index here holds all rows, so that one by state alone would cost every claim."""


def _list(wanted: RunFilter) -> str:
    newest = f"ORDER BY id DESC LIMIT {wanted.limit:d}"
    parts = (
        f"(SELECT {RUN} FROM {table} FORCE INDEX ({_INDEX.get(index, index)}) WHERE {condition} {newest})"
        for table, index, condition in listed(wanted, sql("%s", wanted.job_id), sql("%s", wanted.before))
    )
    return f"{' UNION ALL '.join(parts)} {newest}"


async def _add(transaction: Transaction, run: Run) -> Run:
    """Whoever adds or finishes a run of the same origin meanwhile is waited for by the insert, and then found."""
    state, lane, most, room = await _gate(transaction, run)
    added = [] if lane is None or room < 1 else [run_row(replace(run, lane=lane))]
    *_, finished, live = await transaction.ask(
        *insert("INSERT", _LIVE, RUN, added, "ON DUPLICATE KEY UPDATE tokimori_runs.id = tokimori_runs.id"),
        _of_origins(_HISTORY, "request", run.incarnation, [run.origin]),
        _of_origins(_LIVE, "origin", run.incarnation, [run.origin]),
    )
    for row in (*finished.rows, *live.rows):
        if not finished.rows:
            await transaction.commit()
        return run_of(row)
    if state is None:
        raise no_job(run.job_id)
    if lane is None:
        raise stopped(run.job_id, state)
    raise full(run.job_id, most)


async def _gate(transaction: Transaction, run: Run) -> tuple[str | None, str | None, int | None, int]:
    """State, lane and `most_active` of the run's job, and for how many more runs there is room.

    The gate is shared; whoever counts holds it alone.
    """
    (free,) = await transaction.ask(sql(_FREE_GATE, run.incarnation, run.job_id))
    for state, lane, most in free.rows:
        if most is None:
            return state, lane, None, 1
    bounded, counted = await transaction.ask(
        sql(_BOUNDED_GATE, run.incarnation, run.job_id), limits.count_active([run.incarnation])
    )
    for state, lane, most in bounded.rows:
        return state, lane, most, limits.rooms_of(counted).get(run.incarnation, 1)
    return None, None, None, 0


def _of_origins(table: str, column: str, incarnation: Incarnation, origins: Sequence[str]) -> str:
    """Of finished runs only requested ones are known by their origin."""
    return sql(f"SELECT {RUN} FROM {table} WHERE incarnation = %s AND {column} IN (%s)", incarnation, list(origins))


async def _cancel(transaction: Transaction, run_id: RunId, reason: str, now: Moment) -> None:
    children = await family.lock_children_of(transaction, "id = %s", run_id)
    rows, left, places = await ending.apart(transaction, run_id)
    ended = ending.cancelled(rows, reason, now)
    born = await family.bear(transaction, family.born_after(children, ended), ended)
    writes = [*ending.cancel(rows, reason, now), *born]
    await transaction.commit(*await lines.serve(transaction, left, writes, places))


async def _hold(transaction: Transaction, run_id: RunId, reason: str) -> None:
    rows, left, places = await ending.apart(transaction, run_id)
    for row in rows:
        if may_hold(run_of(row[:RUN_COLUMNS])):
            hold = "UPDATE tokimori_runs SET state = 'held', error = %s, blocked_on = NULL WHERE id = %s"
            await transaction.commit(*await lines.serve(transaction, left, [sql(hold, reason, run_id)], places))
