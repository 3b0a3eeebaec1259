"""Definitions and plans of jobs: statements on the tables of jobs and skips."""

from collections.abc import Iterator, Mapping, Sequence

from tokimori.clock import Moment
from tokimori.model.decide import MOST_CATCHING_UP, REPLACED, Due, Plan
from tokimori.model.ids import Incarnation, JobId, RunId
from tokimori.model.job import Job, JobState
from tokimori.model.run import Skip
from tokimori.ports.planning import ALL, MOST_MAKING_WAY, Share
from tokimori.ports.store import Family
from tokimori.stores.mysql import lines, moves, statements
from tokimori.stores.mysql.family import (
    READ_FAMILY,
    add_children,
    born_after,
    change_edges,
    family_of,
    has_children,
    lock_children_of,
)
from tokimori.stores.mysql.lines import go_on
from tokimori.stores.mysql.sessions import Sessions, Transaction
from tokimori.stores.mysql.statements import BY_KEY, IS_ACTIVE, SHARED, insert, sql
from tokimori.stores.reading import readable
from tokimori.stores.rows import (
    JOB,
    JOB_COLUMNS,
    JOB_STAMPS,
    RUN,
    SKIP,
    TOMBSTONE,
    due_of,
    job_of,
    job_row,
    prefixed,
    run_row,
    skip_row,
)
from tokimori.stores.rules.edits import edges_by_job, was_replaced
from tokimori.stores.rules.errors import is_parent, job_changed, no_job, taken
from tokimori.stores.rules.lines import Freed, lane_of_forced, priority_before
from tokimori.stores.rules.new_runs import Cursor, may_apply, planned_runs, was_applied
from tokimori.stores.rules.settling import JOB_DELETED

_ACTIVE = f"""FROM tokimori_runs
    WHERE incarnation = j.incarnation AND state IN ('waiting', 'ready', 'blocked', 'running') AND {IS_ACTIVE}"""
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
        moves.locked("incarnation = %s AND state = 'running'", new.incarnation, columns="id"),
    )
    await moves.move_runs(transaction, new.incarnation)


def _rewind(job: Job) -> Iterator[str]:
    yield sql("DELETE FROM tokimori_skips WHERE incarnation = %s AND first > %s", job.incarnation, job.fired_through)
    put_off = """UPDATE tokimori_runs SET state = 'waiting'
        WHERE incarnation = %s AND state = 'ready' AND due > %s AND LEFT(origin, 2) <> 'c:'
        AND (LEFT(origin, 2) = 's:' OR due > created)"""
    yield sql(put_off, job.incarnation, job.updated)


async def delete_job(transaction: Transaction, job_id: JobId, now: Moment, known: Job | None = None) -> Incarnation:
    """Lock the family first, then the gate, then the runs."""
    is_needed = await has_children(transaction, job_id)
    read = "SELECT incarnation, version, state, definition, created FROM tokimori_jobs WHERE id = %s FOR UPDATE"
    (found,) = await transaction.ask(sql(read, job_id))
    if not found.rows:
        raise no_job(job_id)
    ((incarnation, version, state, definition, created),) = found.rows
    if known is not None and f"{incarnation} {version} {state}" != known.stamp:
        raise job_changed(job_id)
    if is_needed:
        raise is_parent(job_id)
    await change_edges(transaction, {job_id: ()}, {})
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


