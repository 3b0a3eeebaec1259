"""`tokimori schedule explain` and `tokimori job next`, as people and scripts use them."""

import pytest

from tests.integration.cli.conftest import Program
from tokimori.client.client import open as open_client
from tokimori.clock import parse_moment

AFTER = "2026-11-21T00:00:00Z"

SAID = """\
At 02:30, every day. (Europe/Paris)
  Sat 2026-11-21 02:30:00+01:00 CET
  Sun 2026-11-22 02:30:00+01:00 CET
warning: 02:30 does not exist on 2027-03-28; nothing runs then
warning: 02:30 comes twice on 2027-10-31; runs both times
"""


def test_explain_says_it_in_english(program: Program) -> None:
    """A sentence, moments with offset and name of the zone's clock, and warnings; no store is made."""
    rules = ("--timezone", "Europe/Paris", "--gap", "skip", "--fold", "both")
    assert program("schedule", "explain", "30 2 * * *", "-n", "2", "--after", AFTER, *rules) == SAID
    assert not program.database.exists()


def test_every_door_explains_alike(program: Program) -> None:
    """The command line and the client give the same; the moments are those of `job next`."""
    text, zone = "*/7 9 13 * 5; every 2 days", "Asia/Tokyo"
    shown = program.json("schedule", "explain", text, "--timezone", zone, "-n", "3", "--after", AFTER)
    with open_client("memory:") as client:
        asked = client.schedules.explain(text, zone, 3, parse_moment(AFTER))
    assert (shown["sentence"], tuple(shown["warnings"])) == (asked.sentence, asked.warnings)
    assert [each["local"] for each in shown["moments"]] == [each.local for each in asked.moments]
    following = program.json("job", "next", text, "--timezone", zone, "-n", "3", "--after", AFTER)
    assert [each["time"] for each in following] == [each["time"] for each in shown["moments"]]


@pytest.mark.parametrize(
    ("arguments", "field", "code"),
    [
        (("61 * * * *",), "minute", "invalid_schedule"),
        (("whenever",), "schedule", "invalid_schedule"),
        (("@daily", "--timezone", "Mars"), "time_zone", "invalid_input"),
        (("@daily", "--gap", "jump"), "gap", "invalid_input"),
        (("@daily", "-n", "0"), "count", "invalid_input"),
    ],
)
def test_explain_refuses_what_a_job_would_refuse(
    program: Program, arguments: tuple[str, ...], field: str, code: str
) -> None:
    """With the same errors, and exit code 2."""
    error = program.error("schedule", "explain", *arguments)
    assert (error["field"], error["code"]) == (field, code)


def test_next_takes_a_job_or_a_schedule(program: Program) -> None:
    """An id that a job has means the job, also one that reads as a schedule; a zone says where moments are shown."""
    after = ("--after", AFTER, "-n", "1")
    assert program("job", "next", "0 9 * * mon", *after) == "2026-11-23 09:00:00+00:00\n"
    assert program("job", "next", "@daily", *after) == "2026-11-22 00:00:00+00:00\n"
    program("job", "add", "@daily", "--schedule", "0 12 * * *", "--timezone", "Asia/Tokyo", "--noop")
    assert program("job", "next", "@daily", *after) == "2026-11-21 12:00:00+09:00\n"
    assert program("job", "next", "@daily", *after, "--timezone", "UTC") == "2026-11-21 03:00:00+00:00\n"
    assert program("job", "next", "--schedule", "@daily", *after) == "2026-11-22 00:00:00+00:00\n"


def test_next_of_what_no_clock_knows_says_so(program: Program) -> None:
    """Where no moment is known in advance, nothing is printed, and a notice says where to read why."""
    for text in ("@reboot", "at 2001-01-01T00:00:00Z"):
        ended = program.run("job", "next", text)
        assert (ended.returncode, ended.stdout) == (0, "")
        assert "explain" in ended.stderr


def test_next_of_neither_is_refused(program: Program) -> None:
    """What could be an id is not found; what could not is no schedule."""
    program("db", "migrate")
    assert program.error("job", "next", "nightly", code=3)["code"] == "not_found"
    assert program.error("job", "next", "0 9 * mon")["code"] == "invalid_schedule"
    assert program.error("job", "next", "@daily", "--timezone", "Mars")["field"] == "time_zone"


def test_a_job_is_explained(program: Program) -> None:
    """As a text is, but from the job's own anchor; and what keeps its runs from starting is said."""
    program("job", "add", "ping", "--schedule", "every 10 minutes", "--timezone", "Asia/Tokyo", "--command", "true")
    lines = program("job", "explain", "ping", "-n", "2").splitlines()
    assert lines[0] == "Every 10 minutes, counted from when the job is added. (Asia/Tokyo)"
    assert (len(lines), lines[1][-9:]) == (4, "09:00 JST")
    assert "tokimori serve" in lines[3]
    assert (
        program.json("job", "explain", "ping")["moments"][0]["time"] == program.json("job", "next", "ping")[0]["time"]
    )
    assert program.error("job", "explain", "none", code=3)["code"] == "not_found"
