"""From old rows to counts: statements on history, skips and what is counted of them."""

from collections import Counter
from collections.abc import Sequence

from tokimori.clock import DAY, Moment
from tokimori.model.ids import Incarnation, JobId
from tokimori.model.retention import DailyCount, Expiry, day_of, first_id_at
from tokimori.stores.mysql.sessions import Sessions, Transaction
from tokimori.stores.mysql.statements import BY_KEY, delete, insert, sql
from tokimori.stores.rules.counts import daily_counts

_Key = tuple[JobId, Incarnation, Moment, str]

# A scheduled run is no request.
_OLD_RUNS = """
SELECT id, incarnation, state, ended FROM tokimori_history FORCE INDEX (tokimori_history_job)
WHERE job_id = %s AND id < %s AND ended < %s AND (request IS NULL OR ended < %s)
"""
_OLDEST_KEPT = """
SELECT id FROM tokimori_history FORCE INDEX (tokimori_history_job) WHERE job_id = %s ORDER BY id DESC LIMIT 1 OFFSET %s
"""
_OLD_SKIPS = f"""
SELECT first, last, reason, count FROM tokimori_skips {BY_KEY}
WHERE incarnation = %s AND first < %s AND last < %s AND first < %s
"""
_NEWEST_SKIP = "SELECT MAX(first) FROM tokimori_skips WHERE incarnation = %s"
_OLD_ARRIVALS = "FROM tokimori_arrivals WHERE incarnation = %s AND latest < %s"
_FORGET = """
DELETE FROM tokimori_deleted_jobs WHERE incarnation = %s
    AND NOT EXISTS (SELECT 1 FROM tokimori_skips WHERE incarnation = %s)
    AND NOT EXISTS (SELECT 1 FROM tokimori_arrivals WHERE incarnation = %s)
    AND NOT EXISTS (SELECT 1 FROM tokimori_runs WHERE incarnation = %s)
    AND (EXISTS (SELECT 1 FROM tokimori_jobs WHERE id = %s)
        OR NOT EXISTS (SELECT 1 FROM tokimori_history WHERE job_id = %s))
"""
_COUNTS = f"""
SELECT ended - ended MOD {DAY} AS day, state, COUNT(*), 0 FROM tokimori_history
    FORCE INDEX (tokimori_history_job) WHERE job_id = %s GROUP BY 1, 2
UNION ALL
SELECT last - last MOD {DAY} AS day, reason, SUM(count), 0 FROM tokimori_skips WHERE incarnation IN (
    SELECT incarnation FROM tokimori_jobs WHERE id = %s
    UNION SELECT incarnation FROM tokimori_deleted_jobs WHERE job_id = %s) GROUP BY 1, 2
UNION ALL
SELECT day, outcome, 0, SUM(count) FROM tokimori_counts WHERE job_id = %s GROUP BY 1, 2
"""


async def deleted_jobs(db: Sessions, after: Incarnation | None, limit: int) -> list[tuple[Incarnation, JobId]]:
    statement = "SELECT incarnation, job_id FROM tokimori_deleted_jobs WHERE incarnation > %s ORDER BY 1 LIMIT %s"
    rows = await db.rows(sql(statement, -1 if after is None else after, limit))
    return [(row[0], row[1]) for row in rows]


async def counts(db: Sessions, job_id: JobId) -> list[DailyCount]:
    """See `Pruning.counts`. One statement: what is pruned meanwhile is in it once."""
    kept, pruned = {}, {}
    for day, outcome, there, gone in await db.rows(sql(_COUNTS, *[job_id] * 4)):
        if gone:
            pruned[day, outcome] = int(gone)
        else:
            kept[day, outcome] = int(there)
    return daily_counts(kept, pruned)


async def prune(transaction: Transaction, expiries: Sequence[Expiry], limit: int) -> int:
    """See `Pruning.prune`. One look at all of them tells which have anything old."""
    if not expiries:
        return 0
    known = sql("SELECT id FROM tokimori_jobs WHERE id IN (%s)", sorted({expiry.job_id for expiry in expiries}))
    jobs, *bounds = await transaction.ask(known, *(bound for expiry in expiries for bound in _bounds(expiry)))
    there = {job_id for (job_id,) in jobs.rows}
    counted: Counter[_Key] = Counter()
    left = limit
    for n, expiry in enumerate(expiries):
        kept, newest, arrived, old = (answer.rows for answer in bounds[4 * n : 4 * n + 4])
        runs_stay = expiry.deleted and expiry.job_id in there
        if left and not runs_stay and (kept or not expiry.keep_runs) and old:
            left -= await _prune_runs(transaction, expiry, kept[0][0] if kept else "~", left, counted)
        if left and newest[0][0] is not None:
            first = newest[0][0] + expiry.deleted
            left -= await _prune_skips(transaction, expiry, first, left, counted)
        if left and arrived:
            gone = sql(f"DELETE {_OLD_ARRIVALS} LIMIT {left}", expiry.incarnation, expiry.keyed_before)
            left -= (await transaction.ask(gone))[0].changed
        if left and expiry.deleted:
            values = *[expiry.incarnation] * 4, *[expiry.job_id] * 2
            await transaction.ask(sql(_FORGET, *values))
    rows = sorted((*key, count) for key, count in counted.items())
    await transaction.commit(
        *insert(
            "INSERT",
            "tokimori_counts",
            "job_id, incarnation, day, outcome, count",
            rows,
            "ON DUPLICATE KEY UPDATE tokimori_counts.count = tokimori_counts.count + VALUES(count)",
        )
    )
    return limit - left


def _bounds(expiry: Expiry) -> tuple[str, str, str, str]:
    """The oldest run that stays by number, the newest skip, and whether any arrival, and any run, is old."""
    old = sql(_OLD_RUNS, expiry.job_id, first_id_at(expiry.before), expiry.before, expiry.keyed_before)
    return (
        sql(_OLDEST_KEPT, expiry.job_id, max(0, expiry.keep_runs - 1)),
        sql(_NEWEST_SKIP, expiry.incarnation),
        sql(f"SELECT 1 {_OLD_ARRIVALS} LIMIT 1", expiry.incarnation, expiry.keyed_before),
        f"{old} ORDER BY id LIMIT 1",
    )


async def _prune_runs(transaction: Transaction, expiry: Expiry, kept: str, limit: int, counted: Counter[_Key]) -> int:
    bound = min(first_id_at(expiry.before), kept) if expiry.keep_runs else first_id_at(expiry.before)
    old = sql(_OLD_RUNS, expiry.job_id, bound, expiry.before, expiry.keyed_before)
    (found,) = await transaction.ask(f"{old} ORDER BY id LIMIT {limit} FOR UPDATE SKIP LOCKED")
    ids = [run_id for run_id, *_ in found.rows]
    if not ids:
        return 0
    for _, incarnation, state, ended in found.rows:
        counted[expiry.job_id, incarnation, day_of(ended), state] += 1
    of_runs = [
        sql(f"DELETE t FROM tokimori_{table} t {BY_KEY} WHERE t.run_id IN (%s)", ids)
        for table in ("attempts", "outputs")
    ]
    await transaction.ask(*of_runs, *delete("tokimori_history", ids))
    return len(ids)


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
