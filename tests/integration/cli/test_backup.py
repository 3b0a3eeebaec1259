"""Backups: written while nodes work, and put back where nobody does."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.integration.cli.conftest import Program, stop
from tests.servers import redis


def rows(database: Path) -> list[str]:
    """Everything in the file."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as db:
        return list(db.iterdump())


@contextmanager
def a_node(program: Program) -> Iterator[None]:
    """Within it a node works, which is killed at the end."""
    node = program.serve()
    try:
        yield
    finally:
        node.kill()
        node.communicate()


def test_a_backup_beside_a_node(program: Program, tmp_path: Path) -> None:
    """It holds what the store held, what the WAL holds included; put back elsewhere, a node goes on with it."""
    with a_node(program):
        program("job", "add", "j", "--command", "sleep 60")
        program("job", "add", "n", "--noop", "--description", "x" * 1000)
        program("job", "add", "after", "--noop", "--after", "j")
        program("job", "trigger", "n", "--wait")
        program("job", "trigger", "j")
        assert "b.db" in program("backup", "b.db")
        assert "exists already" in program.error("backup", "b.db")["message"]
        program("backup", "b.db", "--replace")
        assert "works on it" in program.error("restore", "b.db", "--replace")["message"]
    other = Program(tmp_path / "other")
    other.home.mkdir()
    assert "restored: 3 jobs" in other("restore", str(program.home / "b.db"))
    assert rows(other.database) == rows(program.home / "b.db")
    assert [each["id"] for each in other.json("job", "list")] == ["after", "j", "n"]
    assert {each["job_id"] for each in other.json("run", "list")} == {"j", "n"}
    assert stop(other.serve()) == 0


def test_a_folder_that_can_not_be_written(program: Program) -> None:
    """The error names the file that was typed, and no other one."""
    program("job", "add", "one", "--noop")
    program("backup", "b.db")
    target = program.home / "nowhere/t.db"
    refused = program.error("restore", "b.db", "--store", f"sqlite://{target}")
    assert (refused["field"], refused["value"]) == ("store", str(target))
    assert f"{target.parent} is no folder that this user may write" in refused["message"]


def test_a_store_that_holds_something(program: Program) -> None:
    """It is replaced only on purpose; a node that was killed there is none that works."""
    program("job", "add", "one", "--noop")
    program("backup", "b.db")
    program("job", "add", "two", "--noop")
    refused = program.error("restore", "b.db")
    assert (refused["field"], refused["value"]) == ("store", "the job one")
    assert len(program.json("job", "list")) == 2
    with a_node(program):
        pass
    program("restore", "b.db", "--replace")
    assert [each["id"] for each in program.json("job", "list")] == ["one"]


