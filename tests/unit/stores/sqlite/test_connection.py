"""Migrations: applied once and in order, by whoever comes first, and never by a version that does not know them."""

import sqlite3
from collections.abc import Iterator

import pytest

from tokimori.clock import Moment
from tokimori.errors import SchemaMismatch
from tokimori.ports.store import SchemaStatus
from tokimori.stores.migrations import Migration
from tokimori.stores.sqlite.connection import known_migrations, migrate, statements, status

NOW = Moment(0)
FIRST = Migration("0001_a", "-- a; b\nCREATE TABLE a (x TEXT DEFAULT ';');\nINSERT INTO a VALUES ('1');\n")
ALLOWS_FIRST = "-- Nodes since schema 1 work on this one."
SECOND = Migration("0002_b", "ALTER TABLE a ADD COLUMN y;\n")


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    """An empty database."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    yield db
    db.close()


def test_an_empty_database_lacks_everything(db: sqlite3.Connection) -> None:
    """Before the first migration the schema has no version."""
    assert status(db, [FIRST, SECOND]) == SchemaStatus(version=None, newest=2, pending=("0001_a", "0002_b"), oldest=0)


def test_what_is_pending_is_applied_once(db: sqlite3.Connection) -> None:
    """Each migration is applied once, whole, in order."""
    assert migrate(db, [FIRST], NOW) == SchemaStatus(version=1, newest=1, pending=(), oldest=1)
    assert migrate(db, [FIRST, SECOND], NOW) == SchemaStatus(version=2, newest=2, pending=(), oldest=2)
    assert migrate(db, [FIRST, SECOND], NOW) == SchemaStatus(version=2, newest=2, pending=(), oldest=2)
    assert db.execute("SELECT * FROM a").fetchall() == [("1", None)]


def test_a_newer_schema_is_refused(db: sqlite3.Connection) -> None:
    """A version that does not know the newest migration changes nothing, and says to upgrade."""
    migrate(db, [FIRST, SECOND], NOW)
    assert status(db, [FIRST]) == SchemaStatus(version=2, newest=1, pending=(), oldest=2)
    with pytest.raises(SchemaMismatch, match=r"since number 2 can use; this version of Tokimori knows 1: upgrade"):
        migrate(db, [FIRST], NOW)


def test_a_newer_schema_that_allows_it_is_used(db: sqlite3.Connection) -> None:
    """What a version needs that does not know the newest migrations stands in the ledger."""
    third = Migration("0003_c", f"-- c\n{ALLOWS_FIRST}\n")
    migrate(db, [FIRST, Migration("0002_b", f"{ALLOWS_FIRST}\n{SECOND.text}"), third], NOW)
    assert status(db, [FIRST]) == SchemaStatus(version=3, newest=1, pending=(), oldest=1)
    assert migrate(db, [FIRST], NOW).too_new is False


def test_one_migration_that_allows_nobody_shuts_out(db: sqlite3.Connection) -> None:
    """The strictest migration decides, not the newest."""
    migrate(db, [FIRST, SECOND, Migration("0003_c", f"{ALLOWS_FIRST}\n")], NOW)
    assert status(db, [FIRST]).too_new
    assert not status(db, [FIRST, SECOND]).too_new


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
