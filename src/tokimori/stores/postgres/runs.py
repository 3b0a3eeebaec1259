"""Requests, lists, orders and pruning of runs: statements on live and finished runs, attempts and outputs."""

from collections.abc import Sequence
from itertools import count

import msgspec
from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.model.ids import Incarnation, JobId, Lane, RunId
from tokimori.model.job import most_active
from tokimori.model.request import REMEMBERED, InPlaceOf, Manner, changed_meanwhile, shared_prefix, spans_of_key
from tokimori.model.retention import Expiry, rest_of
from tokimori.model.run import Run
from tokimori.model.transitions import RunState
from tokimori.ports.copying import Copied, Kind
from tokimori.ports.store import Most, RunFilter, Tally
from tokimori.stores.copying import SOURCES, TARGETS, row_of
from tokimori.stores.postgres.batches import columns, parameters
from tokimori.stores.postgres.connections import PostgresConnections
from tokimori.stores.postgres.jobs import get_job, move_runs
from tokimori.stores.postgres.schema import LOCK_KEY, types_of, without
from tokimori.stores.reading import GET_RUN, RUNNING, TALLY, listed, tallies_of
from tokimori.stores.rows import BIRTH, names_of, run_columns, run_of, run_values
from tokimori.stores.rules.errors import existing, full, no_job, no_run, stopped
from tokimori.stores.rules.lines import CLAIMABLE

_LIVE, _HISTORY = "tokimori_runs", "tokimori_history"
# Of what is ready no index is in the order of ids: few are sorted, and of many a walk in that order soon finds enough.
_READY = "lower(state) = 'ready'", "state = 'ready'"
# If their index is not in the order of ids, no walk in that order looks like the shorter way.
_RUNNING = "(SELECT * FROM tokimori_runs WHERE state = 'running' OFFSET 0) running"


def _list(wanted: RunFilter, job: str, before: str, limit: str) -> str:
    """Return the statement of a list. The server chooses the indexes."""
    columns = run_columns(wanted.longest)
    parts = (
        f"(SELECT {columns} FROM {_RUNNING if index == RUNNING else table} WHERE {condition.replace(*_READY)} {limit})"
        for table, index, condition in listed(wanted, job, before)
    )
    return f"SELECT * FROM ({' UNION ALL '.join(parts)}) listed {limit}"


_OF_ORIGINS = " UNION ALL ".join(
    f"SELECT {{0}} FROM {table} WHERE incarnation = $1 AND origin = ANY ($2) AND {indexed}"
    for table, indexed in ((_LIVE, "true"), (_HISTORY, "origin NOT LIKE 's:%'"))
)
_ADDED, _ASKED = names_of(without(BIRTH, "lane")), names_of(BIRTH)
_added, _asked = run_values(_ADDED), run_values(_ASKED)
_ADDED_TYPES = [f"{type_}[]" for type_ in types_of(without(BIRTH, "lane"))]
_ADD = f"SELECT added::text, added_lane FROM tokimori_add_runs({parameters(_ADDED_TYPES)})"
_ASK = f"SELECT answer, run::text FROM tokimori_ask_run({', '.join(f'${n}' for n in range(1, len(_ASKED) + 12))})"


async def add_run(db: PostgresConnections, run: Run, manner: Manner, now: Moment) -> Run:
    born, expected = replace(run, lane=run.lane if manner.forced else None), manner.in_place_of or InPlaceOf()
    ((answer, answered_by),) = await db.rows(
        _ASK,
        *_asked(born),
        shared_prefix(run),
        [end for _, end in spans_of_key(run)],
        manner.since,
        sorted(manner.held_in) or None,
        manner.waits_for_end,
        manner.replaces,
        manner.in_place_of is not None,
        expected.run_id,
        expected.payload,
        now - REMEMBERED,
        now,
    )
    if answered_by is not None:
        return await get_run(db, RunId(answered_by))
    match answer:
        case "unknown":
            return existing(await _answered_by(db, run), no_job(run.job_id))
        case "moving":
            await move_runs(db, run.incarnation, count())
            return await add_run(db, run, manner, now)
        case "changed":
            raise changed_meanwhile()
        case "full":
            raise full(run.job_id, most_active((await get_job(db, run.job_id)).definition))
        case state:
            raise stopped(run.job_id, state)


async def _answered_by(db: PostgresConnections, run: Run) -> Run | None:
    """Return the run that this request has got before, or None. It is found by the request's id, or by the origin."""
    taken_over = await db.row("SELECT run_id::text FROM tokimori_requests WHERE id = $1", run.id)
    if taken_over is not None:
        return await get_run(db, RunId(taken_over[0]))
    return next(iter(await runs_of(db, run.incarnation, [run.origin])), None)


async def add_runs(db: PostgresConnections, runs: Sequence[Run], now: Moment) -> list[Run]:
    """See `Runs.add_runs`. If a known one makes them too many, the call is repeated without it."""
    added: dict[RunId, Lane] = dict(await db.rows(_ADD, *columns([_added(run) for run in runs], _ADDED_TYPES)))
    found = {run.origin: replace(run, lane=added[run.id]) for run in runs if run.id in added}
    if missing := [run for run in runs if run.origin not in found]:
        known = await runs_of(db, runs[0].incarnation, [run.origin for run in missing])
        found |= {run.origin: run for run in known}
        missing = [run for run in missing if run.origin not in found]
        if missing and not known:
            await _check(db, missing[0])  # it was resumed meanwhile
        found |= {run.origin: run for run in await add_runs(db, missing, now)} if missing else {}
    return [found[run.origin] for run in runs]


