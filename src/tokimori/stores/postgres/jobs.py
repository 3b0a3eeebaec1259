"""Definitions and plans of jobs: statements on the tables of jobs and skips."""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain, count

import msgspec

from tokimori.clock import Moment
from tokimori.errors import FamilyChanged, StoreRefused
from tokimori.model.decide import MOST_CATCHING_UP, REPLACED, Due, Plan
from tokimori.model.dependents import Edge, On
from tokimori.model.ids import Incarnation, JobId, RunId
from tokimori.model.job import Job, JobState
from tokimori.model.lanes import Pause
from tokimori.model.run import NEVER, Skip
from tokimori.ports.planning import ALL, Share
from tokimori.ports.store import Family
from tokimori.stores.postgres.batches import columns, parameters, rounds
from tokimori.stores.postgres.connections import PostgresConnections
from tokimori.stores.postgres.schema import PLANNED, types_of
from tokimori.stores.reading import readable
from tokimori.stores.rows import (
    JOB,
    JOB_STAMPS,
    PAUSE,
    SKIP,
    due_of,
    job_of,
    job_row,
    names_of,
    pause_of,
    pause_row,
    prefixed,
    row_writer,
    run_values,
)
from tokimori.stores.rules.edits import Edges, edges_by_job, not_there_yet, replace
from tokimori.stores.rules.errors import FAMILY_CHANGED, NOT_DELETED, existing, no_job
from tokimori.stores.rules.lines import MOST_STEPS, lane_of_forced, priority_before
from tokimori.stores.rules.new_runs import Cursor, planned_runs, was_applied
from tokimori.stores.rules.settling import JOB_DELETED

DUE = f"""
SELECT {prefixed(JOB, "j")},
    (SELECT count(*) FROM (
        SELECT 1 FROM tokimori_runs WHERE incarnation = j.incarnation AND state <> 'held' AND due <> {NEVER}
        LIMIT greatest({MOST_CATCHING_UP}, j.max_running, j.most_active) + 1) a),
    {prefixed(SKIP, "s")}
FROM tokimori_jobs j
LEFT JOIN LATERAL (
    SELECT {SKIP} FROM tokimori_skips WHERE incarnation = j.incarnation ORDER BY first DESC LIMIT 1
) s ON s.last = j.fired_through"""
"""Jobs as `due_of` reads them; a live run that is not held is active, and is counted as far as it matters."""
_TYPES = (
    *("text", "bigint", "int", "text", "text", "text", "text"),
    *("bigint", "bigint", "bigint", "bigint", "bigint", "int", "text", "text"),
    *("int", "text", "int", "text", "int", "int", "bigint", "text", "text"),
)
"""Of the columns `JOB` and `JOB_STAMPS`."""
_COLUMNS = ", ".join(f"${n}::{type_}[]" for n, type_ in enumerate(_TYPES, start=1))
_ADD = f"""
INSERT INTO tokimori_jobs ({JOB}, {JOB_STAMPS}) SELECT * FROM unnest({_COLUMNS}) AS j ({JOB}, {JOB_STAMPS})
ORDER BY incarnation
ON CONFLICT (incarnation) DO NOTHING"""
_ADD_FAMILY = f"""
WITH declared AS (SELECT tokimori_declare(${len(_TYPES) + 1}, ${len(_TYPES) + 2}, ${len(_TYPES) + 3}) AS done),
added AS ({_ADD.replace("ORDER BY", "WHERE (SELECT done FROM declared) ORDER BY")})
SELECT done FROM declared"""
_REPLACE = f"SELECT tokimori_replace_job({', '.join(f'${n}' for n in range(1, 33))})"


async def add_jobs(db: PostgresConnections, jobs: Sequence[Job], family: int | None = None) -> None:
    """See `Jobs.add_jobs`. Taken ids are looked for first, and again if the unique index has found one since."""
    if not (new := await _not_there_yet(db, jobs)):
        return
    try:
        await _add(db, new, family)
    except StoreRefused:
        if await _not_there_yet(db, new):
            raise


async def _not_there_yet(db: PostgresConnections, jobs: Sequence[Job]) -> Sequence[Job]:
    known = "SELECT id, incarnation FROM tokimori_jobs WHERE id = ANY ($1::text[])"
    return not_there_yet(jobs, {id_: life for id_, life in await db.rows(known, [job.id for job in jobs])})  # noqa: C416


async def _add(db: PostgresConnections, jobs: Sequence[Job], family: int | None) -> None:
    columns = tuple(zip(*map(job_row, jobs), strict=True))
    edges = edges_by_job(*jobs)
    if not edges:
        await db.rows(_ADD, *columns)
    elif family is None or not await db.value(_ADD_FAMILY, *columns, *_declared(edges, list(edges)), family):
        raise FamilyChanged(FAMILY_CHANGED, field="parents")


