"""The options that say a job."""

import click
import pytest

from tokimori.cli.command import CommandWithArguments
from tokimori.cli.errors import run
from tokimori.cli.job_options import _NOTIFIER, fields_given, job_options
from tokimori.model.job_fields import OF_RETRY
from tokimori.model.notifier import Notifier
from tokimori.model.policies import Retry
from tokimori.service.definitions.definitions import JobFields, definition_from


def given(*line: str) -> dict[str, object]:
    """The fields that this line says."""
    seen: list[dict[str, object]] = []

    @click.command(cls=CommandWithArguments)
    @job_options
    def say(**values: object) -> None:
        seen.append(fields_given(values))

    code = run(say, list(line))
    return seen[0] if seen else {"exit code": code}


def test_every_field_has_an_option() -> None:
    """Nothing of a job, or of its retries, can only be said elsewhere."""

    @job_options
    def say() -> None: ...

    options: list[click.Option] = say.__click_params__  # type: ignore[attr-defined]
    names = {option.name for option in options}
    fields = set(JobFields.__struct_fields__) - {"retry", "notifier"} | set(OF_RETRY) | set(_NOTIFIER)
    assert names == fields
    assert set(OF_RETRY.values()) == set(Retry.__struct_fields__)
    assert set(_NOTIFIER) == set(Notifier.__struct_fields__)


def test_only_what_was_given_is_said() -> None:
    """So that an update leaves the rest alone."""
    assert given() == {}
    assert given("--timezone", "Asia/Tokyo", "--noop") == {"time_zone": "Asia/Tokyo", "noop": True}
    assert given("--attempts", "3", "--retry-delay", "1.5") == {"retry": {"attempts": 3, "delay": 1.5}}
    assert given("--delay", "9", "--jitter", "2", "--retry-jitter", "0.5") == {
        "delay": 9,
        "jitter": 2,
        "retry": {"jitter": 0.5},
    }
    assert given("--label", "a=b", "--env", "C==d", "--env", "E=") == {
        "labels": {"a": "b"},
        "env": {"C": "=d", "E": ""},
    }


def test_a_whole_line_says_a_definition() -> None:
    """As `definition_from` reads it."""
    fields = given("--schedule", "0 3 * * *", "--attempts", "2", "--late-after", "5", "--", "make", "-C", "x")
    definition = definition_from(fields)
    assert (definition.retry, definition.late_after) == (Retry(attempts=2), 5)
    assert fields["command"] == ("make", "-C", "x")


@pytest.mark.parametrize(
    "line",
    [
        ("--label", "a"),
        ("--env", "=b"),
        ("--command", "x", "--", "y"),
        ("--misfire", "never"),
        ("--priority", "high"),
    ],
)
def test_bad_options_are_refused(line: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """With exit code 2 and what is allowed or wrong."""
    assert given(*line) == {"exit code": 2}
    assert capsys.readouterr().err.startswith("error: ")


def test_whom_a_job_tells() -> None:
    """An event and a name, or a name for all but successes."""
    assert given("--notify", "failure=ops", "--notify", "failure=mail") == {"notify": {"failure": ["ops", "mail"]}}
    events = ("failure", "recovery", "overdue", "parked", "held")
    assert given("--notify", "ops") == {"notify": {event: ["ops"] for event in events}}
    assert given("--bundle", "1m", "--quiet", "22:00-07:00") == {"notifier": {"bundle": 60, "quiet": ("22:00-07:00",)}}