_Planned = tuple[Plan, Sequence[RunId]]
_CURSORS = f"""
SELECT incarnation, version, fired_through, state, semaphores, anchor FROM tokimori_jobs {BY_KEY}
WHERE incarnation IN (%s) ORDER BY incarnation FOR UPDATE"""
_DUE = f"""
{DUE.replace("tokimori_jobs j", "tokimori_jobs j FORCE INDEX (tokimori_jobs_due)")}
WHERE j.state = 'enabled' AND j.next_due <= %s AND j.next_due >= %s AND (j.next_due > %s OR j.incarnation > %s)
    AND MOD(j.incarnation, %s) = %s
ORDER BY j.next_due, j.incarnation LIMIT %s"""
_OUTDATED = f"""
SELECT {JOB} FROM tokimori_jobs FORCE INDEX (tokimori_jobs_tzdata)
WHERE state = 'enabled' AND next_due IS NOT NULL AND tzdata < %s
    AND tzdata >= %s AND (tzdata > %s OR incarnation > %s)
ORDER BY tzdata, incarnation LIMIT %s"""
_SCHEDULED = """
SELECT id FROM tokimori_runs FORCE INDEX (tokimori_runs_origin)
WHERE incarnation IN (%s) AND origin BETWEEN 's:' AND 's;' AND state <> 'held' LIMIT %s"""
_ADVANCE = f"""
UPDATE tokimori_jobs {BY_KEY} SET fired_through = GREATEST(fired_through, %s), next_due = %s, state = %s,
    runs_remaining = %s, tzdata = %s, anchor = COALESCE(%s, anchor)
WHERE incarnation IN (%s)"""


async def due(db: Sessions, now: Moment, limit: int, share: Share = ALL) -> list[Due]:
    async def page(after: Job | None) -> list[Due]:
        since, place = (-(2**63), -1) if after is None else (after.next_due, after.incarnation)
        asked = sql(_DUE, now, since, since, place, share.of, share.part, limit)
        return [due_of(row) for row in await db.rows(asked)]

    return await readable(page, limit)


async def outdated(db: Sessions, tzdata: str, limit: int) -> list[Job]:
    async def page(after: Job | None) -> list[Job]:
        since, place = ("", -1) if after is None else (after.tzdata, after.incarnation)
        return [job_of(row) for row in await db.rows(sql(_OUTDATED, tzdata, since, since, place, limit))]

    return await readable(page, limit)


async def apply(transaction: Transaction, plans: Sequence[_Planned], now: Moment) -> list[bool]:
    if not plans:
        return []
    bounded = statements.count_active(plan.incarnation for plan, _ in plans if plan.most_active is not None)
    found, counted = await transaction.ask(sql(_CURSORS, sorted({plan.incarnation for plan, _ in plans})), bounded)
    cursors = {row[0]: Cursor(row[0], row[1], row[2], JobState(row[3])) for row in found.rows}
    rooms = statements.rooms_of(counted)
    accepted: list[_Planned] = []
    refused: dict[int, Cursor | None] = {}
    for number, (plan, ids) in enumerate(plans):
        cursor = cursors.get(plan.incarnation)
        fits = not plan.runs or len(plan.runs) <= rooms.get(plan.incarnation, len(plan.runs))
        if cursor is not None and may_apply(plan, cursor) and fits:
            rooms[plan.incarnation] = rooms.get(plan.incarnation, 0) - len(plan.runs)
            cursors[plan.incarnation] = cursor._replace(fired_through=plan.fired_through, state=plan.state)
            accepted.append((plan, ids))
        else:
            refused[number] = cursor
    semaphores = {row[0]: row[4] for row in found.rows}
    await _make_way(
        transaction, {plan.incarnation: semaphores[plan.incarnation] for plan, _ in accepted if plan.replaces}, now
    )
    first = [ids[0] for number, (_, ids) in enumerate(plans) if number in refused and ids]
    anchors = {row[0]: row[5] for row in found.rows}
    known = [sql(f"SELECT id FROM tokimori_{table} WHERE id IN (%s)", first) for table in ("runs", "history")]
    writes = (*_write(accepted, now), *_advance(accepted, anchors), *known)
    *_, live, finished = await transaction.commit(*writes)
    exist = {run_id for answer in (live, finished) for (run_id,) in answer.rows}
    return [
        number not in refused or was_applied(plan, refused[number], first_run_exists=bool(exist.intersection(ids[:1])))
        for number, (plan, ids) in enumerate(plans)
    ]


