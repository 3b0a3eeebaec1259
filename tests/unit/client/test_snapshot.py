"""Copies of whole SQLite files, of ones that are in use, too."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tokimori.client import snapshot
from tokimori.client.snapshot import check_snapshot, put_snapshot, remove_database, write_snapshot
from tokimori.errors import StoreError


def numbers(file: Path) -> list[int]:
    """What the table holds."""
    with closing(sqlite3.connect(file)) as db:
        return [number for (number,) in db.execute("SELECT number FROM tokimori_numbers ORDER BY number")]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database with a number."""
    file = tmp_path / "t.db"
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE tokimori_numbers (number INTEGER)")
        db.execute("INSERT INTO tokimori_numbers VALUES (1)")
    return file


def test_what_the_wal_holds_is_in_the_copy(tmp_path: Path, database: Path) -> None:
    """Of a file in use the copy has what was committed, and nothing of what was not; it is one file, for its owner."""
    copy = tmp_path / "copy.db"
    with closing(sqlite3.connect(database, isolation_level=None)) as db:
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("INSERT INTO tokimori_numbers VALUES (2)")
        assert database.with_name("t.db-wal").stat().st_size > 0
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO tokimori_numbers VALUES (3)")
        write_snapshot(database, copy)
        db.execute("COMMIT")
        assert database.with_name("t.db-wal").stat().st_size > 0  # nobody made a checkpoint for it
    assert copy.stat().st_mode & 0o777 == 0o600
    assert sorted(each.name for each in tmp_path.iterdir() if each.name.startswith(("copy", "."))) == ["copy.db"]
    assert numbers(copy) == [1, 2]
    assert check_snapshot(copy) == {""}


def test_a_file_that_is_there_stays(tmp_path: Path, database: Path) -> None:
    """It is replaced only on purpose, and then as a whole."""
    copy = tmp_path / "copy.db"
    copy.write_text("mine")
    with pytest.raises(StoreError, match="exists already"):
        write_snapshot(database, copy)
    assert copy.read_text() == "mine"
    write_snapshot(database, copy, replace=True)
    assert numbers(copy) == [1]


def test_a_copy_that_fails_leaves_nothing(tmp_path: Path, database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the disk is full there is no half copy, and what is in use is as before."""

    def full(_: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(snapshot, "_sync", full)
    with pytest.raises(StoreError, match="No space left"):
        write_snapshot(database, tmp_path / "copy.db")
    assert not [each for each in tmp_path.iterdir() if "copy" in each.name]
    assert numbers(database) == [1]


def test_what_is_no_backup_is_refused(tmp_path: Path, database: Path) -> None:
    """A text, a damaged database, and one of another program, each in words."""
    text, other, damaged = tmp_path / "text", tmp_path / "other.db", tmp_path / "damaged.db"
    text.write_text("no database at all, and long enough to be read as one" * 100)
    with closing(sqlite3.connect(other)) as db:
        db.execute("CREATE TABLE mine (x)")
    write_snapshot(database, damaged)
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[: len(whole) // 2])
    for file, words in ((text, "no whole database"), (damaged, "no whole database"), (other, "no table of ours")):
        with pytest.raises(StoreError, match=words):
            check_snapshot(file)
    with pytest.raises(StoreError, match="no whole database, or can't be read"):
        check_snapshot(tmp_path / "nothing")


def test_what_is_put_back_is_seen_by_who_has_the_file_open(tmp_path: Path, database: Path) -> None:
    """It takes the place of everything at once, in the same file; a new file is made where there is none."""
    copy, fresh = tmp_path / "copy.db", tmp_path / "fresh.db"
    write_snapshot(database, copy)
    with closing(sqlite3.connect(database, isolation_level=None)) as db:
        db.execute("INSERT INTO tokimori_numbers VALUES (2)")
        put_snapshot(copy, database)
        assert db.execute("SELECT number FROM tokimori_numbers").fetchall() == [(1,)]
        db.execute("INSERT INTO tokimori_numbers VALUES (4)")
    put_snapshot(copy, fresh)
    assert (numbers(database), numbers(fresh), numbers(copy)) == ([1, 4], [1], [1])
    assert fresh.stat().st_mode & 0o777 == 0o600
    remove_database(fresh)
    assert not [each for each in tmp_path.iterdir() if each.name.startswith("fresh")]
