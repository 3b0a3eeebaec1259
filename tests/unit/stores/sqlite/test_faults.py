"""What SQLite's errors mean to a person."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tokimori.clock import Moment, SystemClock
from tokimori.errors import SchemaMismatch, StoreError, StoreRefused, StoreUnavailable
from tokimori.model.ids import JobId
from tokimori.stores.sqlite.connection import faults, store_error
from tokimori.stores.sqlite.store import SqliteStore


def opened(path: Path) -> SqliteStore:
    """A store at this path, not yet open."""
    return SqliteStore(str(path), SystemClock())


async def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    """A store in a directory that is not there says so."""
    mend = "make its directory, or let this user write there"
    with pytest.raises(StoreError, match=rf"missing/a.db-lock can't be opened.*{mend}$"):
        await opened(tmp_path / "missing" / "a.db").open()


async def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    """A file that is no SQLite database is left alone."""
    path = tmp_path / "notes.txt"
    path.write_text("these are notes, many notes, nothing but notes\n" * 100)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="is not an SQLite database"):
        await opened(path).open()
    assert path.read_bytes() == before
    assert not path.with_name("notes.txt-lock").exists()


async def test_the_database_of_another_program_is_refused(tmp_path: Path) -> None:
    """Whatever its journal is: it stays as it was, and no file appears beside it."""
    for mode in ("delete", "wal"):
        path = tmp_path / f"{mode}.db"
        with closing(sqlite3.connect(path)) as db:
            db.execute(f"PRAGMA journal_mode = {mode}")
            db.execute("CREATE TABLE orders (x)")
        before = path.read_bytes()
        with pytest.raises(StoreError, match=r"of another program.*orders"):
            await opened(path).open()
        assert path.read_bytes() == before
        assert not path.with_name(f"{path.name}-lock").exists()


async def test_an_empty_database_and_a_copy_of_ours_are_taken(tmp_path: Path) -> None:
    """A file without tables, and a backup that lacks the lock file and was taken while the store was in use."""
    empty = tmp_path / "empty.db"
    sqlite3.connect(empty).close()
    empty.touch()
    store = opened(empty)
    await store.open()
    await store.migrate()
    copy = tmp_path / "copy.db"
    for end in ("", "-wal"):
        shutil.copy(f"{empty}{end}", f"{copy}{end}")
    await store.close()
    restored = opened(copy)
    await restored.open()
    assert not (await restored.schema()).pending
    await restored.close()


async def test_missing_tables_ask_for_a_migration(tmp_path: Path) -> None:
    """A store without tables says how to make them."""
    store = opened(tmp_path / "a.db")
    await store.open()
    with pytest.raises(SchemaMismatch, match="run `tokimori db migrate`"):
        await store.get_job(JobId("a"))
    await store.close()


async def test_a_full_disk_can_help_itself(tmp_path: Path) -> None:
    """When the file can't grow, the caller is told to free space and may ask again; what was there is sound."""
    store = opened(tmp_path / "a.db")
    await store.open()
    await store.migrate()
    await store._write(lambda db: db.execute("PRAGMA max_page_count = 1").fetchall())
    with pytest.raises(StoreUnavailable, match="free some space"):
        await store._write(lambda db: db.execute("CREATE TABLE more (x)").fetchall())
        await store._write(lambda db: db.execute("INSERT INTO more VALUES (zeroblob(1000000))").fetchall())
    await store._write(lambda db: db.execute("PRAGMA max_page_count = 100000").fetchall())
    assert (await store.survey(Moment(0))).next_due is None
    await store.close()


async def test_a_store_that_is_not_open_says_so() -> None:
    """Asking a store before it is open is an error of ours, told plainly."""
    with pytest.raises(StoreError, match="is not open"):
        await opened(Path("/nowhere/a.db")).get_job(JobId("a"))


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("SQLITE_BUSY", StoreUnavailable, "locked by another program"),
        ("SQLITE_IOERR_FSYNC", StoreUnavailable, "check its disk"),
        ("SQLITE_FULL", StoreUnavailable, "free some space"),
        ("SQLITE_READONLY_DBMOVED", StoreError, "check the rights"),
        ("SQLITE_CORRUPT_INDEX", StoreError, "integrity_check"),
        ("SQLITE_ERROR", StoreRefused, "SQLITE_ERROR"),
    ],
)
def test_each_error_says_what_to_do(name: str, kind: type[StoreError], words: str) -> None:
    """An error of the driver becomes one of ours that says whether asking again helps, or what does."""
    fault = sqlite3.OperationalError("it said no")
    fault.sqlite_errorname = name
    error = store_error(fault, "/a.db")
    assert type(error) is kind
    assert words in error.message
    assert "it said no" in error.message


def test_old_versions_of_sqlite_are_warned_of() -> None:
    """Versions before 3.51.3 are named, later ones are not."""
    (fault,) = faults((3, 51, 2))
    assert "SQLite 3.51.2 has the WAL-reset bug" in fault
    assert faults((3, 51, 3)) == ()
