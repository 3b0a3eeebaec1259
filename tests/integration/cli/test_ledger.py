"""`tokimori job ledger`, `verify` and `job stats`, as people type them."""

import sqlite3
import time
from contextlib import closing

from tests.integration.cli.conftest import Program


def _runs(program: Program, number: int) -> bool:
    runs = program.json("run", "list", "--job", "often", "--state", "succeeded")
    return len(runs) >= number


def test_each_occurrence_has_a_line_and_all_of_them_fit(served: Program) -> None:
    """Runs of a node are told with their state; a run that somebody takes out of the store is missing."""
    served("job", "add", "often", "--schedule", "@every 1s", "--", "true")
    while not _runs(served, 3):
        time.sleep(0.3)
    served("job", "pause", "often")
    lines = [line for line in served.json("job", "ledger", "often") if line["fate"] == "run"]
    assert len(lines) >= 3
    assert {line["origin"] for line in lines} == {"schedule"}
    assert served("verify", "often").splitlines()[-1] == "all of them fit"
    assert "success rate:       100.00%" in served("job", "stats", "often")


def test_what_is_gone_is_named(program: Program) -> None:
    """With its moment, and exit code 1."""
    program("job", "add", "often", "--schedule", "* * * * *", "--", "true")
    with closing(sqlite3.connect(program.database)) as db:  # five minutes ago it was decided, and is no row at all
        past = "created = created - 600000000, updated = updated - 600000000"
        db.execute(f"UPDATE tokimori_jobs SET {past}")
        db.commit()
    told = program("verify", "often", code=1).splitlines()
    assert told[-1].endswith("do not fit")
    assert told[0].startswith("often: ")
    assert " missing" in told[0]
    assert program.error("job", "ledger", "none", code=3)["code"] == "not_found"
    assert program.error("job", "ledger", "often", "--from", "2030-01-02", "--to", "2030-01-01")["field"] == "to"
