"""Connections to the database file, with the settings that the promises need, and its schema."""

import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any
from urllib.parse import quote

from tokimori.clock import Moment
from tokimori.errors import SchemaMismatch, StoreError, StoreRefused, StoreTooSlow, StoreUnavailable
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
from tokimori.stores.rules.errors import TOO_SLOW
from tokimori.stores.urls import Namespace

_CORRUPT = "is damaged: stop all nodes, check it with `PRAGMA integrity_check`, restore a backup"
_UNAVAILABLE = {
    "BUSY": "is locked by another program",
    "LOCKED": "is locked by another program",
    "FULL": "can't grow: free some space on its disk, or raise its size limit",
    "IOERR": "can't be read or written: check its disk",
    "NOMEM": "needs more memory than there is",
    "SCHEMA": "was being changed",
    "PROTOCOL": "is locked by another program",
}
_UNUSABLE = {
    "CANTOPEN": "can't be opened: its directory must exist and be writable",
    "READONLY": "can't be written: check the rights of the file and of its directory",
    "PERM": "can't be opened: check its rights",
    "AUTH": "can't be opened: check its rights",
    "NOTADB": "is not an SQLite database: name another file",
    "CORRUPT": _CORRUPT,
}


def store_error(fault: sqlite3.Error, path: str) -> StoreError:
    """Return our error for a driver's exception, for users of the store."""
    name = getattr(fault, "sqlite_errorname", None) or ""
    kind = name.removeprefix("SQLITE_").partition("_")[0]
    if kind in _UNAVAILABLE:
        return StoreUnavailable(f"store {path} {_UNAVAILABLE[kind]} ({fault})")
    if kind == "INTERRUPT":
        return StoreTooSlow(f"store {path} {TOO_SLOW} ({fault})")
    if kind in _UNUSABLE:
        return StoreError(f"store {path} {_UNUSABLE[kind]} ({fault})")
    if "no such table: tokimori_" in str(fault) or "no such column" in str(fault):
        return SchemaMismatch(f"store {path} lacks tables of this version: run `tokimori db migrate` ({fault})")
    return StoreRefused(f"store {path} can't do what it was asked ({name or type(fault).__name__}: {fault})")


_SETTINGS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA busy_timeout = 2000",  # only for other programs: ours wait for the file lock
    "PRAGMA wal_autocheckpoint = 2000",  # pages; it comes with a commit, so under the file lock too
    "PRAGMA journal_size_limit = 67108864",
    "PRAGMA cache_size = -16384",
    "PRAGMA secure_delete = OFF",  # Debian's default costs a write of every deleted row
)
_FIXED = (3, 51, 3)


def connect(path: str, namespace: Namespace) -> sqlite3.Connection:
    """Return a connection for the thread that uses it; the caller begins and ends transactions."""
    kind = _in_namespace(namespace) if namespace.name else sqlite3.Connection
    db = sqlite3.connect(path, isolation_level=None, cached_statements=256, factory=kind)
    try:
        for setting in _SETTINGS:
            db.execute(setting)
    except sqlite3.Error:
        db.close()
        raise
    return db


File = tuple[int, int] | None
"""Identity of a file, independent of its name; None: there is none."""


def real_path(path: str) -> str:
    """Return the file's path without links: SQLite's files and ours are beside it."""
    return os.path.realpath(path)


def file_at(path: str) -> File:
    """Return the file that is there now."""
    try:
        found = os.stat(path)  # noqa: PTH116  a Path costs more than the look
    except OSError:
        return None
    return found.st_dev, found.st_ino


def stamp_of(path: str) -> object:
    """Return a stamp that changes with each write to the file."""
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def check_free(path: str) -> None:
    """Raise `StoreError` if the file is no SQLite database, or holds only tables of other programs.

    It opens the file as SQLite does, because to close it otherwise would drop the locks of this process. It only reads,
    so that a foreign file stays as it is.
    """
    if os.path.isdir(path):  # noqa: PTH112  a Path raises for one in a folder of others
        raise StoreError(f"store {path} is a folder: name a file in it")
    if file_at(path) is None or file_at(f"{real_path(path)}-lock") is not None:  # made by us, now or before
        return
    try:
        with closing(sqlite3.connect(f"file://{quote(path)}?mode=ro", uri=True, timeout=1)) as db:
            tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    except sqlite3.Error as fault:
        raise store_error(fault, path) from None
    if tables and not any(name.startswith("tokimori_") for name in tables):
        raise StoreError(f"store {path} is a database of another program, with a table {tables[0]}: name another file")


def _in_namespace(namespace: Namespace) -> type[sqlite3.Connection]:
    """Return a class of connections that put the installation's name into each statement."""

    class InNamespace(sqlite3.Connection):
        def execute(self, statement: str, parameters: Any = (), /) -> sqlite3.Cursor:
            return super().execute(namespace.rendered(statement), parameters)

        def executemany(self, statement: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
            return super().executemany(namespace.rendered(statement), parameters)

    return InNamespace


def faults(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> tuple[str, ...]:
    """Return the promises that this version of SQLite can't keep."""
    if version >= _FIXED:
        return ()
    return (
        f"SQLite {'.'.join(map(str, version))} has the WAL-reset bug (fixed in 3.51.3): Tokimori's processes keep "
        "clear of it, but no other program may write to the store while nodes run",
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
