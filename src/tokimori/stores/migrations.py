"""Numbered migrations, their ledger in a store, and a comparison of its tables with theirs.

A migration that leaves alone what programs of older schemas use says so in a line of its own, for example

    -- Nodes since schema 3 work on this one.

so that nodes can be replaced one by one. Older programs read that in the ledger. Without the line they are shut out.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from msgspec import Struct

from tokimori.clock import Moment
from tokimori.errors import Refused, SchemaMismatch
from tokimori.ports.store import SchemaStatus

Parts = Mapping[tuple[str, str], str]
"""Tables, columns, indexes and functions: what each is, by its kind and name."""


def differences(expected: Parts, found: Parts) -> list[str]:
    """Return what is missing or different, a sentence each. Additions of others are theirs."""
    missing_tables = {name for kind, name in expected.keys() - found.keys() if kind == "table"}
    return [
        f"the {kind} {name} is {f'{found[kind, name]}, not {text}' if (kind, name) in found else 'missing'}"
        for (kind, name), text in sorted(expected.items())
        if found.get((kind, name)) != text and (kind == "table" or name.partition(".")[0] not in missing_tables)
    ]


LEDGER = """
CREATE TABLE IF NOT EXISTS tokimori_schema_migrations (
    version INTEGER PRIMARY KEY,
    name VARCHAR(255) NOT NULL,
    checksum VARCHAR(64) NOT NULL,
    applied BIGINT NOT NULL,
    oldest INTEGER NOT NULL
);"""
_OLDEST = re.compile(r"^-- Nodes since schema (\d+) work on this one\.$", re.MULTILINE)


class Applied(NamedTuple):
    """A row of the ledger."""

    version: int
    checksum: str
    oldest: int


class Migration(Struct, frozen=True):
    """One numbered file of statements."""

    name: str
    text: str

    @property
    def version(self) -> int:
        """Return the number that its name begins with."""
        return int(self.name.partition("_")[0])

    @property
    def checksum(self) -> str:
        """Return the SHA-256 of the text, in hex."""
        return sha256(self.text.encode()).hexdigest()

    @property
    def oldest(self) -> int:
        """Return the oldest schema whose programs work on a store with this migration."""
        match = _OLDEST.search(self.text)
        return self.version if match is None else int(match[1])


def known_migrations(package: str) -> list[Migration]:
    """Return the migrations in that package, oldest first."""
    texts = {entry.name: entry.read_text() for entry in files(package).iterdir() if entry.name.endswith(".sql")}
    return [Migration(name.removesuffix(".sql"), texts[name]) for name in sorted(texts)]


def note_of(migration: Migration, now: Moment) -> str:
    """Return the statement that notes the migration in the ledger. Nothing in it needs quoting."""
    return (
        "INSERT INTO tokimori_schema_migrations (version, name, checksum, applied, oldest) "
        f"VALUES ({migration.version}, '{migration.name}', '{migration.checksum}', {now}, {migration.oldest});"
    )


def script_of(missing: Sequence[Migration], now: Moment, *, begin: str, ledger: Sequence[str]) -> str:
    """Return one transaction that applies these migrations and notes them in the ledger; empty if none is missing.

    Carried out a second time it fails as a whole: the ledger has its rows already.
    """
    if not missing:
        return ""
    applied = [f"-- {each.name}\n{each.text.strip()}\n{note_of(each, now)}" for each in missing]
    return "\n\n".join([begin, *(text.strip() for text in ledger), *applied, "COMMIT;"]) + "\n"


def no_script(store: str) -> Refused:
    """Return the error of a store whose tables can't be read from outside."""
    return Refused(f"there is no SQL for {store}: its tables are made by `tokimori db migrate` alone")


def status_of(applied: Iterable[Applied], known: Sequence[Migration]) -> SchemaStatus:
    """Return the status by the ledger. Raises `SchemaMismatch` if an applied migration was changed."""
    rows = {row.version: row for row in applied}
    for migration in known:
        row = rows.get(migration.version)
        if row is not None and row.checksum != migration.checksum:
            raise SchemaMismatch(
                f"the migration {migration.name} was changed after it had been applied to this store: use the version "
                "of Tokimori that made the store, or a released one"
            )
    return SchemaStatus(
        version=max(rows, default=None),
        newest=known[-1].version,
        pending=tuple(migration.name for migration in known if migration.version not in rows),
        oldest=max((row.oldest for row in rows.values()), default=0),
    )


def pending(status: SchemaStatus, known: Sequence[Migration]) -> list[Migration]:
    """Return the migrations to apply. Raises `SchemaMismatch` for a schema that is too new for this version."""
    check_usable(status)
    return [migration for migration in known if migration.name in status.pending]


def check_usable(status: SchemaStatus) -> None:
    """Raise `SchemaMismatch` for a schema that is too new for this version."""
    if status.too_new:
        raise SchemaMismatch(
            f"the store's schema is number {status.version}, which nodes since number {status.oldest} can use; this "
            f"version of Tokimori knows {status.newest}: upgrade Tokimori"
        )
