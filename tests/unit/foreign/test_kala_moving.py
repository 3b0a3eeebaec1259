"""Jobs that Kala kept, as jobs of ours."""

from typing import Any

import pytest

from tokimori.clock import parse_moment
from tokimori.errors import InvalidInput
from tokimori.foreign.kala.stored_jobs import StoredJob, from_go, parents_of, stored_job
from tokimori.service.definitions.definitions import fields_of

NOW = parse_moment("2026-06-01T00:00:00Z")
JOB: dict[str, Any] = {
    "name": "report",
    "id": "11111111-0000-4000-8000-000000000000",
    "command": "make 'the report'",
    "owner": "ann@example.com",
    "disabled": False,
    "dependent_jobs": None,
    "parent_jobs": None,
    "on_failure_job": "",
    "schedule": "R3/2030-06-04T19:25:16-07:00/PT10S",
    "retries": 2,
    "epsilon": "PT5S",
    "next_run_at": "2030-06-05T02:25:16Z",
    "resume_at_next_scheduled_time": False,
    "metadata": {"success_count": 0, "number_of_finished_runs": 0},
    "type": 0,
    "remote_properties": {"url": "", "headers": None},
    "stats": None,
    "is_done": False,
}


def kept(*parents: str, **changes: object) -> StoredJob:
    """The job with these members."""
    return stored_job({**JOB, **changes}, parents, NOW)


def said(job: StoredJob) -> dict[str, object]:
    """Its fields."""
    return dict(fields_of(job.definition))


def test_a_job_whole() -> None:
    """Every member has its field, and Kala's API shows what it was told."""
    job = kept()
    assert said(job) == {
        "name": "report",
        "owner": "ann@example.com",
        "command": ("make", "the report"),
        "schedule": "R/2030-06-04T19:25:16-07:00/PT10S",
        "time_zone": "UTC",
        "anchored_on": "last run",
        "on_overlap": "queue",
        "max_running": 1,
        "max_waiting": 1,
        "retry": {"attempts": 3, "epsilon": 5.0},
    }
    assert (job.runs_remaining, job.disabled, list(job.warnings)) == (4, False, [])
    assert job.definition.foreign is not None
    assert "R3/2030-06-04T19:25:16-07:00/PT10S" in job.definition.foreign


@pytest.mark.parametrize(
    ("changes", "remaining"),
    [
        ({"metadata": {"number_of_finished_runs": 3}}, 1),
        ({"stats": [None, None]}, 2),
        ({"schedule": "R/2015-06-04T19:25:16Z/PT10S", "stats": [None]}, None),
    ],
)
def test_what_has_run_is_counted(changes: dict[str, object], remaining: int | None) -> None:
    """Of a schedule that ends so many runs remain as Kala had still to make."""
    assert kept(**changes).runs_remaining == remaining


@pytest.mark.parametrize(
    "changes",
    [
        {"is_done": True},
        {"schedule": "R0/2015-06-04T19:25:16Z/"},
        {"metadata": {"number_of_finished_runs": 4}},
        {"schedule": ""},
    ],
)
def test_what_is_over_runs_on_demand(changes: dict[str, object]) -> None:
    """It is told with its schedule, as nothing makes it run by itself again."""
    job = kept(**changes)
    assert "schedule" not in said(job)
    assert [member for member, _, _ in job.warnings] == ["schedule"]


@pytest.mark.parametrize(
    "changes",
    [
        {"metadata": {"last_attempted_run": "2026-05-31T09:00:00.123456789+02:00"}},
        {"last_attempted_run": "2026-05-31T07:00:00.123456Z"},
    ],
)
def test_the_next_run_is_counted_from_the_last_one(changes: dict[str, object]) -> None:
    """The next run comes an interval after the last one in Kala, and not an interval after the move."""
    assert kept(**changes).last_run == parse_moment("2026-05-31T07:00:00.123456Z")
    assert kept(**changes, resume_at_next_scheduled_time=True).last_run is None
    assert kept(last_attempted_run="0001-01-01T00:00:00Z").last_run is None


def test_a_child_follows_its_parents() -> None:
    """Both sides may say so; its own schedule counts for nothing, as there."""
    jobs: list[dict[str, object]] = [
        {"id": "a", "dependent_jobs": ["c"]},
        {"id": "b"},
        {"id": "c", "parent_jobs": ["a", "b"]},
    ]
    assert parents_of(jobs) == {"c": ["a", "b"]}
    assert said(kept("a", "b"))["parents"] == ({"job": "a"}, {"job": "b"})
    assert "schedule" not in said(kept("a"))


def test_a_remote_job() -> None:
    """Headers are read as both versions write them."""
    remote = {"url": "http://h/x", "method": "put", "timeout": 5, "headers": [{"key": "A", "value": "1"}]}
    fields = said(kept(type=1, remote_properties=remote))
    assert (fields["url"], fields["method"], fields["timeout"]) == ("http://h/x", "PUT", 5.0)
    assert fields["headers"] == {"A": "1", "Content-Type": "application/json"}
    again = said(kept(type=1, remote_properties={**remote, "headers": {"A": ["1"]}}))
    assert again == fields


def test_what_nobody_knows_is_told() -> None:
    """Members that Kala does not have, unless they are empty."""
    job = kept(colour="red", empty="", remote_properties={"url": "", "proxy": "p"})
    assert [(member, value) for member, value, _ in job.warnings] == [
        ("colour", "red"),
        ("remote_properties.proxy", "p"),
    ]


def test_names_of_go() -> None:
    """What Redis holds has the names of Go's fields; names of headers are data."""
    told = {
        "Name": "a",
        "JobType": 1,
        "ParentJobs": ["b"],
        "ResumeAtNextScheduledTime": True,
        "TemplateDelimiters": "{ }",
        "RemoteProperties": {"Url": "u", "ExpectedResponseCodes": [200], "Headers": {"X-Trace": ["1"]}},
        "Metadata": {"NumberOfFinishedRuns": 2},
    }
    assert from_go(told) == {
        "name": "a",
        "type": 1,
        "parent_jobs": ["b"],
        "resume_at_next_scheduled_time": True,
        "TemplateDelimiters": "{ }",
        "remote_properties": {"url": "u", "expected_response_codes": [200], "headers": {"X-Trace": ["1"]}},
        "metadata": {"number_of_finished_runs": 2},
    }


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": ""}, "name"),
        ({"command": ""}, "command"),
        ({"command": "echo 'x"}, "command"),
        ({"schedule": "R/soon/PT1S"}, "schedule"),
        ({"schedule": "daily"}, "schedule"),
        ({"schedule": "R/2030-01-01T00:00:00Z/PT0S"}, "interval"),
        ({"retries": -1}, "retries"),
        ({"retries": "2"}, "retries"),
        ({"epsilon": "asdasd"}, "epsilon"),
        ({"disabled": "no"}, "disabled"),
        ({"type": 2}, "type"),
        ({"type": 1}, "remote_properties.url"),
        ({"remote_properties": 5}, None),
        ({"type": 1, "remote_properties": {"url": "http://h", "headers": [5]}}, "headers"),
    ],
)
def test_wrong_members_are_refused_by_name(changes: dict[str, object], field: str | None) -> None:
    """Broken schedules, and members of a wrong kind."""
    with pytest.raises(InvalidInput) as error:
        kept(**changes)
    assert error.value.field == field
