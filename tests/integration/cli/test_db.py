"""`tokimori db sql`, `tokimori db check` and `tokimori db copy`."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.integration.cli.conftest import Program


def test_an_administrator_makes_the_tables(program: Program) -> None:
    """What `db sql` prints makes the tables, `db check` finds nothing then, and names what is changed later."""
    program.database.touch()
    script = program("db", "sql")
    with sqlite3.connect(program.database) as db:
        db.executescript(script)
        assert program("db", "sql") == "-- Nothing is pending.\n"
        assert program.json("db", "sql") == {"sql": ""}
        assert program.json("db", "sql", "--all")["sql"].splitlines()[:5] == script.splitlines()[:5]
        assert program("db", "check") == "The tables are as this version makes them.\n"
        program("job", "add", "j", "--noop")
        db.execute("DROP INDEX tokimori_jobs_due")
    ended = program.run("db", "check")
    assert (ended.returncode, ended.stdout) == (2, "the index tokimori_jobs.tokimori_jobs_due is missing\n")


@pytest.mark.prove
def test_a_copy_that_is_killed_goes_on(program: Program) -> None:
    """`db copy` killed in the middle, and asked for again, leaves what one copy would have; a second finds no more."""
    jobs = "".join(f"{n % 60} {n % 24} * * * true {n}\n" for n in range(3000))
    (program.home / "many").write_text(jobs)
    program.run("job", "import", "crontab", "many")
    program("job", "add", "now", "--noop")
    program("job", "trigger", "now", "--key", "once")
    there = program.home / "there.db"
    words = ("db", "copy", f"sqlite://{program.database}", f"sqlite://{there}")
    copying = program.start(*words)
    while copying.poll() is None and not _rows(there):
        pass
    copying.kill()
    copying.wait()
    copied = {each["kind"]: each for each in program.json(*words)["copied"]}
    assert copied["jobs"]["written"] < copied["jobs"]["rows"] == 3001
    assert copied["runs"]["rows"] == 1
    assert _rows(there) == 3001
    assert {each["written"] for each in program.json(*words)["copied"]} == {0}


def _rows(database: Path) -> int:
    if not database.exists():
        return 0
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=10)) as db:
        try:
            (rows,) = db.execute("SELECT count(*) FROM tokimori_jobs").fetchone()
        except sqlite3.OperationalError:
            return 0
    return int(rows)


def test_nothing_is_copied_from_nothing(program: Program) -> None:
    """A store without tables is no source: a mistyped URL is told."""
    error = program.error("db", "copy", f"sqlite://{program.home}/typo.db", f"sqlite://{program.home}/to.db")
    assert (error["code"], error["field"]) == ("refused", "from")


def test_a_copy_of_a_store_that_is_not_there_makes_none(program: Program) -> None:
    """A wrong path is refused before anything is made, neither there nor at the target."""
    source, target = program.home / "none.db", program.home / "to.db"
    error = program.error("db", "copy", f"sqlite://{source}", f"sqlite://{target}")
    assert (error["code"], error["value"]) == ("refused", str(source))
    assert not source.exists()
    assert not target.exists()


def test_a_store_is_not_copied_onto_itself(program: Program) -> None:
    """However its path is spelt: with more slashes, through a link of the file or of a folder."""
    program("job", "add", "j", "--noop")
    linked, folder = program.home / "linked.db", program.home / "folder"
    linked.symlink_to(program.database)
    folder.symlink_to(program.home)
    for url in (f"sqlite:///{program.database}", f"sqlite://{linked}", f"sqlite://{folder}/t.db"):
        for words in ((f"sqlite://{program.database}", url), (url, f"sqlite://{program.database}")):
            error = program.error("db", "copy", *words)
            assert (error["code"], error["field"]) == ("refused", "to") and "itself" in error["message"]
    program("job", "show", "j")
