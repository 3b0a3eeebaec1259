"""Runs as people and programs ask for them: statements on live and finished runs, attempts and outputs."""

from collections.abc import Sequence
from math import inf

from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.model.holding import may_hold
from tokimori.model.ids import Incarnation, JobId, RunId
from tokimori.model.request import PLAIN, Manner
from tokimori.model.run import Run
from tokimori.model.transitions import STANDING_STILL
from tokimori.ports.store import Most, RunFilter
from tokimori.stores.listing import STATE_LIVE, listed
from tokimori.stores.mysql import ending, family, limits, lines
from tokimori.stores.mysql.requests import add_in_manner
from tokimori.stores.mysql.sessions import Sessions, Transaction
from tokimori.stores.mysql.statements import BY_KEY, SHARED, delete, insert, sql
from tokimori.stores.rows import RUN, RUN_COLUMNS, run_columns, run_of, run_row
from tokimori.stores.rules.errors import full, no_job, stopped

_LIVE, _HISTORY = "tokimori_runs", "tokimori_history"
_LIVES = """SELECT incarnation FROM tokimori_jobs WHERE id = %s
    UNION ALL SELECT incarnation FROM tokimori_deleted_jobs WHERE job_id = %s"""
MOST_SORTED = 10_000
"""So many index entries are read and sorted for one list."""
_GATE = "gate.state, gate.lane, gate.most_active"
# Chosen without a lock, then locked: of two that share a gate and then want it alone neither would get it.
_FREE_GATE = f"""
SELECT {_GATE} FROM (
    SELECT incarnation FROM tokimori_jobs {BY_KEY} WHERE incarnation = %s AND id = %s AND most_active IS NULL LIMIT 1
) chosen STRAIGHT_JOIN tokimori_jobs gate {BY_KEY} ON gate.incarnation = chosen.incarnation {SHARED}"""
_BOUNDED_GATE = f"SELECT {_GATE} FROM tokimori_jobs gate {BY_KEY} WHERE incarnation = %s AND id = %s FOR UPDATE"


async def add_run(transaction: Transaction, run: Run, now: Moment, manner: Manner = PLAIN) -> Run:
    if manner == PLAIN:
        return (await add_runs(transaction, [run], now))[0]
    return await add_in_manner(transaction, run, manner, now)


async def add_runs(transaction: Transaction, runs: Sequence[Run], now: Moment) -> list[Run]:
    """Whoever adds or finishes a run of the same origin meanwhile is waited for by the insert, and then found."""
    job, origins = runs[0], [run.origin for run in runs]
    state, lane, most, room = await _gate(transaction, job)
    fits = lane is not None and len(runs) <= room
    births = [run_row(replace(run, lane=lane)) for run in runs if fits]
    *_, live, finished = await transaction.ask(
        *insert("INSERT", _LIVE, RUN, births, "ON DUPLICATE KEY UPDATE tokimori_runs.id = tokimori_runs.id"),
        _of_origins(_LIVE, "origin", job.incarnation, origins),
        _of_origins(_HISTORY, "request", job.incarnation, origins),
    )
    found = {run.origin: run for run in map(run_of, (*live.rows, *finished.rows))}
    missing = [run for run in runs if run.origin not in found]
    if missing and (state is None or lane is None):
        raise no_job(job.job_id) if state is None else stopped(job.job_id, state)
    if missing and len(missing) > room:
        raise full(job.job_id, most)
    if missing:
        found |= {run.origin: run for run in await add_runs(transaction, missing, now)}
    else:
        over = {run_of(row).origin for row in finished.rows}
        await transaction.commit(*delete(_LIVE, [run.id for run in runs if run.origin in over]))
    return [found[origin] for origin in origins]


async def list_runs(db: Sessions, wanted: RunFilter) -> list[Run]:
    """See `Runs.list_runs`. Few that wait in these states are sorted; many are soon met by a walk in their order."""
    if wanted.states and wanted.states <= STANDING_STILL:
        all_pages = _waiting(replace(wanted, before=None))  # of older ones it would read all entries, for the last page
        if len(await db.rows(f"SELECT 1 FROM ({all_pages} LIMIT 1 OFFSET {MOST_SORTED}) few")) == 0:
            newest = f"{_waiting(wanted)} ORDER BY id DESC LIMIT {wanted.limit:d}"
            brief = f"SELECT {run_columns(wanted.longest)} FROM ({newest}) few JOIN {_LIVE} USING (id) ORDER BY id DESC"
            return list(map(run_of, await db.rows(brief)))
    return [run_of(row) for row in await db.rows(_list(wanted))]


