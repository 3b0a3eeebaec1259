"""Jobs of Dkron, as its API answers them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.translators.entries import only, said, why_refused
from tokimori.clock import from_datetime, to_datetime
from tokimori.model.job import schedule_of
from tokimori.translators.dkron import read_dkron
from tokimori.translators.entries import Entry, Moved

JOB: dict[str, Any] = {
    "id": "cleanup",
    "name": "cleanup",
    "displayname": "Clean up",
    "timezone": "Europe/Paris",
    "schedule": "0 30 * * * *",
    "owner": "ops",
    "owner_email": "",
    "success_count": 3,
    "error_count": 1,
    "last_success": "2026-11-30T12:30:00Z",
    "last_error": None,
    "disabled": False,
    "tags": None,
    "metadata": None,
    "retries": 2,
    "dependent_jobs": ["report"],
    "parent_job": "",
    "processors": {},
    "concurrency": "forbid",
    "executor": "shell",
    "executor_config": {"command": "find /tmp -name 'x y'", "cwd": "/tmp", "env": "A=1,B=b=c", "timeout": "1h30m"},
    "status": "success",
    "next": "2026-11-30T13:30:00Z",
    "ephemeral": False,
    "expires_at": None,
}


def read(**changes: object) -> list[Entry]:
    """The entries of the job with these members."""
    return list(read_dkron([{**JOB, **changes}], "Asia/Tokyo"))


def run(**config: object) -> list[Entry]:
    """The entries of the job with this configuration of its executor."""
    return read(executor_config={"command": "echo a", **config})


def test_a_job_whole() -> None:
    """Each member has its field, and what has none is not told where it says nothing."""
    job = only(read())
    assert (job.job_id, job.warnings) == ("cleanup", ())
    assert said(job) == {
        "name": "Clean up",
        "owner": "ops",
        "command": ("find", "/tmp", "-name", "x y"),
        "cwd": "/tmp",
        "env": {"A": "1", "B": "b=c"},
        "timeout": 5400.0,
        "schedule": "0 30 * * * *",
        "time_zone": "Europe/Paris",
        "gap": "skip",
        "fold": "both",
        "misfire": "skip",
        "max_running": 1,
        "retry": {"attempts": 3},
    }


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("@every 1h30m10s", "@every 5410s"),
        ("@every 1.5h", "@every 5400s"),
        ("@every 1500ms", "@every 1s"),
        ("@every 10ms", "@every 1s"),
        ("@at 2030-01-01T00:00:00+02:00", "at 2030-01-01T00:00:00+02:00"),
        ("@manually", None),
        ("@minutely", "@minutely"),
        ("0 ~ * * * *", "0 H * * * *"),
        ("0 ~/15 * * * *", "0 H/15 * * * *"),
        ("0 0 0 ? * MON", "0 0 0 ? * MON"),
        ("0 0 0 */2 * *", "0 0 0 */2 * *"),
        ("0 0 0 */2 * 1", "0 0 0 1-31/2 * 1"),
        ("0 0 0 1 * */2", "0 0 0 1 * 0-6/2"),
    ],
)
def test_schedules(text: str, ours: str | None) -> None:
    """Seconds stand first, `~` is steady for a job, and of two restricted days either is enough."""
    assert said(only(read(schedule=text))).get("schedule") == ours


@pytest.mark.parametrize("text", ["", "* * * * *", "@reboot", "@every", "@every soon", "@every 90", "0 0 0 30 2 *"])
def test_a_schedule_that_dkron_does_not_take_is_refused(text: str) -> None:
    """The five fields of crontab are none there, either."""
    assert why_refused(read(schedule=text))


def test_a_zone_may_stand_before_the_schedule() -> None:
    """As `CRON_TZ=` or `TZ=`; else it is the job's, else the one that is given."""
    assert said(only(read(schedule="TZ=Asia/Seoul 0 0 5 * * *")))["time_zone"] == "Asia/Seoul"
    assert said(only(read(timezone="")))["time_zone"] == "Asia/Tokyo"