def _declared(edges: Edges, jobs: Sequence[JobId]) -> tuple[Sequence[JobId], str]:
    """Return the arguments of `tokimori_declare`."""
    return jobs, msgspec.json.encode([edge._asdict() for edge in chain(*edges.values())]).decode()


async def family(db: PostgresConnections) -> Family:
    """See `Jobs.family`. One statement: version and edges are of one moment."""
    rows = await db.rows(
        """
        SELECT coalesce(f.version, 0), e.parent, e.child, e."on", e.joins, e.declared_by
        FROM (SELECT max(version) AS version FROM tokimori_family) f LEFT JOIN tokimori_edges e ON true
        ORDER BY 2, 3, 4, 5, 6"""
    )
    edges = tuple(Edge(row[1], row[2], On(row[3]), *row[4:]) for row in rows if row[1] is not None)
    return Family(version=rows[0][0], edges=edges)


async def get_job(db: PostgresConnections, job_id: JobId) -> Job:
    return job_of(existing(await db.row(f"SELECT {JOB} FROM tokimori_jobs WHERE id = $1", job_id), no_job(job_id)))


async def replace_job(
    db: PostgresConnections, old: Job, new: Job, skips: Sequence[Skip] = (), family: int | None = None
) -> None:
    skips_of_job = skips_json([(new.incarnation, skip) for skip in skips])
    terms = old.version, old.state, old.fired_through, *job_row(new), skips_of_job, lane_of_forced(old, new)
    was = priority_before(old, new)

    async def write(edges: Edges | None) -> str:
        declared = None if edges is None else _declared(edges, [new.id])[1]
        return str(await db.value(_REPLACE, *terms, declared, family if edges else None, was))

    move = partial(move_runs, db, old.incarnation)
    await replace(old, new, family, read=lambda job_id: get_job(db, job_id), write=write, move=move)


async def delete_job(db: PostgresConnections, job_id: JobId, now: Moment, known: Job | None = None) -> None:
    terms = job_id, JOB_DELETED, now, None if known is None else known.stamp
    ((answer, incarnation),) = await db.rows("SELECT * FROM tokimori_delete_job($1, $2, $3, $4)", *terms)
    if answer == "parent":
        await get_job(db, job_id)  # the function looks for children first, and others may name a job that is gone
    if answer in NOT_DELETED:
        raise NOT_DELETED[answer](job_id)
    if answer == "begun":
        await move_runs(db, incarnation, range(MOST_STEPS))


async def finish_moves(db: PostgresConnections) -> None:
    for incarnation in await db.rows("SELECT incarnation FROM tokimori_moves"):
        await move_runs(db, incarnation[0], count())


async def move_runs(db: PostgresConnections, incarnation: Incarnation, steps: Iterable[int]) -> None:
    """Move the runs of a job after its change, some at a time: others get their turn between, ticks do the rest."""
    for _ in steps:
        if await db.value("SELECT tokimori_move_runs($1)", incarnation):
            return


def skips_json(skips: Sequence[tuple[Incarnation, Skip]]) -> str:
    """Return rows of the ledger as `tokimori_keep_skips` reads them."""
    return msgspec.json.encode([{"incarnation": job, **msgspec.to_builtins(skip)} for job, skip in skips]).decode()


async def add_pause(db: PostgresConnections, pause: Pause) -> Pause:
    """See `Pausing.add_pause`. The function waits for the claims that are under way."""
    await db.rows("SELECT tokimori_pause($1, $2, $3, $4)", *pause_row(pause))
    kept = await db.row(f"SELECT {PAUSE} FROM tokimori_pauses WHERE queue = $1", pause.queue)
    return pause if kept is None else pause_of(kept)


_Planned = tuple[Plan, Sequence[RunId]]
DUE_NOW = f"""
{DUE} WHERE j.state = 'enabled' AND j.next_due IS NOT NULL AND j.next_due <= $1
    AND (j.next_due, j.incarnation) > ($3, $4) AND j.incarnation % $5 = $6
ORDER BY j.next_due, j.incarnation LIMIT $2"""
OUTDATED = f"""
SELECT {JOB} FROM tokimori_jobs WHERE state = 'enabled' AND next_due IS NOT NULL AND tzdata < $1
    AND (tzdata, incarnation) > ($3, $4)
ORDER BY tzdata, incarnation LIMIT $2"""
_BEFORE_ALL = (-(2**63), -1)
_PLAN = ("bigint[]", "integer[]", *["bigint[]"] * 3, "text[]", "bigint[]", "integer[]", "text[]", "boolean[]")
_OF_PLAN = "incarnation, version, fired_from, fired_through, next_due, state, anchor, runs_remaining, tzdata, replaces"
_plan_row = row_writer(Plan, *names_of(_OF_PLAN))
_RUN = tuple(f"{type_}[]" for type_ in types_of(PLANNED))
_run_row = run_values(names_of(PLANNED))
_APPLY = f"SELECT tokimori_apply({parameters((*_PLAN, *_RUN, 'jsonb', 'text', 'bigint', 'boolean'))})::text[]"


