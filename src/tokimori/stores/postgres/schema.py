"""The tables: which migrations were applied, and applying the rest."""

from collections.abc import Sequence
from typing import Any

from tokimori.clock import Moment
from tokimori.ports.store import SchemaStatus
from tokimori.stores import migrations
from tokimori.stores.migrations import Applied, Migration, pending, status_of

_ONLY_ONE = 0x746F6B696D6F7269
"""The number of the lock under which tables are made: the letters of our name."""
_LEDGER = """
CREATE TABLE IF NOT EXISTS tokimori_schema_migrations (
    version integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    applied bigint NOT NULL
);
ALTER TABLE tokimori_schema_migrations ADD COLUMN IF NOT EXISTS oldest integer;
"""
# By way of JSON, where a column that is not there is null.
_APPLIED = "SELECT version, checksum, (to_jsonb(m) ->> 'oldest')::integer FROM tokimori_schema_migrations m"
_NOTE = """
INSERT INTO tokimori_schema_migrations (version, name, checksum, applied, oldest) VALUES ($1, $2, $3, $4, $5)
"""
LONGEST = 600.0
"""Seconds that migrations may take, or wait for another node's."""


def known_migrations() -> list[Migration]:
    """The migrations of this version, oldest first."""
    return migrations.known_migrations("tokimori.stores.postgres.migrations")


async def status(session: Any, known: Sequence[Migration]) -> SchemaStatus:
    """See `Schema.schema`."""
    return status_of(await _applied(session), known)


async def _applied(session: Any) -> list[Applied]:
    if await session.fetchval("SELECT to_regclass('tokimori_schema_migrations')::text") is None:
        return []
    return [Applied(*row) for row in await session.fetch(_APPLIED)]


async def migrate(session: Any, known: Sequence[Migration], now: Moment) -> SchemaStatus:
    """See `Schema.migrate`. All or nothing; whoever comes second waits, and finds nothing left to do."""
    async with session.transaction():
        await session.execute(
            "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0; "
            "SET LOCAL idle_in_transaction_session_timeout = 0"
        )
        await session.execute(f"SELECT pg_advisory_xact_lock({_ONLY_ONE})")
        missing = pending(await status(session, known), known)
        if missing:
            await session.execute(_LEDGER)
        for migration in missing:
            await session.execute(migration.text)
            row = (migration.version, migration.name, migration.checksum, now, migration.oldest)
            await session.execute(_NOTE, *row)
        return await status(session, known)
