"""The tables: which migrations were applied, and applying the rest."""

import sqlite3
from collections.abc import Iterator, Sequence

from tokimori.clock import Moment
from tokimori.ports.store import SchemaStatus
from tokimori.stores import migrations
from tokimori.stores.migrations import Applied, Migration, pending, status_of

_LEDGER = """
CREATE TABLE IF NOT EXISTS tokimori_schema_migrations (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    applied INTEGER NOT NULL,
    oldest INTEGER
)
"""
_NOTE = "INSERT INTO tokimori_schema_migrations (version, name, checksum, applied, oldest) VALUES (?, ?, ?, ?, ?)"


def known_migrations() -> list[Migration]:
    """The migrations of this version, oldest first."""
    return migrations.known_migrations("tokimori.stores.sqlite.migrations")


def statements(text: str) -> Iterator[str]:
    """The statements one by one: SQLite's `executescript` would end our transaction."""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def status(db: sqlite3.Connection, known: Sequence[Migration]) -> SchemaStatus:
    """See `Schema.schema`."""
    return status_of(_applied(db), known)


def _applied(db: sqlite3.Connection) -> list[Applied]:
    columns = _ledger_columns(db)
    if not columns:
        return []
    oldest = "oldest" if "oldest" in columns else "NULL"
    return [Applied(*row) for row in db.execute(f"SELECT version, checksum, {oldest} FROM tokimori_schema_migrations")]


def _ledger_columns(db: sqlite3.Connection) -> set[str]:
    return {name for (name,) in db.execute("SELECT name FROM pragma_table_info('tokimori_schema_migrations')")}


def migrate(db: sqlite3.Connection, known: Sequence[Migration], now: Moment) -> SchemaStatus:
    """See `Schema.migrate`. The caller's transaction keeps other processes out."""
    missing = pending(status(db, known), known)
    if missing:
        db.execute(_LEDGER)
        if "oldest" not in _ledger_columns(db):
            db.execute("ALTER TABLE tokimori_schema_migrations ADD COLUMN oldest INTEGER")
    for migration in missing:
        for statement in statements(migration.text):
            db.execute(statement)
        db.execute(_NOTE, (migration.version, migration.name, migration.checksum, now, migration.oldest))
    return status(db, known)