def _waiting(wanted: RunFilter) -> str:
    """Return the ids of runs in these states, by an index of which the ids are no key, but a part."""
    before = "true" if wanted.before is None else sql("id < %s", wanted.before)
    condition = f"{sql('state IN (%s)', sorted(wanted.states))} AND {before}"
    if wanted.job_id is None:
        return f"SELECT id FROM {_LIVE} FORCE INDEX (tokimori_runs_waiting) WHERE {condition}"
    return f"""SELECT run.id FROM ({sql(_LIVES, wanted.job_id, wanted.job_id)}) life
        STRAIGHT_JOIN {_LIVE} run FORCE INDEX (tokimori_runs_line) ON run.incarnation = life.incarnation
        WHERE {condition}"""


async def last_runs(db: Sessions, job_ids: Sequence[JobId], limit: int, longest: Most = None) -> list[Run]:
    if not job_ids:
        return []
    lists = (_list(RunFilter(job_id=job_id, limit=limit, longest=longest)) for job_id in job_ids)
    rows = await db.rows(" UNION ALL ".join(f"SELECT * FROM ({each}) run" for each in lists))
    return sorted(map(run_of, rows), key=lambda run: run.id, reverse=True)


async def runs_of(db: Sessions, incarnation: Incarnation, origins: Sequence[str], longest: Most = None) -> list[Run]:
    live = _of_origins(_LIVE, "origin", incarnation, origins, longest)
    finished = _of_origins(_HISTORY, "request", incarnation, origins, longest)
    return [run_of(row) for row in await db.rows(f"{live} UNION ALL {finished}")]


_INDEX = {None: "PRIMARY", STATE_LIVE: "PRIMARY"}
"""Each index here holds all rows, so that one by state alone would cost every claim."""


def _list(wanted: RunFilter) -> str:
    columns, newest = run_columns(wanted.longest), f"ORDER BY id DESC LIMIT {wanted.limit:d}"
    parts = (
        f"(SELECT {columns} FROM {table} FORCE INDEX ({_INDEX.get(index, index)}) WHERE {condition} {newest})"
        for table, index, condition in listed(wanted, sql("%s", wanted.job_id), sql("%s", wanted.before), apart=False)
    )
    return f"{' UNION ALL '.join(parts)} {newest}"


async def _gate(transaction: Transaction, run: Run) -> tuple[str | None, str | None, int | None, float]:
    """State, lane and `most_active` of the run's job, and for how many more runs there is room.

    The gate is shared; whoever counts holds it alone.
    """
    (free,) = await transaction.ask(sql(_FREE_GATE, run.incarnation, run.job_id))
    for state, lane, most in free.rows:
        if most is None:
            return state, lane, None, inf
    bounded, counted = await transaction.ask(
        sql(_BOUNDED_GATE, run.incarnation, run.job_id), limits.count_active([run.incarnation])
    )
    for state, lane, most in bounded.rows:
        return state, lane, most, limits.rooms_of(counted).get(run.incarnation, inf)
    return None, None, None, 0


def _of_origins(table: str, column: str, life: Incarnation, origins: Sequence[str], longest: Most = None) -> str:
    """Return the select of runs by origin. Of finished runs only requested ones are known by it."""
    wanted = run_columns(longest)
    return sql(f"SELECT {wanted} FROM {table} WHERE incarnation = %s AND {column} IN (%s)", life, list(origins))


async def cancel_run(transaction: Transaction, run_id: RunId, reason: str, now: Moment) -> None:
    children = await family.lock_children_of(transaction, "id = %s", run_id)
    rows, left, places = await ending.apart(transaction, run_id)
    ended = ending.cancelled(rows, reason, now)
    born = await family.bear(transaction, family.born_after(children, ended), ended)
    writes = [*ending.cancel(rows, reason, now), *born]
    await transaction.commit(*await lines.serve(transaction, left, writes, places))


async def hold_run(transaction: Transaction, run_id: RunId, reason: str) -> None:
    rows, left, places = await ending.apart(transaction, run_id)
    for row in rows:
        if may_hold(run_of(row[:RUN_COLUMNS])):
            hold = "UPDATE tokimori_runs SET state = 'held', error = %s, blocked_on = NULL WHERE id = %s"
            await transaction.commit(*await lines.serve(transaction, left, [sql(hold, reason, run_id)], places))
