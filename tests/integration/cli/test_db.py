"""`tokimori db sql` and `tokimori db check`."""

import sqlite3

from tests.integration.cli.conftest import Program


def test_an_administrator_makes_the_tables(program: Program) -> None:
    """What `db sql` prints makes the tables, `db check` finds nothing then, and names what is changed later."""
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
