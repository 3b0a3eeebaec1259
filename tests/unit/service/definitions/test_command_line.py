"""The command that adds a job as it is."""

import subprocess
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from tests.laws import examples
from tests.unit.service.definitions.test_definitions import definitions
from tokimori.cli.job_edit import add
from tokimori.cli.job_options import fields_given
from tokimori.model.job import Definition
from tokimori.model.job_fields import FIELDS
from tokimori.service.definitions.command_line import LONGEST, add_command
from tokimori.service.definitions.definitions import definition_from, fields_of

JOBS: tuple[Mapping[str, Any], ...] = (
    {
        "command": "tar -cf - 'a b' | ssh $HOST",
        "own_process": False,
        "shell_path": "/bin/bash",
        "env": {"HOST": "web-2", "FLAGS": "--a=b c", "EMPTY": ""},
        "cwd": "/srv/a b",
        "user": "build",
        "stdin": "first\nsecond\n",
        "client": True,
        "auto_complete_success": False,
        "schedule": "0 3 * * *",
        "time_zone": "Europe/Paris",
        "calendars": ["holidays", "quiet"],
        "shift": "next",
        "starts_at": "2030-01-01T00:00:00+00:00",
        "ends_at": "2040-01-01T00:00:00+00:00",
        "runs_remaining": 7,
        "delay": 1.5,
        "jitter": 90,
        "gap": "skip",
        "fold": "both",
        "misfire": "all",
        "late_after": 3_000_000_000,
        "grace": 0.000001,
        "queue": "mail",
        "labels": {"gpu": "yes"},
        "priority": -5,
        "max_running": 4,
        "max_waiting": 3,
        "on_overlap": "queue",
        "semaphores": ["printer:2", "lock"],
        "rate_limit": "10/s smooth",
        "concurrency_key": "-k",
        "max_running_per_key": 2,
        "timeout": 60,
        "timeout_grace": 2,
        "max_cpu": 30,
        "max_memory": 512,
        "retry": {"attempts": 3, "delay": 5, "backoff": 2.5, "cap": 60, "jitter": 0.1, "epsilon": 3600}
        | {"lost_attempts": "unlimited", "asked_delay": 2, "asked_retries": 5, "wait": 4},
        "on_exhausted": "park",
        "on_failure_job": "clean",
        "notify": {"failure": ["ops", "mail"], "recovery": ["ops"]},
        "on_lost_lease": "continue",
        "expect_within": 86_400,
        "name": "Nightly “backup”",
        "description": "--\nwith 'marks' and $(none)",
        "owner": "Ann",
        "mailto": "ann@example.org",
        "retention": "P7D",
        "keep_runs": 10,
        "payload": '{"a": [1]}',
    },
    {"command": ["./import.py", "--all", "--", "a b", ""], "parents": [{"job": "a", "on": "failure"}, {"job": "b"}]}
    | {"join": "all", "approval": True, "approver": "admin", "approve_within": 60, "four_eyes": True},
    {"function": "mail.send", "own_process": True, "schedule": "every 90 seconds", "anchored_on": "last run"},
    {"url": "https://example.org/hook", "method": "POST", "headers": {"X-Id": "a: b"}, "body": "-x"}
    | {"expect": [200, 404], "callback_within": 60, "sign_with": "key"},
    {"email": ["a@example.org", "b@example.org"], "smtp": "mx:25", "sender": "c@example.org", "tls": "implicit"}
    | {"smtp_user": "u", "smtp_password": "p", "mail_subject": "s", "mail_text": "t"},
    {"build": f"etl@{'ab' * 32}", "queue": "etl"},
    {
        "noop": True,
        "notifier": {"subject": "s", "text": "t", "bundle": 60, "quiet": ["22:00-07:00"], "elsewhere": True},
    },
)


def read(command: str) -> dict[str, object]:
    """The fields that a shell and the terminal read from the command."""
    script = f"""tokimori() {{ printf '%s\\0' "$@"; }}\n{command}"""
    words = subprocess.run(["/bin/sh", "-c", script], capture_output=True, check=True).stdout.decode().split("\0")[:-1]
    assert words[:3] == ["job", "add", "nightly"]
    with add.make_context("add", words[2:]) as context:
        values = dict(context.params)
        assert values.pop("job_id") == "nightly"
        return fields_given({name: value for name, value in values.items() if name not in ("in_editor", "yes")})


@pytest.mark.parametrize("fields", JOBS, ids=lambda fields: next(iter(fields)))
def test_the_command_adds_the_same_job(fields: Mapping[str, Any]) -> None:
    """What a shell and the terminal make of it is the same definition, with each field that a job may have."""
    count = {"runs_remaining": fields["runs_remaining"]} if "runs_remaining" in fields else {}
    definition = definition_from({name: value for name, value in fields.items() if name not in count})
    command = add_command("nightly", {**fields_of(definition), **count})
    assert command is not None
    again = read(command)
    assert {name: again.pop(name) for name in count} == count
    assert definition_from(again) == definition


def test_each_field_is_tried() -> None:
    """Of the jobs above: a new field is to be said by the command too."""
    paths = {name for fields in JOBS for name in fields} - {"retry", "notifier"}
    for group in ("retry", "notifier"):
        paths |= {f"{group}.{name}" for fields in JOBS for name in fields.get(group) or ()}
    assert paths == set(FIELDS)


@settings(max_examples=examples(30), deadline=None)
@given(definitions())
def test_any_texts_come_back(definition: Definition) -> None:
    """Quotes, ends of lines and marks of the shell too."""
    retry = replace(definition.retry, delay=round(definition.retry.delay, 3), cap=None)
    rounded = replace(definition, late_after=round(definition.late_after, 3), grace=None, retry=retry)
    command = add_command("nightly", dict(fields_of(rounded)))
    assert command is not None
    assert definition_from(read(command)) == rounded


@pytest.mark.parametrize(
    "fields",
    [
        {"noop": True, "delay": 1e-10},
        {"noop": True, "labels": {}},
        {"noop": True, "env": {"a=b": "c"}},
        {"url": "http://a", "headers": {"a:b": "c"}},
        {"url": "http://a", "headers": {"a": " c"}},
        {"noop": True, "notifier": {}},
        {"noop": True, "later": 1},
        {"noop": True, "approval": False},
        {"command": "x" * LONGEST},
    ],
)
def test_what_options_can_not_say(fields: dict[str, object]) -> None:
    """Has no command, rather than a command that adds another job."""
    assert add_command("nightly", fields) is None


def test_an_option_stands_on_a_line() -> None:
    """So that people can read it; the program comes last."""
    fields = {"command": ("make", "all"), "schedule": "@daily", "time_zone": "UTC", "priority": -1}
    lines = ["tokimori job add nightly", "--schedule @daily", "--timezone UTC", "--priority=-1", "-- make all"]
    assert add_command("nightly", fields) == " \\\n  ".join(lines)
