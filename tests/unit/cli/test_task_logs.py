"""A task can be shown as Keiji shows one."""

from pathlib import Path

import pytest

from tests.unit.examples import a_definition, a_job, a_run, seconds
from tokimori.cli.task_logs import keiji_lines, keiji_schedule, log_line
from tokimori.model.build import digest_of
from tokimori.model.job import JobState
from tokimori.model.task import BuildRecord, TaskRecord
from tokimori.model.transitions import RunState
from tokimori.service.tasks.tasks import TaskDetails, TaskState

DIGEST = digest_of(b"")
FIELDS = [
    "TaskModel",
    "ID",
    "TaskId",
    "Name",
    "Description",
    "Schedule",
    "LastExecutionTime",
    "NextExecutionTime",
    "LogPath",
    "Slug",
    "Type",
    "Executable",
    "IsRunning",
    "IsQueued",
    "IsError",
    "IsDisabled",
    "ErrorTxt",
]


def shown(schedule: str | None = "on friday at 10:00PM", **changes: object) -> dict[str, str]:
    """The lines of a task by their names."""
    build = BuildRecord(digest=DIGEST, size=1, pieces=1, schedule=schedule, description="pings google")
    record = TaskRecord(name="ping_google", id="ac965b18", builds=(build,), current=DIGEST)
    job = a_job(a_definition(schedule=schedule, time_zone="Africa/Nairobi"), **changes)
    ended = a_run(state=RunState.FAILED, started=seconds(-60), ended=seconds(-50), error="exit code 3")
    state = TaskState(
        details=TaskDetails(record=record, job=job), is_served=True, running=None, waiting=None, ended=ended
    )
    lines = keiji_lines(state, Path("/state"))
    assert [line.partition(":")[0] for line in lines] == FIELDS
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def test_a_record_has_sixteen_lines_in_the_order_of_keiji() -> None:
    """Below the line that says what follows."""
    found = shown(next_due=seconds(0))
    assert found["Schedule"] == "day:Friday,time:10:00PM"
    assert (found["Type"], found["Slug"]) == ("DayTime", "ping_google")
    assert found["NextExecutionTime"] == "2030-01-01T03:00:00+03:00"
    assert found["LastExecutionTime"] == "2030-01-01T02:59:00+03:00"
    assert found["Executable"] == f"/state/builds/{DIGEST}.pyz"
    assert found["LogPath"] == "/state/logs/tasks/ping_google/ping_google.log"
    assert [found[name] for name in ("IsRunning", "IsQueued", "IsError", "IsDisabled")] == [
        "true", "false", "false", "false",
    ]  # fmt: skip
    assert (found["ErrorTxt"], found["NextExecutionTime"] == "N/A") == ("", False)


def test_what_stops_a_task_is_said() -> None:
    """One that failed tells its error, one that is disabled does not run."""
    parked = shown(state=JobState.PARKED)
    assert (parked["IsError"], parked["ErrorTxt"], parked["IsRunning"]) == ("true", "exit code 3", "false")
    paused = shown(state=JobState.PAUSED)
    assert (paused["IsDisabled"], paused["ErrorTxt"], paused["IsRunning"]) == ("true", "", "false")
    assert paused["NextExecutionTime"] == "N/A"


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        ("every 10 seconds", ("units:seconds,interval:10", "HMS")),
        ("every hour", ("units:hours,interval:1", "HMS")),
        ("on friday at 10:00PM", ("day:Friday,time:10:00PM", "DayTime")),
        ("0 3 * * *", ("0 3 * * *", "Other")),
        (None, ("on demand", "Other")),
    ],
)
def test_schedules_are_in_the_words_of_keiji(schedule: str | None, said: tuple[str, str]) -> None:
    """One for which Keiji has none is as it was typed."""
    assert keiji_schedule(schedule) == said


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("Pinging Google....", '"Pinging Google...."'),
        ("hello", "hello"),
        ("", '""'),
        ('a "b"\x1b[31m', '"a \\"b\\"\\u001b[31m"'),
        ("a=b", '"a=b"'),
    ],
)
def test_a_line_of_the_log_is_as_keiji_writes_it(message: str, said: str) -> None:
    """With quotes where the message is no single word, and nothing in it controls a terminal."""
    line = log_line(seconds(0.5), "INFO", message, "Africa/Nairobi")
    assert line == f"time=2030-01-01T03:00:00.500+03:00 level=INFO msg={said}"
