"""The tables: which migrations were applied, and applying the rest."""

import re
from collections.abc import Sequence
from typing import Any

from tokimori.clock import Moment
from tokimori.ports.store import SchemaStatus
from tokimori.stores import migrations
from tokimori.stores.differences import Parts, differences
from tokimori.stores.migrations import Applied, Migration, note_of, pending, script_of, status_of

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
# The first of the names gets the namespace, where there is one; the second is cut in two to be left as it is. Without a
# namespace the lock is that of every version before.
_LOCK = f"SELECT pg_advisory_xact_lock({_ONLY_ONE} + hashtext('tokimori_') - hashtext('tokimori' || '_'))"
# Constraints are told by their columns and indexes; how a table is stored is its administrator's to say.
_PARTS = """
WITH tables AS (
    SELECT c.oid, c.relname FROM pg_class c
    WHERE c.relnamespace = $1 AND c.relkind = 'r' AND c.relname LIKE 'tokimori\\_%')
SELECT 'table', relname::text, 'there' FROM tables
UNION ALL
SELECT 'column', format('%s.%s', t.relname, a.attname), concat_ws(' ',
    format_type(a.atttypid, a.atttypmod),
    CASE WHEN a.attcollation <> y.typcollation THEN format('COLLATE %I', l.collname) END,
    CASE WHEN a.attnotnull THEN 'NOT NULL' END, 'DEFAULT ' || pg_get_expr(d.adbin, d.adrelid))
FROM tables t JOIN pg_attribute a ON a.attrelid = t.oid JOIN pg_type y ON y.oid = a.atttypid
LEFT JOIN pg_collation l ON l.oid = a.attcollation
LEFT JOIN pg_attrdef d ON d.adrelid = t.oid AND d.adnum = a.attnum
WHERE a.attnum > 0 AND NOT a.attisdropped
UNION ALL
SELECT 'index', format('%s.%s', t.relname, i.relname), concat_ws(' ',
    CASE WHEN x.indisunique THEN 'UNIQUE' END, substring(pg_get_indexdef(i.oid) FROM ' (USING .*)$'))
FROM tables t JOIN pg_index x ON x.indrelid = t.oid JOIN pg_class i ON i.oid = x.indexrelid
WHERE x.indisvalid
UNION ALL
SELECT 'function',
    replace(format('%s(%s)', p.proname, pg_get_function_identity_arguments(p.oid)), n.nspname || '.', ''),
    'the text with checksum ' || md5(p.prosrc)
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE p.pronamespace = $1 AND p.proname LIKE 'tokimori\\_%'
"""
_LIVE = "SELECT coalesce(relnamespace, current_schema()::regnamespace) FROM (VALUES (1)) one LEFT JOIN pg_class ON "
_LIVE += "pg_class.oid = to_regclass('tokimori_schema_migrations')"
_DROPPED = re.compile(r"^DROP FUNCTION [^;(]+;", re.MULTILINE)
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
        await session.execute(_LOCK)
        missing = pending(await status(session, known), known)
        if missing:
            await session.execute(_LEDGER)
        for migration in missing:
            await session.execute(migration.text)
            await session.execute(note_of(migration, now))
        return await status(session, known)


async def script(session: Any, known: Sequence[Migration], now: Moment, *, whole: bool) -> str:
    """See `Schema.script`."""
    missing = known if whole else pending(await status(session, known), known)
    return script_of(missing, now, begin="BEGIN;", ledger=[f"{_LOCK};", _LEDGER])


async def check(session: Any, known: Sequence[Migration]) -> list[str]:
    """See `Schema.differences`: against tables that the same migrations make for this session alone, and that go."""
    found = await _parts(session, await session.fetchval(_LIVE))
    transaction = session.transaction()
    await transaction.start()
    try:
        # Functions of a temporary schema are not found by their names: what they say is not checked here.
        await session.execute("SET LOCAL search_path = pg_temp; SET LOCAL check_function_bodies = off")
        for text in (_LEDGER, *(migration.text for migration in known)):
            await session.execute(_DROPPED.sub(_of_this_session, text))
        expected = await _parts(session, await session.fetchval("SELECT pg_my_temp_schema()"))
    finally:
        await transaction.rollback()
    return differences(expected, found)


def _of_this_session(dropped: re.Match[str]) -> str:
    """A `DROP FUNCTION` of a temporary schema: there it must name the schema too."""
    return dropped[0].replace(" tokimori_", " pg_temp.tokimori_")


async def _parts(session: Any, schema: int) -> Parts:
    return {(kind, name): text for kind, name, text in await session.fetch(_PARTS, schema)}