async def _check(db: PostgresConnections, run: Run) -> None:
    """Raise the error that says why the job can't have this run. Return if nothing forbids it any more."""
    job = await get_job(db, run.job_id)
    if job.incarnation != run.incarnation:
        raise no_job(run.job_id)
    if job.state not in CLAIMABLE:
        raise stopped(run.job_id, job.state)
    if most_active(job.definition) is not None:
        raise full(run.job_id, most_active(job.definition))


async def runs_of(
    db: PostgresConnections, incarnation: Incarnation, origins: Sequence[str], longest: Most = None
) -> list[Run]:
    return [run_of(row) for row in await db.rows(_OF_ORIGINS.format(run_columns(longest)), incarnation, origins)]


async def get_run(db: PostgresConnections, run_id: RunId) -> Run:
    return run_of(existing(await db.row(GET_RUN % ("$1", "$1"), run_id), no_run(run_id)))


async def list_runs(db: PostgresConnections, wanted: RunFilter) -> list[Run]:
    values = [value for value in (wanted.job_id, wanted.before) if value is not None]
    statement = _list(wanted, "$2", f"${len(values) + 1}", "ORDER BY id DESC LIMIT $1")
    return [run_of(row) for row in await db.rows(statement, wanted.limit, *values)]


async def last_runs(db: PostgresConnections, job_ids: Sequence[JobId], limit: int, longest: Most = None) -> list[Run]:
    wanted, newest = RunFilter(job_id=JobId("job"), longest=longest), "ORDER BY id DESC LIMIT $2"
    statement = f"""SELECT run.* FROM unnest($1::text[]) AS wanted (job)
        CROSS JOIN LATERAL ({_list(wanted, "wanted.job", "", newest)}) AS run ORDER BY run.id DESC"""
    return [run_of(row) for row in await db.rows(statement, list(job_ids), limit)]


async def tallies(db: PostgresConnections, job_ids: Sequence[JobId], since: RunId) -> list[Tally]:
    tally = TALLY.format(job="wanted.job", since="$2", oldest="min(id::text)::uuid")  # an older server has no min(uuid)
    statement = f"SELECT tally.* FROM unnest($1::text[]) AS wanted (job) CROSS JOIN LATERAL ({tally}) AS tally"
    return tallies_of([tuple(row) for row in await db.rows(statement, list(job_ids), since)])


async def cancel_run(
    db: PostgresConnections, run_id: RunId, reason: str, now: Moment, unbegun: int | None = None
) -> None:
    await db.rows("SELECT tokimori_cancel_run($1, $2, $3, $4)", run_id, reason, now, unbegun)


async def leave_line(db: PostgresConnections, run_id: RunId, was: Moment | None, state: RunState, *new: object) -> None:
    """See `TableReader._leave_line`."""
    await db.rows("SELECT tokimori_leave_line($1, $2, $3, $4, $5, $6)", run_id, was, state, *new[:3])


# Outcomes are in the order of the database's own language, unless asked otherwise.
SOURCES_HERE = SOURCES | {
    Kind.ARRIVALS: SOURCES[Kind.ARRIVALS]._replace(columns="incarnation, root, array_to_string(parents, ','), latest"),
    Kind.COUNTS: SOURCES[Kind.COUNTS]._replace(key=("job_id", "incarnation", "day", 'outcome COLLATE "C"')),
}


async def import_rows(db: PostgresConnections, kind: Kind, rows: Sequence[Copied]) -> None:
    """See `Copying.import_rows`. Rows go as JSON: the table itself has the type of each value."""
    table, columns = TARGETS[kind]
    names = columns.replace('"', "").split(", ")
    values = ([f"\\x{each.hex()}" if isinstance(each, bytes) else each for each in row_of(row)] for row in rows)
    plain = [dict(zip(names, each, strict=True)) for each in values]
    if kind is Kind.ARRIVALS:
        plain = [row | {"parents": str(row["parents"]).split(",")} for row in plain]
    await db.rows(
        f"""INSERT INTO {table} ({columns}) SELECT {columns} FROM json_populate_recordset(NULL::{table}, $1)
        ON CONFLICT DO NOTHING""",
        msgspec.json.encode(plain).decode(),
    )


_PRUNE_NODES = """
DELETE FROM tokimori_nodes WHERE id = ANY (ARRAY(
    SELECT id FROM tokimori_nodes n WHERE state <> 'alive' AND "left" < $1 AND NOT EXISTS (
        SELECT FROM tokimori_runs WHERE state = 'running' AND node_id = n.id)
    ORDER BY "left" LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING 1"""
_DROP_FUNCTIONS = f"""
SELECT CASE WHEN pg_try_advisory_xact_lock({LOCK_KEY}) THEN tokimori_drop_function_sets($1, 0, $2, 1) END"""


async def prune(db: PostgresConnections, expiries: Sequence[Expiry], limit: int) -> Sequence[Expiry]:
    statement = "SELECT at, keep_runs, kept::text, after::text FROM tokimori_prune($1, $2)"
    (reached,) = await db.rows(statement, msgspec.json.encode(expiries).decode(), limit)
    return rest_of(expiries, *reached)


async def prune_nodes(db: PostgresConnections, before: Moment, limit: int) -> int:
    """See `Pruning.prune_nodes`. A set of functions goes with the last node that called it."""
    pruned = len(await db.rows(_PRUNE_NODES, before, limit))
    await db.rows(_DROP_FUNCTIONS, db.functions.digest, before)
    return pruned
