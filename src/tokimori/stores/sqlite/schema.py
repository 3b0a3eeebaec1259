"""Numbered migrations: which there are, which were applied, and applying the rest."""

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files

from tokimori.clock import Moment
from tokimori.errors import SchemaMismatch
from tokimori.ports.store import SchemaStatus

_LEDGER = """
CREATE TABLE IF NOT EXISTS tokimori_schema_migrations (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    applied INTEGER NOT NULL
)
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file of statements."""

    name: str
    text: str

    @property
    def version(self) -> int:
        """The number that its name begins with."""
        return int(self.name.partition("_")[0])

    @property
    def checksum(self) -> str:
        """SHA-256 of the text, in hex."""
        return sha256(self.text.encode()).hexdigest()

    def statements(self) -> Iterator[str]:
        """The statements one by one: SQLite's `executescript` would end our transaction."""
        statement = ""
        for line in self.text.splitlines(keepends=True):
            statement += line
            if sqlite3.complete_statement(statement):
                yield statement
                statement = ""


def known_migrations() -> list[Migration]:
    """The migrations of this version, oldest first."""
    folder = files("tokimori.stores.sqlite.migrations")
    found = [entry for entry in folder.iterdir() if entry.name.endswith(".sql")]
    return [Migration(entry.name.removesuffix(".sql"), entry.read_text()) for entry in sorted(found, key=_name)]


def _name(entry: object) -> str:
    return str(getattr(entry, "name", ""))


def status(db: sqlite3.Connection, known: Sequence[Migration]) -> SchemaStatus:
    """See `Schema.schema`."""
    applied = _applied(db)
    for migration in known:
        if applied.get(migration.version, migration.checksum) != migration.checksum:
            raise SchemaMismatch(
                f"the migration {migration.name} was changed after it had been applied to this store: use the version "
                "of Tokimori that made the store, or a released one"
            )
    return SchemaStatus(
        version=max(applied, default=None),
        newest=known[-1].version,
        pending=tuple(migration.name for migration in known if migration.version not in applied),
    )


def _applied(db: sqlite3.Connection) -> dict[int, str]:
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'tokimori_schema_migrations'").fetchone():
        return {}
    return dict(db.execute("SELECT version, checksum FROM tokimori_schema_migrations"))


def migrate(db: sqlite3.Connection, known: Sequence[Migration], now: Moment) -> SchemaStatus:
    """See `Schema.migrate`. The caller's transaction keeps other processes out."""
    before = status(db, known)
    if before.version is not None and before.version > before.newest:
        raise SchemaMismatch(
            f"the store's schema is number {before.version}, this version of Tokimori knows {before.newest}: "
            "upgrade Tokimori"
        )
    if before.pending:
        db.execute(_LEDGER)
    for migration in known:
        if migration.name in before.pending:
            for statement in migration.statements():
                db.execute(statement)
            row = (migration.version, migration.name, migration.checksum, now)
            db.execute("INSERT INTO tokimori_schema_migrations VALUES (?, ?, ?, ?)", row)
    return status(db, known)
