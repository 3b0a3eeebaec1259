"""Job types and waiting jobs of Kōjō."""

from datetime import datetime

import pytest

from tests.unit.translators.entries import only, said, why_left_out, why_refused
from tokimori.clock import parse_moment
from tokimori.errors import InvalidFile
from tokimori.translators.kojo import read_types, read_waiting, rows_of_file

TYPE: dict[str, object] = {
    "kojo_job_type_id": 1,
    "type_code": "mail_sender",
    "name": "Mail sender",
    "worker_uri": "\\Acme\\Mailer",
    "worker_method": "work",
    "can_work_in_parallel": 0,
    "default_importance": 10,
    "cron_expression": "*/5 * * * *",
    "schedule_limit": 1,
    "schedule_limit_allowance": 1,
    "is_enabled": 1,
    "auto_complete_success": 1,
    "auto_delete_interval_duration": "PT1H",
}
WHOLE = {
    "name": "Mail sender",
    "function": "Acme\\Mailer::work",
    "schedule": "*/5 * * * *",
    "time_zone": "UTC",
    "misfire": "skip",
    "max_running": 1,
    "max_waiting": 1,
    "on_overlap": "queue",
    "priority": 10,
    "retention": "PT1H",
    "keep_runs": 0,
    "retry": {"lost_attempts": "unlimited", "asked_retries": 1_000_000},
}
JOB: dict[str, object] = {
    "kojo_job_id": 7,
    "type_code": "mail_sender",
    "name": "Mail sender",
    "worker_uri": "\\Acme\\Mailer",
    "worker_method": "work",
    "can_work_in_parallel": 0,
    "importance": 10,
    "priority": 9,
    "work_at_date_time": "2030-01-01 00:03:00",
    "assigned_state": "waiting",
    "next_state_request": "working",
}


def of_type(**changes: object) -> dict[str, object]:
    """The fields of the job of a type."""
    return said(only(read_types([("here", {**TYPE, **changes})])))


def waiting(**changes: object) -> list[tuple[str, dict[str, object]]]:
    """The rows with a job that waits."""
    return [("there", {**JOB, **changes})]


def test_a_type_whole() -> None:
    """Every column has its field."""
    job = only(read_types([("here", TYPE)]))
    assert (job.job_id, said(job), job.warnings, job.start.paused_because) == ("mail_sender", WHOLE, (), None)


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"cron_expression": None}, {"schedule": None}),
        ({"cron_expression": "@daily"}, {"schedule": "@daily"}),
        ({"auto_complete_success": 0}, {"auto_complete_success": False}),
        ({"auto_delete_interval_duration": None}, {"retention": None, "keep_runs": None}),
        (
            {"can_work_in_parallel": 1, "schedule_limit": 5, "schedule_limit_allowance": 5},
            {"max_running": 5, "max_waiting": 5, "on_overlap": "queue"},
        ),
        (
            {"can_work_in_parallel": True, "schedule_limit": 5, "schedule_limit_allowance": 0},
            {"max_running": 5, "max_waiting": 0, "on_overlap": None},
        ),
        (
            {"can_work_in_parallel": 0, "schedule_limit": 3, "schedule_limit_allowance": None},
            {"max_running": 1, "max_waiting": 2, "on_overlap": "queue"},
        ),
        (
            {"can_work_in_parallel": 1, "schedule_limit": 0, "schedule_limit_allowance": 0},
            {"max_running": 0, "max_waiting": None},
        ),
        ({"schedule_limit": None, "schedule_limit_allowance": None}, {"max_running": 1, "max_waiting": None}),
    ],
)
def test_every_column_has_its_field(changes: dict[str, object], fields: dict[str, object]) -> None:
    """Limits and allowances, times, and what becomes of what has ended."""
    found = of_type(**changes)
    assert {name: found.get(name) for name in fields} == fields


def test_a_command_in_place_of_a_function() -> None:
    """Class and method stand behind the words."""
    (entry,) = read_types([("here", TYPE)], ["php", "bin/work"])
    assert said(only([entry]))["command"] == ("php", "bin/work", "Acme\\Mailer", "work")


def test_a_disabled_type_is_paused() -> None:
    """It is added paused, and says why."""
    assert only(read_types([("here", {**TYPE, "is_enabled": 0})])).start.paused_because == "disabled in Kōjō"