def test_a_time_that_clocks_skip_does_not_run() -> None:
    """As its documents say of both changes of clocks."""
    job = only(read(schedule="0 30 2 * * *"))
    at = from_datetime(datetime(2026, 3, 28, 12, tzinfo=UTC))
    upcoming = schedule_of(job.definition, at).next_after(at)
    assert upcoming is not None
    assert to_datetime(upcoming) == datetime(2026, 3, 30, 0, 30, tzinfo=UTC)


def test_a_child_runs_after_its_parent() -> None:
    """Its own schedule counts for nothing, as there."""
    job = only(read(parent_job="first"))
    assert said(job)["parents"] == ({"job": "first"},)
    assert "schedule" not in said(job)
    assert [warning.partition(":")[0] for warning in job.warnings] == ["schedule"]


def test_one_node_of_a_tag_is_a_label() -> None:
    """A tag that means all of its nodes, or several, is no job that runs once."""
    assert said(only(read(tags={"role": "web:1", "dc": "a:1"})))["labels"] == {"role": "web", "dc": "a"}
    for several in ("web", "web:2"):
        assert "a job for each" in why_refused(read(tags={"role": several}))


def test_a_disabled_job_comes_paused() -> None:
    """With its reason."""
    entry = only(read(disabled=True))
    assert isinstance(entry, Moved)
    assert entry.start.paused_because == "disabled in Dkron"


def test_commands() -> None:
    """With a shell a text, else words; the payload is the input."""
    assert said(only(run(**{"shell": "true", "command": "a | b"})))["command"] == "a | b"
    fields = said(only(run(payload="aGVsbG8=", su="nobody")))
    assert (fields["stdin"], fields["user"]) == ("hello", "nobody")


@pytest.mark.parametrize(
    "config",
    [
        {"command": "a | b"},
        {"command": "a 'b"},
        {"command": ""},
        {"env": "A"},
        {"payload": "?"},
        {"timeout": "5"},
        {"mem_limit_kb": "5"},
    ],
)
def test_a_command_that_would_do_something_else_is_refused(config: dict[str, object]) -> None:
    """Without a shell Dkron drops what stands behind a `|`."""
    assert why_refused(run(**config))


def test_a_request() -> None:
    """Where no status is expected, each is a success there: told."""
    config = {
        "method": "POST",
        "url": "https://h/a",
        "headers": '["A: b:c"]',
        "body": "{}",
        "expectCode": "200,202",
        "debug": "1",
    }
    fields = said(only(read(executor="http", executor_config=config)))
    assert fields["headers"] == {"A": "b:c"}
    assert (fields["expect"], fields["timeout"], fields["method"]) == ((200, 202), 30.0, "POST")
    job = only(read(executor="http", executor_config={**config, "expectCode": ""}))
    assert "any answer is a success" in job.warnings[0]
    assert why_refused(read(executor="http", executor_config={**config, "expectBody": "/ok/"}))
    assert why_refused(read(executor="http", executor_config={**config, "headers": "A: b"}))


def test_what_has_no_equal_is_told() -> None:
    """But for what processors are told, in which passwords may stand."""
    job = only(
        read(owner_email="a@b", ephemeral=True, metadata={"a": "b"}, processors={"mail": {"pw": "x"}}, colour="r")
    )
    assert [warning.partition(":")[0] for warning in job.warnings] == [
        *("colour", "ephemeral", "metadata", "owner_email", "processors")
    ]
    assert "pw" not in "".join(job.warnings)


@pytest.mark.parametrize(
    "changes",
    [
        *({"executor": "kafka"}, {"concurrency": "replace"}, {"retries": -1}, {"retries": "2"}, {"tags": "web"}),
        *({"executor_config": "x"}, {"schedule": 5}, {"timezone": "Nope"}, {"name": None, "id": None}),
    ],
)
def test_what_can_be_no_job_is_refused(changes: dict[str, object]) -> None:
    """It is named, and stops no other."""
    assert why_refused(read(**changes))
