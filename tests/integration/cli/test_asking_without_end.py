"""A command that asks to be tried again and again, on a real node: it costs a start a second, and comes to an end."""

import json
from itertools import pairwise
from pathlib import Path

from tests.integration.cli.conftest import Program, stop
from tokimori.clock import SECOND, parse_moment

AGAIN = """echo '{"outcome":"retry","in":0}' > $TOKIMORI_OUTCOME_FILE"""


def test_asking_without_end_ends(tmp_path: Path) -> None:
    """An attempt a second at most, and a failure when the budget is used up."""
    program = Program(tmp_path)
    program("job", "add", "again", "--asked-retries", "3", "--command", AGAIN)
    node = program.serve()
    try:
        waited = program.run("--json", "job", "trigger", "again", "--wait")
        run = json.loads(waited.stdout)
        attempts = program.json("run", "show", run["id"])["attempts"]
    finally:
        assert stop(node) == 0
    assert waited.returncode == 1
    assert run["error"] == "it asked to be tried again more than 3 times (retry.asked_retries)"
    assert [attempt["outcome"] for attempt in attempts] == ["retry", "retry", "retry", "failed"]
    starts = [parse_moment(attempt["started"]) for attempt in attempts]
    assert all(later - earlier >= SECOND for earlier, later in pairwise(starts))