def test_what_has_no_equal_is_told() -> None:
    """An importance above ours, an allowance without a limit, and columns that Kōjō does not have."""
    changes = {
        "auto_delete_interval_duration": "PT0S",
        "default_importance": 500,
        "schedule_limit": 0,
        "schedule_limit_allowance": 4,
        "colour": "red",
    }
    job = only(read_types([("here", {**TYPE, **changes})]))
    assert (said(job)["priority"], said(job)["retention"]) == (100, "PT0S")
    assert [warning.partition(": ")[0] for warning in sorted(job.warnings)] == [
        "colour",
        "default_importance",
        "schedule_limit_allowance",
    ]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"type_code": None}, "type_code: None"),
        ({"worker_uri": ""}, "worker_uri: ''"),
        ({"worker_method": 5}, "worker_method: 5"),
        ({"can_work_in_parallel": "maybe"}, "can_work_in_parallel: 'maybe'"),
        ({"default_importance": -1}, "default_importance: -1"),
        ({"schedule_limit": "many"}, "schedule_limit: 'many'"),
        ({"cron_expression": "5/15 * * * *"}, "cron_expression: '5/15 * * * *'"),
        ({"cron_expression": "* * * *"}, "cron_expression: '* * * *'"),
        ({"cron_expression": "* * * * * 2030"}, "cron_expression: "),
        ({"cron_expression": "@reboot"}, "cron_expression: '@reboot'"),
        ({"cron_expression": "61 * * * *"}, "61"),
        ({"auto_delete_interval_duration": "1D"}, "retention: '1D'"),
    ],
)
def test_wrong_rows_are_refused_by_name(changes: dict[str, object], why: str) -> None:
    """Where the row stands, the field and the value are named."""
    found = why_refused(read_types([("here", {**TYPE, **changes})]))
    assert found.startswith("here: ")
    assert why in found


@pytest.mark.parametrize("state", ["new", "waiting", "crashed"])
@pytest.mark.parametrize("at", ["2030-01-01 00:03:00", datetime(2030, 1, 1, 0, 3)])
def test_a_job_that_was_asked_for_runs_once(state: str, at: object) -> None:
    """Each one that waits is a job with one moment, in UTC, and its priority."""
    job = only(read_waiting(waiting(assigned_state=state, work_at_date_time=at), [("here", TYPE)]))
    assert job.job_id == "mail_sender-kojo-7"
    assert (said(job)["schedule"], said(job)["priority"]) == ("at 2030-01-01T00:03:00Z", 9)
    assert job.start.since == parse_moment("2030-01-01T00:03:00Z")
    assert said(job)["retry"] == {"lost_attempts": "unlimited", "asked_retries": 1_000_000}


def test_what_the_schedule_names_comes_by_the_schedule() -> None:
    """A job at a moment of its type's schedule would run twice: it is left out."""
    entries = read_waiting(waiting(work_at_date_time="2030-01-01 00:05:00"), [("here", TYPE)])
    assert "names it here, too" in why_left_out(entries)
    dynamic = [("here", {**TYPE, "cron_expression": None})]
    assert only(read_waiting(waiting(work_at_date_time="2030-01-01 00:05:00"), dynamic))


def test_what_has_ended_is_history() -> None:
    """Of millions of ended jobs nothing is told."""
    assert list(read_waiting(waiting(assigned_state="complete_success"), [("here", TYPE)])) == []


@pytest.mark.parametrize("state", ["working", "hold", "panicked", None])
def test_what_is_at_work_or_stands_still_is_refused(state: object) -> None:
    """A person has to decide about it first."""
    assert "assigned_state: " in why_refused(read_waiting(waiting(assigned_state=state), [("here", TYPE)]))


@pytest.mark.parametrize("at", [None, "soon", 5, "9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00"])
def test_a_job_without_a_time_is_refused(at: object) -> None:
    """The column and its value are named."""
    assert "work_at_date_time: " in why_refused(read_waiting(waiting(work_at_date_time=at), [("here", TYPE)]))


YAML_LIST = "job_types:\n  - type_code: a\n    worker_uri: X\n    worker_method: y\n  - {type_code: b}\n"
YAML_BY_CODE = "a:\n  worker_uri: X\n  worker_method: y\nb: {}\n"
PHP = """<?php
return ['kojo_job_type' => [
    ['type_code' => 'a', 'worker_uri' => X::class, 'worker_method' => 'y'],
    'b' => [
        'x' => 1]]];
"""


@pytest.mark.parametrize(
    ("text", "file", "lines"),
    [(YAML_LIST, "t.yml", (2, 5)), (YAML_BY_CODE, "t.yml", (1, 4)), (PHP, "t.php", (3, 4))],
)
def test_configurations(text: str, file: str, lines: tuple[int, int]) -> None:
    """Types stand in a list or by their codes, in YAML and in PHP, and know their lines."""
    rows = rows_of_file(text, file)
    assert [(place, row["type_code"]) for place, row in rows] == [
        (f"{file}:{lines[0]}", "a"),
        (f"{file}:{lines[1]}", "b"),
    ]
    assert said(only(read_types(rows[:1])))["function"] == "X::y"
    assert why_refused(read_types(rows[1:])).startswith(f"{file}:{lines[1]}: worker_uri: None")


@pytest.mark.parametrize("text", ["", "5", "- 5", "a: [", "<?php return [5];", "<?php return [system('id')];"])
def test_what_lists_no_types_is_refused(text: str) -> None:
    """Files of something else are refused, with file and line."""
    with pytest.raises(InvalidFile, match=r"^f"):
        rows_of_file(text, "f")


def test_one_row_that_is_named_a_thousand_times() -> None:
    """Aliases cost nothing until a row is written out for each: one with more columns than any table is refused."""
    columns = ", ".join(f"c{number}: 1" for number in range(1_000))
    with pytest.raises(InvalidFile, match=r"^f:1: \[0\]: it has 1000 columns; allowed: at most 100$"):
        rows_of_file(f"- &a {{{columns}}}\n" + "- *a\n" * 1_000, "f")
