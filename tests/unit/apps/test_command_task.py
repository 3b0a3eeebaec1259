"""A command knows its run, and reports how it ended, as a function does."""

import json
from pathlib import Path

import pytest

from tokimori import Refused, current_task
from tokimori.apps.task import task_of_command

ENVIRONMENT = {
    "TOKIMORI_JOB_ID": "j",
    "TOKIMORI_RUN_ID": "r",
    "TOKIMORI_ATTEMPT": "2",
    "TOKIMORI_TOKEN": "7",
    "TOKIMORI_NOMINAL_TIME": "2030-01-01T00:00:00Z",
    "TOKIMORI_DUE_TIME": "2030-01-01T00:00:01Z",
    "TOKIMORI_PAYLOAD": '{"a": 1}',
}


@pytest.fixture
def outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the report of this process, which a run has started."""
    for name, value in {**ENVIRONMENT, "TOKIMORI_OUTCOME_FILE": str(tmp_path / "outcome")}.items():
        monkeypatch.setenv(name, value)
    task_of_command.cache_clear()
    return tmp_path / "outcome"


def test_a_command_knows_its_run(outcome: Path) -> None:
    """By the same words as a function; what only functions have is refused."""
    task = current_task()
    assert (task.job_id, task.run_id, task.attempt, task.token, task.data) == ("j", "r", 2, 7, {"a": 1})
    assert task.scheduled_at.isoformat() == "2030-01-01T00:00:00+00:00"
    for act in (task.release, lambda: task.checkpoint(1)):
        with pytest.raises(Refused, match="a command has no such thing"):
            act()
    assert not outcome.exists()


def test_what_a_command_says_first_is_reported(outcome: Path) -> None:
    """At once, and nothing that comes later."""
    task = current_task()
    task.finish({"rows": 3})
    task.fail("too late")
    assert json.loads(outcome.read_text()) == {"outcome": "succeeded", "result": '{"rows":3}'}


def test_where_no_run_is_there_is_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that somebody started by hand."""
    monkeypatch.delenv("TOKIMORI_RUN_ID", raising=False)
    task_of_command.cache_clear()
    with pytest.raises(Refused, match="no task is running here"):
        current_task()
