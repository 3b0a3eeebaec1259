"""Definitions: statements on the tables of jobs and skips."""

from collections.abc import Iterator, Sequence

from tokimori.clock import Moment
from tokimori.model.decide import MOST_CATCHING_UP
from tokimori.model.ids import Incarnation, JobId
from tokimori.model.job import Job
from tokimori.model.run import Skip
from tokimori.ports.store import Family
from tokimori.stores.job_rows import JOB, JOB_COLUMNS, JOB_STAMPS, TOMBSTONE, job_of, job_row
from tokimori.stores.mysql import ending, lines, moves
from tokimori.stores.mysql.family import READ_FAMILY, change_edges, family_of, has_children
from tokimori.stores.mysql.sessions import Transaction
from tokimori.stores.mysql.statements import insert, sql
from tokimori.stores.rows import SKIP, prefixed, skip_row
from tokimori.stores.rules.edits import edges_by_job, was_replaced
from tokimori.stores.rules.errors import is_parent, no_job, taken
from tokimori.stores.rules.lines import Freed, lane_of_forced, priority_before
from tokimori.stores.rules.settling import JOB_DELETED

_ACTIVE = """FROM tokimori_runs
    WHERE incarnation = j.incarnation AND state IN ('waiting', 'ready', 'blocked', 'running')"""
# Nobody asks for more than MOST_CATCHING_UP unless a limit is larger: then the many are not walked to their end.
DUE = f"""
SELECT {prefixed(JOB, "j")},
    CASE WHEN GREATEST(j.max_running, COALESCE(j.most_active, 0)) <= {MOST_CATCHING_UP}
        AND EXISTS (SELECT 1 {_ACTIVE} LIMIT 1 OFFSET {MOST_CATCHING_UP})
    THEN {MOST_CATCHING_UP + 1} ELSE (SELECT COUNT(*) {_ACTIVE}) END,
    {prefixed(SKIP, "s")}
FROM tokimori_jobs j
LEFT JOIN tokimori_skips s ON s.incarnation = j.incarnation AND s.last = j.fired_through
    AND s.first = (SELECT MAX(first) FROM tokimori_skips WHERE incarnation = j.incarnation)"""
"""Jobs as `due_of` reads them; a live run that is not held is active."""
_COLUMNS = f"{JOB}, {JOB_STAMPS}"


def keep_skips(skips: Sequence[tuple[Incarnation, Skip]]) -> Iterator[str]:
    """Write rows of the ledger. One with the first moment of a known row replaces it."""
    rows = [(incarnation, *skip_row(skip)) for incarnation, skip in skips]
    return insert("REPLACE", "tokimori_skips", f"incarnation, {SKIP}", rows)


async def family(transaction: Transaction) -> Family:
    return family_of(*await transaction.ask(*READ_FAMILY))


async def add_jobs(transaction: Transaction, jobs: Sequence[Job], family: int | None = None) -> None:
    """Add jobs. An existing id is ignored, and then found: a concurrent insert of it is waited for."""
    if not jobs:
        return
    edges = edges_by_job(*jobs)
    if edges:
        (before,) = await transaction.ask(sql("SELECT id FROM tokimori_jobs WHERE id IN (%s)", sorted(edges)))
        known = {job_id for (job_id,) in before.rows}
        await change_edges(transaction, {}, {job: each for job, each in edges.items() if job not in known}, family)
    same = "ON DUPLICATE KEY UPDATE tokimori_jobs.incarnation = tokimori_jobs.incarnation"
    added = insert("INSERT", "tokimori_jobs", _COLUMNS, [job_row(job) for job in jobs], same)
    ids = [job.id for job in jobs]
    *_, found = await transaction.ask(*added, sql("SELECT id, incarnation FROM tokimori_jobs WHERE id IN (%s)", ids))
    incarnations = dict(found.rows)
    for job in jobs:
        if incarnations.get(job.id) != job.incarnation:
            raise taken(job.id)
    await transaction.commit()


async def replace_job(
    transaction: Transaction, old: Job, new: Job, skips: Sequence[Skip] = (), family: int | None = None
) -> None:
    """Lock the gate first, then the running runs: no settle uses the old limit after this."""
    gate = f"SELECT {JOB}, semaphores FROM tokimori_jobs WHERE id = %s FOR UPDATE"
    found, moved = await transaction.ask(sql(gate, old.id), sql(moves.NAMES, [old.incarnation]))
    if not found.rows:
        raise no_job(old.id)
    stored, forced, was = job_of(found.rows[0][:JOB_COLUMNS]), lane_of_forced(old, new), priority_before(old, new)
    if was_replaced(stored, old, new):
        return
    if forced is not None or was is not None:
        await moves.check_moved(transaction, old.incarnation)
    await change_edges(transaction, edges_by_job(stored), edges_by_job(new), family)
    row = dict(zip(_COLUMNS.split(", "), job_row(new), strict=True))
    values = ", ".join(f"{column} = %s" for column in row)
    named = (found.rows[0][-1], row["semaphores"], *(names for (names,) in moved.rows))
    await transaction.ask(
        *lines.locks(Freed(semaphores={name for each in named for name in lines.names_in(each)})),
        moves.begin(old.incarnation, forced, was=was),
        sql(f"UPDATE tokimori_jobs SET {values} WHERE incarnation = %s", *row.values(), old.incarnation),
        *(_rewind(new) if new.fired_through < stored.fired_through else ()),
        *keep_skips([(new.incarnation, skip) for skip in skips]),
        ending.locked("incarnation = %s AND state = 'running'", new.incarnation, columns="id"),
    )
    await moves.move_runs(transaction, new.incarnation)


def _rewind(job: Job) -> Iterator[str]:
    yield sql("DELETE FROM tokimori_skips WHERE incarnation = %s AND first > %s", job.incarnation, job.fired_through)
    put_off = """UPDATE tokimori_runs SET state = 'waiting'
        WHERE incarnation = %s AND state = 'ready' AND due > %s AND LEFT(origin, 2) <> 'c:'
        AND (LEFT(origin, 2) = 's:' OR due > created)"""
    yield sql(put_off, job.incarnation, job.updated)


async def delete_job(transaction: Transaction, job_id: JobId, now: Moment) -> Incarnation:
    """Lock the family first, then the gate, then the runs."""
    is_needed = await has_children(transaction, job_id)
    read = "SELECT incarnation, version, definition, created FROM tokimori_jobs WHERE id = %s FOR UPDATE"
    (found,) = await transaction.ask(sql(read, job_id))
    if not found.rows:
        raise no_job(job_id)
    if is_needed:
        raise is_parent(job_id)
    await change_edges(transaction, {job_id: ()}, {})
    ((incarnation, version, definition, created),) = found.rows
    runs = "SELECT 1 FROM tokimori_runs WHERE incarnation = %s AND state = 'running' LIMIT 1"
    *_, running = await transaction.ask(
        moves.begin(incarnation, None, JOB_DELETED, now),
        sql("DELETE FROM tokimori_jobs WHERE incarnation = %s", incarnation),
        sql(runs, incarnation),
    )
    kept = (incarnation, job_id, version, definition if running.rows else None, created, now)
    await transaction.ask(sql(f"INSERT INTO tokimori_deleted_jobs (incarnation, job_id, {TOMBSTONE}) VALUES %s", kept))
    await moves.move_runs(transaction, incarnation)
    return Incarnation(incarnation)
