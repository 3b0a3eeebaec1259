"""Keiji's rows as jobs."""

import json

import pytest

from tests.unit.translators.entries import only, said, why_left_out, why_refused
from tokimori.translators.entries import Row
from tokimori.translators.keiji import Keiji, read_keiji

NAIROBI = Keiji("Africa/Nairobi")
EVERY = '{"units":"seconds","interval":10}'
FRIDAY = '{"day":"Friday","time":"10:00PM"}'
ROW: Row = {
    "id": 1,
    "created_at": "2024-08-10 19:46:35",
    "deleted_at": None,
    "task_id": "ac965b18-b229-4360-a294-72913115bb45",
    "name": "ping_google",
    "description": "pings google",
    "schedule_info": EVERY,
    "schedule": "units:seconds,interval:10",
    "last_execution_time": None,
    "next_execution_time": None,
    "log_path": "",
    "slug": "ping_google",
    "type": "HMS",
    "executable": "/home/ann/.keiji/exec/tasks/ping_google.bin",
    "is_running": 1,
    "is_queued": 0,
    "is_error": 0,
    "error_txt": "",
    "is_disabled": 0,
}


def row(**fields: object) -> list[Row]:
    """The row with other fields."""
    return [{**ROW, **fields}]


def test_a_task_keeps_what_keiji_knows_of_it() -> None:
    """Name, description, schedule, zone and program are kept, and a failure parks the job."""
    job = only(read_keiji(row(), NAIROBI))
    assert job.job_id == "ping_google"
    assert said(job) == {
        "command": ("/home/ann/.keiji/exec/tasks/ping_google.bin", "--run"),
        "name": "ping_google",
        "description": "pings google",
        "schedule": "every 10 seconds",
        "time_zone": "Africa/Nairobi",
        "misfire": "skip",
        "on_exhausted": "park",
    }
    assert (job.warnings, job.start.paused_because, job.start.parked_because) == ((), None, None)


@pytest.mark.parametrize(
    ("info", "schedule"),
    [
        (FRIDAY, "on friday at 10:00PM"),
        ({"day": "Sunday", "time": "9:05"}, "on sunday at 09:05AM"),
        ({"day": "Monday", "time": "00:30AM"}, "on monday at 12:30AM"),
        ({"units": "hours", "interval": 2.0}, "every 2 hours"),
        (b'{"units":"minutes","interval":1}', "every minute"),
    ],
)
def test_both_kinds_of_schedule(info: object, schedule: str) -> None:
    """An interval and a weekday with a time are said as our own builder says them, whatever a driver gives."""
    assert said(only(read_keiji(row(schedule_info=info), NAIROBI)))["schedule"] == schedule


def test_a_disabled_task_is_paused_and_a_failed_one_is_parked() -> None:
    """`enable` and `resolve` are what ends either, as there; the error is the reason."""
    assert only(read_keiji(row(is_disabled=1), NAIROBI)).start.paused_because == "disabled in Keiji"
    failed = only(read_keiji(row(is_error=True, error_txt="[ task error ]: exit status 1\n"), NAIROBI))
    assert failed.start.parked_because == "[ task error ]: exit status 1"
    long = only(read_keiji(row(is_error=1, error_txt="é" * 10_000), NAIROBI)).start.parked_because
    assert long is not None
    assert len(long.encode()) <= 4096
    assert only(read_keiji(row(is_error=1, error_txt=None), NAIROBI)).start.parked_because == "failed in Keiji"


def test_a_name_with_blanks_becomes_its_slug() -> None:
    """Such a task has never run there, which is told: its scheduler looks it up by its slug."""
    job = only(read_keiji(row(name="Ping Google", slug="ping-google"), NAIROBI))
    assert (job.job_id, said(job)["name"]) == ("ping-google", "Ping Google")
    assert job.warnings[0].startswith("name: 'Ping Google': ")


def test_what_has_no_equal_is_told() -> None:
    """Runs stay there, and so do logs, for which one note of the import speaks."""
    job = only(read_keiji(row(last_execution_time="2024-08-16 22:00:00", log_path="/l/ping.log"), NAIROBI))
    assert [warning.partition(":")[0] for warning in job.warnings] == ["last_execution_time"]


def test_a_deleted_task_is_left_out() -> None:
    """Keiji only marks what is deleted."""
    assert "2024-08-14" in why_left_out(read_keiji(row(deleted_at="2024-08-14 10:00:00"), NAIROBI))


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"schedule_info": None}, "schedule_info: None is not allowed"),
        ({"schedule_info": "{"}, "schedule_info: '{' is not allowed"),
        ({"schedule_info": "[1]"}, "schedule_info: "),
        ({"schedule_info": json.dumps({"units": "days", "interval": 1})}, "schedule_info.units: 'days'"),
        ({"schedule_info": json.dumps({"units": "hours", "interval": "10"})}, "schedule_info.interval: '10'"),
        ({"schedule_info": json.dumps({"units": "hours", "interval": 0})}, "schedule_info.interval: 0"),
        ({"schedule_info": json.dumps({"units": "hours", "interval": True})}, "schedule_info.interval: True"),
        ({"schedule_info": json.dumps({"units": "hours", "interval": 2**62})}, "schedule_info.interval: "),
        ({"schedule_info": json.dumps({"units": "hours", "interval": 1.5})}, "schedule_info.interval: 1.5"),
        ({"schedule_info": json.dumps({"day": "Freitag", "time": "9:00"})}, "schedule_info.day: 'Freitag'"),
        ({"schedule_info": json.dumps({"day": "Friday", "time": "25:00"})}, "25:00"),
        ({"schedule_info": json.dumps({"day": ["Friday"], "time": "9:00"})}, "schedule_info.day: ['Friday']"),
        ({"executable": ""}, "executable: '' is not allowed"),
        ({"executable": None}, "executable: "),
        ({"executable": "/bin/sh"}, "executable: '/bin/sh' is not allowed"),
        ({"name": "名", "slug": "名"}, "名"),
        ({"is_error": "maybe"}, "is_error: 'maybe' is not allowed"),
        ({"is_disabled": 7}, "is_disabled: 7 is not allowed"),
    ],
)
def test_what_nobody_can_run_is_refused(fields: dict[str, object], told: str) -> None:
    """The task, the field and the value are told."""
    found = why_refused(read_keiji(row(**fields), NAIROBI))
    assert found.startswith("task_models, id 1 (name ")
    assert told in found
