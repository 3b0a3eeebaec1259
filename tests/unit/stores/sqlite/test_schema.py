"""Migrations: applied once and in order, by whoever comes first, and never by a version that does not know them."""

import sqlite3
from collections.abc import Iterator

import pytest

from tokimori.clock import Moment
from tokimori.errors import SchemaMismatch
from tokimori.ports.store import SchemaStatus
from tokimori.stores.migrations import Migration
from tokimori.stores.sqlite.schema import known_migrations, migrate, statements, status

NOW = Moment(0)
FIRST = Migration("0001_a", "-- a; b\nCREATE TABLE a (x TEXT DEFAULT ';');\nINSERT INTO a VALUES ('1');\n")
SECOND = Migration("0002_b", "ALTER TABLE a ADD COLUMN y;\n")


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    """An empty database."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    yield db
    db.close()


def test_an_empty_database_lacks_everything(db: sqlite3.Connection) -> None:
    """Before the first migration the schema has no version."""
    assert status(db, [FIRST, SECOND]) == SchemaStatus(version=None, newest=2, pending=("0001_a", "0002_b"))


def test_what_is_pending_is_applied_once(db: sqlite3.Connection) -> None:
    """Each migration is applied once, whole, in order."""
    assert migrate(db, [FIRST], NOW) == SchemaStatus(version=1, newest=1, pending=())
    assert migrate(db, [FIRST, SECOND], NOW) == SchemaStatus(version=2, newest=2, pending=())
    assert migrate(db, [FIRST, SECOND], NOW) == SchemaStatus(version=2, newest=2, pending=())
    assert db.execute("SELECT * FROM a").fetchall() == [("1", None)]


def test_a_newer_schema_is_refused(db: sqlite3.Connection) -> None:
    """A version that does not know the newest migration changes nothing, and says to upgrade."""
    migrate(db, [FIRST, SECOND], NOW)
    assert status(db, [FIRST]) == SchemaStatus(version=2, newest=1, pending=())
    with pytest.raises(SchemaMismatch, match=r"number 2, this version of Tokimori knows 1: upgrade"):
        migrate(db, [FIRST], NOW)


def test_a_changed_migration_is_refused(db: sqlite3.Connection) -> None:
    """A migration that is not the one that was applied is named."""
    migrate(db, [FIRST], NOW)
    changed = Migration("0001_a", FIRST.text + "-- more\n")
    for asked in (status, lambda db, known: migrate(db, known, NOW)):
        with pytest.raises(SchemaMismatch, match="0001_a was changed"):
            asked(db, [changed, SECOND])


def test_the_migrations_of_this_version_are_numbered_without_gaps() -> None:
    """The files are 0001, 0002, … and make every table with the prefix."""
    known = known_migrations()
    assert [migration.version for migration in known] == list(range(1, len(known) + 1))
    for migration in known:
        made = [text for text in statements(migration.text) if "CREATE TABLE" in text]
        assert all("CREATE TABLE tokimori_" in text for text in made)
