"""Data between runs: functions and commands get the results of their parents."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.apps.conftest import AppProgram, until
from tests.integration.cli.conftest import stop
from tests.programs.forked import PROGRAM, Started

APP = """
import tokimori

app = tokimori.App("jobs")

@app.job
def first(number: int) -> int:
    return number + 1

@app.job(parents=[{"job": "first"}])
def left(number: int) -> dict[str, int]:
    task = tokimori.current_task()
    (parent,) = task.parents()
    assert (parent.job_id, parent.state, parent.result) == ("first", "succeeded", number), parent
    assert task.parent_result() == task.parent_result("first") == number
    return {"left": number * 10}

@app.job(parents=[{"job": "first"}])
async def right() -> None:
    assert await tokimori.current_task().aparent_result("first") == 6

@app.job(parents=[{"job": "left"}, {"job": "right"}], join="all")
def total() -> object:
    task = tokimori.current_task()
    assert task.parent_result("left") == {"left": 60}
    return task.parent_result()

@app.job
def alone() -> None:
    task = tokimori.current_task()
    assert (task.parents(), task.parent_result()) == ((), None)
"""
SAID = f'{PROGRAM} run report succeeded --result "got $TOKIMORI_PARENT_RESULT"'


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppProgram]:
    """A node with the app."""
    program = AppProgram(tmp_path_factory.mktemp("family"))
    (program.home / "jobs.py").write_text(APP)
    words = ["serve", "--no-http", "--app", "jobs:app"]
    node = Started(words, cwd=program.home, env=program.environment, stdout=subprocess.PIPE)
    assert node.stdout is not None and "runs jobs" in node.stdout.readline()
    yield program
    assert stop(node) == 0


def ended(family: AppProgram, job: str) -> Any:
    """The newest run of a job, when it has ended."""
    until(lambda: any(run["ended"] for run in family.json("run", "list", "--job", job, "-n", "1")))
    return family.json("run", "list", "--job", job, "-n", "1")[0]


def test_a_family_of_functions_and_commands_hands_on_results(family: AppProgram) -> None:
    """A child gets its parent's result, a join those of all by job: as values in functions, as text in commands."""
    family("job", "add", "said", "--after", "first", "--command", SAID)
    family("job", "add", "sum", "--after", "left", "--after", "said", "--join", "all", "--command", "env")
    family.outcome("first", "5")
    assert json.loads(ended(family, "total")["result"]) == {"left": {"left": 60}, "right": None}
    run = ended(family, "sum")
    assert run["state"] == "succeeded"
    (line,) = [line for line in family("run", "logs", run["id"]).splitlines() if "PARENT_RESULT" in line]
    assert json.loads(line.partition("=")[2]) == {"left": {"left": 60}, "said": "got 6"}
    assert [each["job_id"] for each in family.json("run", "parents", run["id"])] == ["left", "said"]
    assert "got 6" in family("run", "parents", run["id"])


def test_a_retry_by_hand_gets_the_same_results(family: AppProgram) -> None:
    """The new run has the parents of the one that it repeats."""
    family.outcome("first", "5")
    again = family.json("run", "retry", ended(family, "total")["id"])
    until(lambda: family.json("run", "show", again["id"])["state"] == "succeeded")
    assert len(family.json("run", "parents", again["id"])) == 2


def test_a_run_that_was_requested_has_no_parents(family: AppProgram) -> None:
    """Its task has none, and no result."""
    family.outcome("alone")
