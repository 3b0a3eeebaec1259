"""A SQLite file that is moved, removed or replaced beneath a node."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.integration.cli.conftest import Program


@pytest.mark.parametrize(
    "replaced", [pytest.param(False, marks=pytest.mark.prove), True], ids=["moved away", "replaced"]
)
def test_a_node_ends_when_its_file_is_not_there_any_more(program: Program, tmp_path: Path, replaced: bool) -> None:
    """Within seconds, with code 2, as nobody would find what it does; neither file lacks or gains anything."""
    file, away = program.database, tmp_path / "away.db"
    program("job", "add", "other", "--", "true")
    file.rename(tmp_path / "other.db")
    program("job", "add", "often", "--schedule", "@every 1s", "--max-running", "3", "--", "true")
    node = program.serve()
    try:
        program("job", "trigger", "often", "--wait")
        file.rename(away)
        if replaced:
            (tmp_path / "other.db").rename(file)
        assert node.wait(timeout=40) == 2
    finally:
        node.kill()
        node.communicate()
    with closing(sqlite3.connect(away)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("SELECT count(*) FROM tokimori_history WHERE state = 'succeeded'").fetchone()[0] >= 1
    if replaced:
        assert [job["id"] for job in program.json("job", "list")] == ["other"]
