"""Numbered migrations: which there are, and what a store's ledger of them says. The same for all with tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files

from tokimori.errors import SchemaMismatch
from tokimori.ports.store import SchemaStatus


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


def known_migrations(package: str) -> list[Migration]:
    """The migrations in that package, oldest first."""
    texts = {entry.name: entry.read_text() for entry in files(package).iterdir() if entry.name.endswith(".sql")}
    return [Migration(name.removesuffix(".sql"), texts[name]) for name in sorted(texts)]


def status_of(applied: Mapping[int, str], known: Sequence[Migration]) -> SchemaStatus:
    """What the ledger (version, checksum) means. Raises `SchemaMismatch` where an applied migration was changed."""
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


def pending(status: SchemaStatus, known: Sequence[Migration]) -> list[Migration]:
    """What is to be applied. Raises `SchemaMismatch` for a schema newer than this version knows."""
    if status.version is not None and status.version > status.newest:
        raise SchemaMismatch(
            f"the store's schema is number {status.version}, this version of Tokimori knows {status.newest}: "
            "upgrade Tokimori"
        )
    return [migration for migration in known if migration.name in status.pending]
