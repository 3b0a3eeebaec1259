"""Due jobs, plans, promotions and paused queues: statements."""

from collections.abc import Sequence

from tokimori.clock import Moment
from tokimori.model.decide import REPLACED, Due, Plan
from tokimori.model.ids import Incarnation, RunId
from tokimori.model.job import Job, JobState
from tokimori.model.lanes import Pause
from tokimori.ports.planning import ALL, Share
from tokimori.stores.job_rows import JOB, due_of, job_of
from tokimori.stores.listing import readable
from tokimori.stores.postgres.batches import columns, parameters, rounds
from tokimori.stores.postgres.columns import PLANNED, types_of
from tokimori.stores.postgres.connections import PostgresConnections
from tokimori.stores.postgres.jobs import DUE, skips_json
from tokimori.stores.rows import PAUSE, names_of, pause_of, pause_row, row_writer, run_values
from tokimori.stores.rules.births import planned_runs
from tokimori.stores.rules.plans import Cursor, was_applied
from tokimori.stores.rules.settling import JOB_DELETED


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
    """Return whether each refused plan took effect before."""
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
