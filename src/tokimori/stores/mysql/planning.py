"""Due jobs, plans and promotions: statements."""

from collections.abc import Iterator, Mapping, Sequence

from tokimori.clock import Moment
from tokimori.model.decide import REPLACED, Due, Plan
from tokimori.model.ids import Incarnation, RunId
from tokimori.model.job import Job, JobState
from tokimori.ports.planning import ALL, MOST_MAKING_WAY, Share
from tokimori.stores.job_rows import JOB, due_of, job_of
from tokimori.stores.listing import readable
from tokimori.stores.mysql import ending, family, limits, lines, moves
from tokimori.stores.mysql.jobs import DUE, keep_skips
from tokimori.stores.mysql.lines import go_on
from tokimori.stores.mysql.sessions import Sessions, Transaction
from tokimori.stores.mysql.statements import BY_KEY, SHARED, insert, sql
from tokimori.stores.rows import RUN, run_row
from tokimori.stores.rules.births import planned_runs
from tokimori.stores.rules.lines import Freed
from tokimori.stores.rules.plans import Cursor, may_apply, was_applied
from tokimori.stores.rules.settling import JOB_DELETED

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
    bounded = limits.count_active(plan.incarnation for plan, _ in plans if plan.most_active is not None)
    found, counted = await transaction.ask(sql(_CURSORS, sorted({plan.incarnation for plan, _ in plans})), bounded)
    cursors = {row[0]: Cursor(row[0], row[1], row[2], JobState(row[3])) for row in found.rows}
    rooms = limits.rooms_of(counted)
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
    """Cancel the scheduled runs that newcomers replace. The gates of the jobs, each with its semaphores, are locked."""
    if not jobs:
        return
    which = "id IN (%s) AND state <> 'held'"
    # Chosen without a lock, then locked: a program's own run, which is not committed, is not waited for.
    moved, found = await transaction.ask(sql(moves.NAMES, list(jobs)), sql(_SCHEDULED, list(jobs), MOST_MAKING_WAY))
    ids = sorted(run_id for (run_id,) in found.rows)
    children = await family.lock_children_of(transaction, which, ids)
    names = {name for wanted in (*jobs.values(), *(row[0] for row in moved.rows)) for name in lines.names_in(wanted)}
    *_, runs, counted = await transaction.ask(
        *lines.locks(Freed(semaphores=names)), ending.locked(which, ids), limits.count_places(jobs)
    )
    left = ending.left_by(runs.rows, jobs)
    ended = ending.cancelled(runs.rows, REPLACED, now)
    born = await family.bear(transaction, family.born_after(children, ended), ended)
    cancelled = [*ending.cancel(runs.rows, REPLACED, now), *born]
    writes = await lines.serve(transaction, left, cancelled, limits.places_of(counted))
    if writes:
        await transaction.ask(*writes)


def _write(plans: Sequence[_Planned], now: Moment) -> Iterator[str]:
    births = [run_row(run) for plan, ids in plans for run in planned_runs(plan, ids, now)]
    yield from insert(
        "INSERT", "tokimori_runs", RUN, births, "ON DUPLICATE KEY UPDATE tokimori_runs.id = tokimori_runs.id"
    )
    yield from keep_skips([(plan.incarnation, skip) for plan, _ in plans for skip in plan.skips])


def _advance(plans: Sequence[_Planned], anchors: Mapping[Incarnation, Moment]) -> Iterator[str]:
    """Advance the cursors of jobs; those of one interval share a statement."""
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
