"""From old rows to counts: the database's own functions do it."""

from collections.abc import Sequence

import msgspec

from tokimori.clock import Moment
from tokimori.model.retention import Expiry, rest_of
from tokimori.stores.postgres.connections import PostgresConnections
from tokimori.stores.postgres.schema import LOCK_KEY

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
