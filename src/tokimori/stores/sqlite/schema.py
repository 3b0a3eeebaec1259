"""Schema of the store: applied and pending migrations."""

import re
import sqlite3
from collections.abc import Iterator, Sequence
from functools import partial

from tokimori.clock import Moment
from tokimori.ports.store import SchemaStatus
from tokimori.stores import migrations
from tokimori.stores.migrations import (
    LEDGER,
    Applied,
    Migration,
    Parts,
    differences,
    note_of,
    pending,
    script_of,
    status_of,
)

_IS_THERE = "SELECT 1 FROM sqlite_master WHERE name = 'tokimori_schema_migrations'"
_PARTS = "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name LIKE 'tokimori!_%' ESCAPE '!' AND sql NOT NULL"
known_migrations = partial(migrations.known_migrations, "tokimori.stores.sqlite.migrations")
"""The migrations of this version, oldest first."""


def statements(text: str) -> Iterator[str]:
    """Yield the statements one by one: SQLite's `executescript` would end our transaction."""
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
    if db.execute(_IS_THERE).fetchone() is None:
        return []
    return [Applied(*row) for row in db.execute("SELECT version, checksum, oldest FROM tokimori_schema_migrations")]


def script(db: sqlite3.Connection, known: Sequence[Migration], now: Moment, *, whole: bool) -> str:
    missing = known if whole else pending(status(db, known), known)
    return script_of(missing, now, begin="BEGIN IMMEDIATE;", ledger=[LEDGER])


def check(db: sqlite3.Connection, known: Sequence[Migration]) -> list[str]:
    """See `Schema.differences`: against a database in memory that gets the same migrations."""
    made = sqlite3.connect(":memory:", isolation_level=None, factory=type(db))
    try:
        migrate(made, known, Moment(0))
        return differences(_parts(made), _parts(db))
    finally:
        made.close()


def _parts(db: sqlite3.Connection) -> Parts:
    parts = {}
    for kind, name, table, text in db.execute(_PARTS).fetchall():
        parts[kind, name if kind == "table" else f"{table}.{name}"] = (
            "there" if kind == "table" else " ".join(re.sub(r"--.*", "", text).split())
        )
        if kind == "table":
            for _, column, type_, not_null, default, key in db.execute(f"PRAGMA table_info({name})"):
                words = (type_, "NOT NULL" * not_null, f"DEFAULT {default}" * (default is not None), "key" * (key > 0))
                parts["column", f"{name}.{column}"] = " ".join(word for word in words if word)
    return parts


def migrate(db: sqlite3.Connection, known: Sequence[Migration], now: Moment) -> SchemaStatus:
    """See `Schema.migrate`. The caller's transaction keeps other processes out."""
    missing = pending(status(db, known), known)
    if missing:
        db.execute(LEDGER)
    for migration in missing:
        for statement in statements(migration.text):
            db.execute(statement)
        db.execute(note_of(migration, now))
    return status(db, known)
