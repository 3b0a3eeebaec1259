"""Requests, lists, orders and pruning of runs: statements on live and finished runs, attempts and outputs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import inf

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
from tokimori.model.run import Run, may_drop
from tokimori.model.transitions import STANDING_STILL, RunMove, RunState, sources
from tokimori.ports.copying import Copied, Kind
from tokimori.ports.store import Most, RunFilter
from tokimori.stores.copying import TARGETS, row_of
from tokimori.stores.mysql import family, lines, moves, statements
from tokimori.stores.mysql.moves import check_moved
from tokimori.stores.mysql.sessions import Sessions, Transaction
from tokimori.stores.mysql.statements import BY_KEY, SHARED, delete, insert, sql
from tokimori.stores.reading import FORGET, LEAVE_LINE, STATE_LIVE, listed
from tokimori.stores.rows import DOCUMENT, RUN, RUN_COLUMNS, document_row, run_columns, run_of, run_row, run_values
from tokimori.stores.rules.errors import full, no_job, stopped

# Held alone: two requests of one key see each other, and nobody counts beside this one.
_KEY_GATE = f"SELECT state, lane, most_active FROM tokimori_jobs {BY_KEY} WHERE incarnation = %s AND id = %s FOR UPDATE"
# Ids are hexadecimal: `g` comes after all of them.
_NEWEST_LIVE = f"""SELECT {RUN} FROM tokimori_runs WHERE incarnation = %s AND origin >= %s AND origin < %s
        ORDER BY origin DESC LIMIT 1"""
_NEWEST = f"""
SELECT {RUN} FROM (
    ({_NEWEST_LIVE})
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
        sql(_KEY_GATE, run.incarnation, run.job_id),
        sql(_KNOWN, run.incarnation, run.origin, run.incarnation, run.origin, run.id, run.id),
        statements.count_active([run.incarnation]),
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
        newest = await _newest(transaction, run, span, manner)
        if newest is not None and answers(newest, run, manner):
            return newest
        if newest is not None and manner.replaces and never_started(newest):
            check_in_place_of(newest, manner)
            taken_over = await _put_off(transaction, newest, run, lane, now)
            if taken_over is not None:
                return taken_over
        if newest is None or not is_ahead(newest, run):
            break
    check_in_place_of(None, manner)
    if statements.rooms_of(counted).get(run.incarnation, 1) < 1:
        raise full(run.job_id, most)
    added = replace(run, lane=lane)
    await transaction.commit(*insert("INSERT", "tokimori_runs", RUN, [run_row(added)]), *_expiries(added))
    return added


def _expiries(*runs: Run) -> Iterator[str]:
    rows = [document_row(each) for each in expiries_of(*runs)]
    return insert("INSERT", "tokimori_documents", DOCUMENT, rows, "ON DUPLICATE KEY UPDATE text = ''")


async def _newest(transaction: Transaction, run: Run, span: tuple[str, str], manner: Manner) -> Run | None:
    place = (run.incarnation, *span)
    (found,) = await transaction.ask(sql(_NEWEST_LIVE, *place) if manner.of_live else sql(_NEWEST, *place, *place))
    return run_of(found.rows[0]) if found.rows else None


async def _put_off(transaction: Transaction, newest: Run, asked: Run, lane: Lane, now: Moment) -> Run | None:
    """Put the run off, and return it. Wait for a claim that has locked it. None: it was claimed meanwhile."""
    rows, left, places = await moves.apart(transaction, newest.id)
    runs = [run_of(row[:RUN_COLUMNS]) for row in rows]
    if not runs or not never_started(runs[0]):
        return None
    after = put_off(runs[0], asked, lane)
    assignments = ", ".join(f'"{name}" = %s' for name in PUT_OFF)
    values = run_values(PUT_OFF)(after)
    writes = (
        sql(f"UPDATE tokimori_runs SET {assignments} WHERE id = %s", *values, after.id),
        sql("DELETE FROM tokimori_requests WHERE asked < %s", now - REMEMBERED),
        *insert("INSERT", "tokimori_requests", "id, run_id, asked", [(asked.id, after.id, now)]),
        *_expiries(after),
    )
    await transaction.commit(*await lines.serve(transaction, left, writes, places))
    return after


_LIVE, _HISTORY = "tokimori_runs", "tokimori_history"
_LIVES = """SELECT incarnation FROM tokimori_jobs WHERE id = %s
    UNION ALL SELECT incarnation FROM tokimori_deleted_jobs WHERE job_id = %s"""
MOST_SORTED = 10_000
"""Index entries that are read and sorted for one list."""
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
    """Add runs. The insert waits for a concurrent one of the same origin, whose run is then found."""
    job, origins = runs[0], [run.origin for run in runs]
    state, lane, most, room = await _gate(transaction, job)
    fits = lane is not None and len(runs) <= room
    new_runs = [run_row(replace(run, lane=lane)) for run in runs if fits]
    *_, live, finished = await transaction.ask(
        *insert("INSERT", _LIVE, RUN, new_runs, "ON DUPLICATE KEY UPDATE tokimori_runs.id = tokimori_runs.id"),
        *_expiries(*(run for run in runs if fits)),
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
    """See `Runs.list_runs`. A few runs that wait in these states are sorted; many are met by a walk in their order."""
    if wanted.states and wanted.states <= STANDING_STILL:
        all_pages = _waiting(replace(wanted, before=None))  # of older ones it would read all entries, for the last page
        if len(await db.rows(f"SELECT 1 FROM ({all_pages} LIMIT 1 OFFSET {MOST_SORTED}) few")) == 0:
            newest = f"{_waiting(wanted)} ORDER BY id DESC LIMIT {wanted.limit:d}"
            brief = f"SELECT {run_columns(wanted.longest)} FROM ({newest}) few JOIN {_LIVE} USING (id) ORDER BY id DESC"
            return list(map(run_of, await db.rows(brief)))
    return [run_of(row) for row in await db.rows(_list(wanted))]


def _waiting(wanted: RunFilter) -> str:
    """Return a select of the ids of runs in these states. The index that it uses holds the ids, too."""
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
    """Return state, lane and `most_active` of the run's job, and the number of further runs for which there is room.

    The row of the job is locked, exclusively if its runs are counted.
    """
    (free,) = await transaction.ask(sql(_FREE_GATE, run.incarnation, run.job_id))
    for state, lane, most in free.rows:
        if most is None:
            return state, lane, None, inf
    bounded, counted = await transaction.ask(
        sql(_BOUNDED_GATE, run.incarnation, run.job_id), statements.count_active([run.incarnation])
    )
    for state, lane, most in bounded.rows:
        return state, lane, most, statements.rooms_of(counted).get(run.incarnation, inf)
    return None, None, None, 0


def _of_origins(table: str, column: str, life: Incarnation, origins: Sequence[str], longest: Most = None) -> str:
    """Return a select of runs by their origins. `column` decides which runs of the history are found."""
    wanted = run_columns(longest)
    return sql(f"SELECT {wanted} FROM {table} WHERE incarnation = %s AND {column} IN (%s)", life, list(origins))


async def cancel_run(
    transaction: Transaction, run_id: RunId, reason: str, now: Moment, unbegun: int | None = None
) -> None:
    children = await family.lock_children_of(transaction, "id = %s", run_id)
    rows, left, places = await moves.apart(transaction, run_id)
    event = RunMove.CANCEL if unbegun is None else RunMove.DROP
    if unbegun is not None and not all(may_drop(run_of(row[:RUN_COLUMNS]), unbegun) for row in rows):
        return
    ended = moves.cancelled(rows, reason, now, event)
    born = await family.add_children(transaction, family.born_after(children, ended), ended)
    writes = [*moves.cancel(rows, reason, now, event), *born]
    await transaction.commit(*await lines.serve(transaction, left, writes, places))


async def leave_line(
    transaction: Transaction, run_id: RunId, was: Moment | None, state: RunState, *new: object
) -> None:
    """See `TableReader._leave_line`."""
    rows, left, places = await moves.apart(transaction, run_id)
    for run in (run_of(row[:RUN_COLUMNS]) for row in rows):
        if run.state in sources(RunMove.PUT_OFF) and was in (None, run.due):
            change = sql(LEAVE_LINE, state, *new, run_id)
            await transaction.commit(*await lines.serve(transaction, left, [change], places))


async def import_rows(transaction: Transaction, kind: Kind, rows: Sequence[Copied]) -> None:
    table, columns = TARGETS[kind]
    first = columns.partition(",")[0]
    same = f"ON DUPLICATE KEY UPDATE {table}.{first} = {table}.{first}"
    for statement in insert("INSERT", table, columns, [row_of(row) for row in rows], same):
        await transaction.ask(statement)  # each by itself: all texts of a page are too much for one step of the loop
    await transaction.commit()


_Key = tuple[JobId, Incarnation, Moment, str]

_OLD_RUNS = """
SELECT id FROM tokimori_history FORCE INDEX (tokimori_history_job)
WHERE job_id = %s AND id > %s AND id < %s ORDER BY id LIMIT %s"""
_NEWEST_RUNS = """
SELECT COUNT(*), MIN(id) FROM (SELECT id FROM tokimori_history FORCE INDEX (tokimori_history_job)
    WHERE job_id = %s AND id < %s ORDER BY id DESC LIMIT %s) newest"""
_LOCKED = f"""
SELECT id, incarnation, origin, state, ended FROM tokimori_history {BY_KEY} WHERE id IN (%s) FOR UPDATE SKIP LOCKED"""
_OLD_SKIPS = f"""
SELECT first, last, reason, count FROM tokimori_skips {BY_KEY}
WHERE incarnation = %s AND first < %s AND last < %s AND first < %s"""
_NEWEST_SKIP = "SELECT MAX(first) FROM tokimori_skips WHERE incarnation = %s"
_OLD_ARRIVALS = "FROM tokimori_arrivals WHERE incarnation = %s AND latest < %s"


async def prune(transaction: Transaction, expiries: Sequence[Expiry], limit: int) -> Sequence[Expiry]:
    """See `Pruning.prune`. One look at all expiries finds those with old rows."""
    known = sql("SELECT id FROM tokimori_jobs WHERE id IN (%s)", sorted({expiry.job_id for expiry in expiries}))
    looks = [look for expiry in expiries for look in _prune_statements(expiry)]
    jobs, *found = await transaction.ask(known, *looks)
    there = {job_id for (job_id,) in jobs.rows}
    counted: Counter[_Key] = Counter()
    left = limit
    rest = list(expiries)
    while rest and left:
        old, skips, arrived, *found = found
        if old.rows and not (rest[0].deleted and rest[0].job_id in there):
            rest[0], left = await _prune_runs(transaction, rest[0], left, counted)
        if left and skips.rows[0][0] is not None:
            first = skips.rows[0][0] + rest[0].deleted
            left -= await _prune_skips(transaction, rest[0], first, left, counted)
        if left and arrived.rows:
            gone = sql(f"DELETE {_OLD_ARRIVALS} LIMIT {left}", rest[0].incarnation, rest[0].keyed_before)
            left -= (await transaction.ask(gone))[0].changed
        if left and rest[0].deleted:
            await transaction.ask(FORGET.format(incarnation=rest[0].incarnation, job=sql("%s", rest[0].job_id)))
        del rest[: bool(left)]
    rows, columns = sorted((*key, count) for key, count in counted.items()), "job_id, incarnation, day, outcome, count"
    more = "ON DUPLICATE KEY UPDATE tokimori_counts.count = tokimori_counts.count + VALUES(count)"
    await transaction.commit(*insert("INSERT", "tokimori_counts", columns, rows, more))
    return rest


def _prune_statements(expiry: Expiry) -> Iterator[str]:
    """Yield three selects: one old run, the newest skip, and one old arrival."""
    yield _old_runs_statement(expiry, 1)
    yield sql(_NEWEST_SKIP, expiry.incarnation)
    yield sql(f"SELECT 1 {_OLD_ARRIVALS} LIMIT 1", expiry.incarnation, expiry.keyed_before)


def _old_runs_statement(expiry: Expiry, limit: int) -> str:
    return sql(_OLD_RUNS, expiry.job_id, expiry.after, min(expiry.made_before, expiry.kept), limit)


async def _prune_runs(
    transaction: Transaction, expiry: Expiry, left: int, counted: Counter[_Key]
) -> tuple[Expiry, int]:
    if expiry.keep_runs:
        wanted = min(expiry.keep_runs, PASSED * left)
        (newest,) = await transaction.ask(sql(_NEWEST_RUNS, expiry.job_id, expiry.kept, wanted))
        ((seen, oldest),) = newest.rows
        expiry, left = expiry.passed(wanted, seen, oldest), left - seen // PASSED
    (looked,) = await transaction.ask(_old_runs_statement(expiry, 0 if expiry.keep_runs else left))
    if not looked.rows:
        return expiry, left
    (found,) = await transaction.ask(sql(_LOCKED, [run_id for (run_id,) in looked.rows]))
    old = [row for row in found.rows if expiry.has_expired(row[2], row[4])]
    counted.update((expiry.job_id, incarnation, day_of(ended), state) for _, incarnation, _, state, ended in old)
    ids = [run_id for run_id, *_ in old]
    of_runs = *delete("tokimori_attempts", ids, "run_id"), *delete("tokimori_outputs", ids, "run_id")
    await transaction.ask(*of_runs, *delete("tokimori_history", ids))
    return replace(expiry, after=looked.rows[-1][0]), left - len(looked.rows)


async def _prune_skips(
    transaction: Transaction, expiry: Expiry, first_kept: int, limit: int, counted: Counter[_Key]
) -> int:
    old = sql(_OLD_SKIPS, expiry.incarnation, expiry.before, expiry.before, first_kept)
    (found,) = await transaction.ask(f"{old} ORDER BY first LIMIT {limit} FOR UPDATE SKIP LOCKED")
    if not found.rows:
        return 0
    for _, last, reason, count in found.rows:
        counted[expiry.job_id, expiry.incarnation, day_of(last), reason] += count
    firsts = [first for first, *_ in found.rows]
    gone = f"DELETE t FROM tokimori_skips t {BY_KEY} WHERE t.incarnation = %s AND t.first IN (%s)"
    await transaction.ask(sql(gone, expiry.incarnation, firsts))
    return len(firsts)


async def prune_nodes(transaction: Transaction, before: Moment, limit: int) -> int:
    gone = """SELECT id FROM tokimori_nodes n WHERE state <> 'alive' AND "left" < %s AND NOT EXISTS (
        SELECT 1 FROM tokimori_runs WHERE state = 'running' AND node_id = n.id) LIMIT %s"""
    (found,) = await transaction.ask(sql(gone, before, limit))
    ids = [node_id for (node_id,) in found.rows]
    await transaction.commit(*delete("tokimori_nodes", ids))
    return len(ids)
