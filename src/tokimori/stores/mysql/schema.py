"""Schema of the store: applied and pending migrations."""

import re
from collections.abc import Iterator, Sequence
from functools import partial

from asyncmy.errors import MySQLError

from tokimori.clock import Moment
from tokimori.errors import StoreUnavailable
from tokimori.ports.store import SchemaStatus
from tokimori.stores import migrations
from tokimori.stores.migrations import LEDGER, Applied, Migration, pending, status_of
from tokimori.stores.mysql.faults import ALREADY, code_of
from tokimori.stores.mysql.sessions import TransactionSession
from tokimori.stores.mysql.statements import sql

_IS_THERE = """
SELECT COUNT(*) FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name = %s"""
LONGEST = 600.0
"""Seconds that migrations may take, or wait for another node's."""
# Of this database and namespace: names of locks belong to the whole server.
_ONLY_ONE = "CONCAT('tokimori:', MD5(CONCAT(DATABASE(), %s)))"
_PATIENT = """
SET SESSION lock_wait_timeout = 600
/*M!100600 , max_statement_time = 0 */ /*!80000 , wait_timeout = 600, max_execution_time = 0 */"""
_HURRIED = """
SET SESSION lock_wait_timeout = 3
/*M!100600 , max_statement_time = 3 */ /*!80000 , wait_timeout = 3, max_execution_time = 3000 */"""


known_migrations = partial(migrations.known_migrations, "tokimori.stores.mysql.migrations")
"""The migrations of this version, oldest first."""


def statements(text: str) -> Iterator[str]:
    """Yield the statements of a migration, each ended by a semicolon at the end of a line."""
    for statement in re.split(r";\s*$", re.sub(r"--.*$", "", text, flags=re.MULTILINE), flags=re.MULTILINE):
        if statement.strip():
            yield statement.strip()


async def status(session: TransactionSession, known: Sequence[Migration]) -> SchemaStatus:
    """See `Schema.schema`."""
    (there,) = await session.ask(sql(_IS_THERE, f"{session.namespace.prefix}schema_migrations"))
    if there.rows == [(0,)]:
        return status_of([], known)
    (found,) = await session.ask("SELECT version, checksum, oldest FROM tokimori_schema_migrations")
    return status_of([Applied(*row) for row in found.rows], known)


async def migrate(session: TransactionSession, known: Sequence[Migration], now: Moment) -> SchemaStatus:
    """See `Schema.migrate`. A second caller waits, and then finds nothing to do."""
    lock = sql(_ONLY_ONE, session.namespace.name)
    _, got = await session.ask(_PATIENT, f"SELECT GET_LOCK({lock}, {LONGEST - 1:g})")
    if got.rows != [(1,)]:
        raise StoreUnavailable("another node has been making the store's tables for over ten minutes")
    try:
        before = await status(session, known)
        missing = pending(before, known)
        if missing:
            await session.ask(LEDGER.replace(";", " ENGINE = InnoDB"))
        # A new store is noted at once, so that the first half of it does not look like an old one.
        for step in [missing] if before.version is None else [[migration] for migration in missing]:
            await _apply(session, step, now)
        return await status(session, known)
    finally:
        if not session.is_lost:
            await session.ask(f"SELECT RELEASE_LOCK({lock})", _HURRIED)


async def _apply(session: TransactionSession, step: Sequence[Migration], now: Moment) -> None:
    """Apply migrations. Each statement commits by itself. One that an interrupted migration has done is passed over."""
    for statement in (each for migration in step for each in statements(migration.text)):
        try:
            await session.ask(statement)
        except MySQLError as fault:
            if code_of(fault) not in ALREADY:
                raise
    rows = [(each.version, each.name, each.checksum, now, each.oldest) for each in step]
    if rows:
        await session.ask(sql("INSERT INTO tokimori_schema_migrations VALUES %s", rows))