async def due(db: PostgresConnections, now: Moment, limit: int, share: Share = ALL) -> list[Due]:
    async def page(after: Job | None) -> list[Due]:
        place = _BEFORE_ALL if after is None else (after.next_due, after.incarnation)
        return [due_of(row) for row in await db.rows(DUE_NOW, now, limit, *place, share.of, share.part)]

    return await readable(page, limit)


async def apply(db: PostgresConnections, plans: Sequence[_Planned], now: Moment) -> list[bool]:
    """See `Planning.apply`. Plans of one job take effect one after the other."""
    answers: dict[int, bool] = {}
    for batch in rounds(list(enumerate(plans)), lambda numbered: numbered[1][0].incarnation):
        accepted = await _write(db, [planned for _, planned in batch], now)
        answers |= {number: planned[0].incarnation in accepted for number, planned in batch}
        refused = [(number, planned) for number, planned in batch if not answers[number]]
        if refused:
            answers |= await _applied_before(db, refused)
    return [answers[number] for number in range(len(plans))]


async def _write(db: PostgresConnections, plans: Sequence[_Planned], now: Moment) -> set[Incarnation]:
    skips = [(plan.incarnation, skip) for plan, _ in plans for skip in plan.skips]
    in_order = sorted(plans, key=lambda planned: planned[0].incarnation)
    accepted = await db.value(
        _APPLY,
        *columns([_plan_row(plan) for plan, _ in in_order], _PLAN),
        *columns([_run_row(run) for plan, ids in in_order for run in planned_runs(plan, ids, now)], _RUN),
        skips_json(skips) if skips else None,
        REPLACED,
        now,
        any(plan.most_active is not None for plan, _ in plans),
    )
    return {Incarnation(int(each)) for each in accepted}


async def _applied_before(db: PostgresConnections, refused: Sequence[tuple[int, _Planned]]) -> dict[int, bool]:
    """Return for each refused plan if it had taken effect before, by its number."""
    incarnations = [plan.incarnation for _, (plan, _) in refused]
    rows = await db.rows(
        "SELECT incarnation, version, fired_through, state FROM tokimori_jobs WHERE incarnation = ANY ($1::bigint[])",
        incarnations,
    )
    cursors = {row[0]: Cursor(row[0], row[1], row[2], JobState(row[3])) for row in rows}
    known = await db.rows(
        """SELECT id FROM tokimori_runs WHERE id = ANY ($1::uuid[])
        UNION ALL SELECT id FROM tokimori_history WHERE id = ANY ($1::uuid[])""",
        [run_id for _, (_, ids) in refused for run_id in ids[:1]],
    )
    exist = {run_id for (run_id,) in known}
    return {
        number: was_applied(plan, cursors.get(plan.incarnation), first_run_exists=bool(exist.intersection(ids[:1])))
        for number, (plan, ids) in refused
    }


async def outdated(db: PostgresConnections, tzdata: str, limit: int) -> list[Job]:
    async def page(after: Job | None) -> list[Job]:
        place = ("", -1) if after is None else (after.tzdata, after.incarnation)
        return [job_of(row) for row in await db.rows(OUTDATED, tzdata, limit, *place)]

    return await readable(page, limit)


_PROMOTE = f"""WITH promoted AS (
    UPDATE tokimori_runs r SET state = 'ready', lane = coalesce(lane, (
        SELECT j.lane FROM tokimori_jobs j WHERE j.incarnation = r.incarnation FOR KEY SHARE))
    WHERE id = ANY (ARRAY(SELECT id FROM tokimori_runs WHERE state = 'waiting' AND due <= $1
        ORDER BY due LIMIT $2 OFFSET $3 FOR UPDATE SKIP LOCKED)) RETURNING incarnation, lane
), orphans AS (
    INSERT INTO tokimori_moves (incarnation, origin, woken, names, reason, since)
    SELECT DISTINCT incarnation, '', 0, '{{}}'::text[], '{JOB_DELETED}', $1::bigint FROM promoted p
    WHERE lane IS NULL AND (SELECT id FROM tokimori_jobs WHERE incarnation = p.incarnation) IS NULL
    ON CONFLICT (incarnation) DO UPDATE SET origin = ''
) SELECT count(*), EXISTS (SELECT FROM tokimori_semaphores WHERE wakes <= $1) FROM promoted"""


async def promote(db: PostgresConnections, now: Moment, limit: int, skip: int = 0) -> int:
    ((promoted, some_go_on),) = await db.rows(_PROMOTE, now, limit, skip)
    return int(promoted + (await db.value("SELECT tokimori_go_on($1)", now) if some_go_on else 0))