def test_what_can_not_be_backed_up_or_restored(program: Program) -> None:
    """Each fault is named, and nothing is touched: no store, no folder, no backup, the store itself, a newer schema."""
    assert program.error("backup", "b.db")["field"] == "store"
    program("job", "add", "j", "--noop")
    before = rows(program.database)
    assert "no folder" in program.error("backup", "nowhere/b.db")["message"]
    assert program.error("restore", "b.db")["field"] == "file"
    (program.home / "text").write_text("x" * 4096)
    assert "no whole database" in program.error("restore", "text", "--replace")["message"]
    assert "no whole database" in program.error("backup", "text", "--replace")["message"]
    assert "itself" in program.error("restore", str(program.database), "--replace")["message"]
    assert "itself" in program.error("backup", str(program.database), "--replace")["message"]
    assert rows(program.database) == before
    assert sorted(each.name for each in program.home.iterdir() if each.name.startswith(".")) == []


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (
            "CREATE TRIGGER evil AFTER INSERT ON tokimori_runs BEGIN DELETE FROM tokimori_jobs; END",
            "trigger 'evil'",
        ),
        ("CREATE VIEW tokimori_spy AS SELECT * FROM tokimori_jobs", "view 'tokimori_spy'"),
        ("CREATE TABLE tokimori_x__jobs (id TEXT)", "'tokimori_x__"),
        ("CREATE TABLE notes (text TEXT)", "table 'notes'"),
        ("CREATE INDEX more ON tokimori_jobs (abs(created))", "index 'more'"),
        ("ALTER TABLE tokimori_jobs ADD COLUMN more TEXT DEFAULT 'x'", "table 'tokimori_jobs'"),
        ("DROP INDEX tokimori_jobs_queue", "index 'tokimori_jobs_queue'"),
        (
            "INSERT INTO sqlite_master VALUES ('trigger', 'sqlite_stat_x', 'tokimori_jobs', 0,"
            " 'CREATE TRIGGER sqlite_stat_x AFTER UPDATE ON tokimori_jobs BEGIN DELETE FROM tokimori_documents; END')",
            "trigger 'sqlite_stat_x'",
        ),
        (
            "INSERT INTO sqlite_master VALUES ('view', 'sqlite_autoindex_x', 'sqlite_autoindex_x', 0,"
            " 'CREATE VIEW sqlite_autoindex_x AS SELECT 1')",
            "view 'sqlite_autoindex_x'",
        ),
        (
            "UPDATE sqlite_master SET sql = replace(sql, 'anchor INTEGER', 'anchor' || char(0x2003) || 'INTEGER')"
            " WHERE name = 'tokimori_jobs'",
            "'tokimori_jobs",
        ),
    ],
)
def test_a_schema_that_is_not_ours_is_refused(program: Program, tmp_path: Path, change: str, what: str) -> None:
    """Before a row of it is believed, and nothing is left of it."""
    program("job", "add", "j", "--noop")
    program("backup", "b.db")
    with closing(sqlite3.connect(program.home / "b.db")) as db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute(change)
        db.commit()
    other = Program(tmp_path / "other")
    other.home.mkdir()
    refused = other.error("restore", str(program.home / "b.db"), code=2)
    assert refused["field"] == "file" and what in refused["message"]
    assert not other.database.exists()


@pytest.mark.parametrize(
    ("column", "allowed"), [("jobs.state", "one of "), ("runs.state", "one of "), ("semaphores.rate", "UNITS/")]
)
def test_a_row_that_cannot_be_read_is_refused(program: Program, tmp_path: Path, column: str, allowed: str) -> None:
    """In words, before anything is written, whatever kind of store it is to go into."""
    program("job", "add", "j", "--noop")
    program("job", "trigger", "j")
    program("lock", "set", "s", "--limit", "2", "--rate", "5/1m")
    program("backup", "b.db")
    table, _, name = column.partition(".")
    with closing(sqlite3.connect(program.home / "b.db")) as db:
        db.execute(f"UPDATE tokimori_{table} SET {name} = 'nothing'")
        db.commit()
    other = Program(tmp_path / "other")
    other.home.mkdir()
    try:
        for url in (redis.loans.url_of(tmp_path), f"sqlite://{other.database}"):
            refused = other.error("restore", str(program.home / "b.db"), "--store", url)
            assert (refused["field"], refused["value"]) == (f"tokimori_{column}", "'nothing'")
            assert f"tokimori_{table}, row " in refused["message"] and allowed in refused["allowed"]
        assert not other.database.exists()
        assert other.json("db", "status", "--store", redis.loans.url_of(tmp_path))["version"] is None
    finally:
        redis.loans.give_back(tmp_path)


def test_tokens_that_come_back_are_told(program: Program, tmp_path: Path) -> None:
    """Also one that was revoked since; without them nobody gets in with one."""
    program("job", "add", "j", "--noop")
    program("token", "create", "ci", "--role", "read")
    program("backup", "b.db")
    program("token", "revoke", "ci")
    assert "tokens that let somebody in again: ci;" in program("restore", "b.db", "--replace")
    assert [each["name"] for each in program.json("token", "list")] == ["ci"]
    assert "token" not in program("restore", "b.db", "--replace", "--without-tokens")
    assert program.json("token", "list") == []
    assert program.json("restore", "b.db", "--replace")["tokens"] == ["ci"]


