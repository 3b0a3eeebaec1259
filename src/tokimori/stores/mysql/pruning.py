"""Pruning, and exports and imports of rows for copies: statements."""

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.model.ids import Incarnation, JobId
from tokimori.model.retention import PASSED, Expiry, day_of
from tokimori.ports.copying import Copied, Kind
from tokimori.stores.copying import TARGETS, row_of
from tokimori.stores.mysql.sessions import Transaction
from tokimori.stores.mysql.statements import BY_KEY, delete, insert, sql
from tokimori.stores.reading import FORGET


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
    looks = [look for expiry in expiries for look in _looks(expiry)]
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


def _looks(expiry: Expiry) -> Iterator[str]:
    """Yield the questions: whether any run is old, the newest skip, whether any arrival is old."""
    yield _look(expiry, 1)
    yield sql(_NEWEST_SKIP, expiry.incarnation)
    yield sql(f"SELECT 1 {_OLD_ARRIVALS} LIMIT 1", expiry.incarnation, expiry.keyed_before)


def _look(expiry: Expiry, limit: int) -> str:
    return sql(_OLD_RUNS, expiry.job_id, expiry.after, min(expiry.made_before, expiry.kept), limit)


async def _prune_runs(
    transaction: Transaction, expiry: Expiry, left: int, counted: Counter[_Key]
) -> tuple[Expiry, int]:
    if expiry.keep_runs:
        wanted = min(expiry.keep_runs, PASSED * left)
        (newest,) = await transaction.ask(sql(_NEWEST_RUNS, expiry.job_id, expiry.kept, wanted))
        ((seen, oldest),) = newest.rows
        expiry, left = expiry.passed(wanted, seen, oldest), left - seen // PASSED
    (looked,) = await transaction.ask(_look(expiry, 0 if expiry.keep_runs else left))
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