async def _make_way(transaction: Transaction, jobs: Mapping[Incarnation, str | None], now: Moment) -> None:
    """Cancel the scheduled runs that new ones replace. The caller has locked the rows of these jobs."""
    if not jobs:
        return
    which = "id IN (%s) AND state <> 'held'"
    # Chosen without a lock, then locked: a program's own run, which is not committed, is not waited for.
    moved, found = await transaction.ask(sql(moves.NAMES, list(jobs)), sql(_SCHEDULED, list(jobs), MOST_MAKING_WAY))
    ids = sorted(run_id for (run_id,) in found.rows)
    children = await lock_children_of(transaction, which, ids)
    names = {name for wanted in (*jobs.values(), *(row[0] for row in moved.rows)) for name in lines.names_in(wanted)}
    *_, runs, counted = await transaction.ask(
        *lines.locks(Freed(semaphores=names)), moves.locked(which, ids), statements.count_places(jobs)
    )
    left = moves.left_by(runs.rows, jobs)
    ended = moves.cancelled(runs.rows, REPLACED, now)
    born = await add_children(transaction, born_after(children, ended), ended)
    cancelled = [*moves.cancel(runs.rows, REPLACED, now), *born]
    writes = await lines.serve(transaction, left, cancelled, statements.places_of(counted))
    if writes:
        await transaction.ask(*writes)


def _write(plans: Sequence[_Planned], now: Moment) -> Iterator[str]:
    new_runs = [run_row(run) for plan, ids in plans for run in planned_runs(plan, ids, now)]
    yield from insert(
        "INSERT", "tokimori_runs", RUN, new_runs, "ON DUPLICATE KEY UPDATE tokimori_runs.id = tokimori_runs.id"
    )
    yield from keep_skips([(plan.incarnation, skip) for plan, _ in plans for skip in plan.skips])


def _advance(plans: Sequence[_Planned], anchors: Mapping[Incarnation, Moment]) -> Iterator[str]:
    """Yield statements that advance the cursors of jobs, one for all jobs with the same new values."""
    alike: dict[tuple[object, ...], list[Incarnation]] = {}
    for incarnation, plan in {plan.incarnation: plan for plan, _ in plans}.items():
        anchor = None if plan.anchor == anchors[incarnation] else plan.anchor
        terms = (plan.fired_through, plan.next_due, plan.state, plan.runs_remaining, plan.tzdata, anchor)
        alike.setdefault(terms, []).append(incarnation)
    for values, jobs in alike.items():
        yield sql(_ADVANCE, *values, jobs)


_WAITING = """
SELECT id, incarnation, lane FROM tokimori_runs FORCE INDEX (tokimori_runs_waiting)
WHERE state = 'waiting' AND due <= %s ORDER BY due LIMIT %s OFFSET %s FOR UPDATE SKIP LOCKED"""
_JOBS = f"SELECT incarnation FROM tokimori_jobs {BY_KEY} WHERE incarnation IN (%s) ORDER BY incarnation {SHARED}"
_READY = f"""
UPDATE tokimori_runs r {BY_KEY} SET state = 'ready', lane = COALESCE(lane, (
    SELECT j.lane FROM tokimori_jobs j WHERE j.incarnation = r.incarnation))
WHERE id IN (%s)"""
_GOING_ON = """
SELECT name FROM tokimori_semaphores FORCE INDEX (tokimori_semaphores_wakes) WHERE wakes <= %s
ORDER BY wakes LIMIT 100"""
_ORPHANS = """
INSERT INTO tokimori_moves (incarnation, origin, woken, names, reason, since) VALUES (%s, '', 0, '[]', %s, %s)
ON DUPLICATE KEY UPDATE origin = ''"""


async def promote(transaction: Transaction, now: Moment, limit: int, skip: int = 0) -> int:
    found, rated = await transaction.ask(sql(_WAITING, now, limit, skip), sql(_GOING_ON, now))
    served = await go_on(transaction, [name for (name,) in rated.rows]) if rated.rows else []
    nowhere = {job for _, job, lane in found.rows if lane is None}
    if nowhere:  # perhaps from outside; a change of their jobs is waited for, or sees them
        (jobs,) = await transaction.ask(sql(_JOBS, sorted(nowhere)))
        nowhere -= {job for (job,) in jobs.rows}
    if found.rows:
        orphans = [sql(_ORPHANS, job, JOB_DELETED, now) for job in sorted(nowhere)]
        served = [sql(_READY, [run_id for run_id, *_ in found.rows]), *orphans, *served]
    if served:
        await transaction.commit(*served)
    return len(found.rows) + len(rated.rows)
