"""Pruning, and exports and imports of rows for copies: statements."""

from collections.abc import Sequence

import msgspec

from tokimori.clock import Moment
from tokimori.model.retention import Expiry, rest_of
from tokimori.ports.copying import Copied, Kind
from tokimori.stores.copying import SOURCES, TARGETS, row_of
from tokimori.stores.postgres.connections import PostgresConnections
from tokimori.stores.postgres.schema import LOCK_KEY

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