def test_installations_that_share_a_file(program: Program) -> None:
    """A backup of such a file has all of them: it takes the place of nobody else's, and goes to a file of its own."""
    one, two = (f"sqlite://{program.database}?namespace={name}" for name in ("one", "two"))
    program("job", "add", "j", "--noop", "--store", one)
    program("backup", "b.db", "--store", one)
    program("job", "add", "k", "--noop", "--store", two)
    refused = program.error("restore", "b.db", "--replace", "--store", one)["message"]
    assert "also the store of the installations ?namespace=two" in refused
    assert "and the store is ?namespace=two" in program.error("restore", "b.db", "--replace", "--store", two)["message"]
    fresh = f"sqlite://{program.home}/fresh.db?namespace=one"
    assert "restored: 1 job," in program("restore", "b.db", "--store", fresh)
    assert [each["id"] for each in program.json("job", "list", "--store", fresh)] == ["j"]


def test_an_installation_with_a_namespace_goes_into_another_kind_of_store(program: Program, tmp_path: Path) -> None:
    """Under whatever name that store is used; of a file that several share none is taken for the others."""
    one, two = (f"sqlite://{program.database}?namespace={name}" for name in ("one", "two"))
    url = redis.loans.url_of(tmp_path)
    program("job", "add", "j", "--noop", "--store", one)
    program("backup", "b.db", "--store", one)
    program("job", "add", "k", "--noop", "--store", two)
    program("backup", "both.db", "--store", one)
    try:
        assert "?namespace=one, ?namespace=two" in program.error("restore", "both.db", "--store", url)["message"]
        assert "restored: 1 job," in program("restore", "b.db", "--store", url)
    finally:
        redis.loans.give_back(tmp_path)


@pytest.mark.parametrize("form", ["sqlite:///{0}", "sqlite://{0}", "sqlite:{0}", "SQLITE:////{0}"])
def test_every_form_of_a_url_names_the_same_file(program: Program, form: str) -> None:
    """For all that takes the URL of a store: with one slash or four, the scheme in capitals."""
    program("job", "add", "j", "--noop")
    url = form.format(program.database)
    assert [each["id"] for each in program.json("job", "list", "--store", url)] == ["j"]
    program("backup", "b.db", "--store", url)
    program("backup", f"/{program.home}/c.db", "--store", url)
    assert "itself" in program.error("restore", f"/{program.database}", "--replace", "--store", url)["message"]
    for backup in ("b.db", f"/{program.home}/c.db"):
        program("restore", backup, "--replace", "--store", url)
        assert [each["id"] for each in program.json("job", "list")] == ["j"]
    program("db", "copy", url, form.format(program.home / "copy.db"))
    assert [each["id"] for each in program.json("job", "list", "--store", f"sqlite://{program.home}/copy.db")] == ["j"]
    program("db", "status", "--store", url)


def test_a_backup_beside_a_node_goes_into_another_kind_of_store(program: Program, tmp_path: Path) -> None:
    """The node that was alive when it was made does not work on the file."""
    program("job", "add", "j", "--noop")
    with a_node(program):
        program("backup", "b.db")
    try:
        assert "restored: 1 job," in program("restore", "b.db", "--store", redis.loans.url_of(tmp_path))
    finally:
        redis.loans.give_back(tmp_path)


@pytest.mark.prove
def test_other_stores_are_copied(program: Program, tmp_path: Path) -> None:
    """A store that is no file is copied into one, and back into an empty one; it is never replaced."""
    url = redis.loans.url_of(tmp_path)
    try:
        program("job", "add", "j", "--noop", "--store", url)
        program("backup", "b.db", "--store", url)
        program("restore", "b.db")
        assert [each["id"] for each in program.json("job", "list")] == ["j"]
        assert "only an SQLite store" in program.error("restore", "b.db", "--replace", "--store", url)["message"]
        empty = redis.loans.url_of(tmp_path / "empty")
        assert "restored: 1 job," in program("restore", "b.db", "--store", empty)
        redis.loans.give_back(tmp_path / "empty")
    finally:
        redis.loans.give_back(tmp_path)
