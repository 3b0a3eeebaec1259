"""`tokimori calendar …`, as people and scripts use it."""

from pathlib import Path

import pytest

from tests.integration.cli.conftest import Program
from tokimori.client.client import open as open_client

AFTER = "2026-12-23T12:00:00Z"


def test_a_calendar_from_the_command_line(program: Program, tmp_path: Path) -> None:
    """Dates typed and from a file; jobs, previews and explanations keep off them; the client sees the same."""
    file = tmp_path / "holidays.txt"
    file.write_text("# Christmas\n12-25\n\n12-26  # Boxing Day\n")
    program(
        "calendar", "add", "en", "--weekday", "sat", "--weekday", "sun", "--file", str(file), "--date", "2027-01-01"
    )
    job = ("job", "add", "report", "--noop", "--schedule", "0 9 * * *", "--timezone", "UTC")
    program(*job, "--calendar", "en", "--shift", "next")
    moments = [each["time"] for each in program.json("job", "next", "report", "-n", "3", "--after", AFTER)]
    assert moments == [f"2026-12-{day}T09:00:00Z" for day in (24, 28, 29)]
    explain = (
        "schedule",
        "explain",
        "0 9 * * *",
        "--timezone",
        "UTC",
        "--calendar",
        "en",
        "--shift",
        "next",
        "-n",
        "3",
    )
    assert [each["time"] for each in program.json(*explain, "--after", AFTER)["moments"]] == moments
    shown = program("job", "show", "report")
    assert "calendars:" in shown
    assert "shift:" in shown
    program("calendar", "update", "en", "--date", "2026-12-24")
    assert program.json("job", "next", "report", "-n", "1", "--after", AFTER)[0]["time"] == "2026-12-25T09:00:00Z"
    assert program.json("calendar", "show", "en") == {
        "name": "en",
        "description": None,
        "dates": ["2026-12-24"],
        "weekdays": ["sat", "sun"],
        "jobs": ["report"],
    }
    assert program("calendar", "list").splitlines()[1].split() == ["en", "sat", "sun", "1", "-"]
    with open_client(f"sqlite://{program.database}") as client:
        assert client.calendars.get("en").dates == ("2026-12-24",)
        assert [each.name for each in client.calendars.list()] == ["en"]
        client.calendars.add("none")
        client.calendars.update("none", dates=["12-25"])
        client.calendars.delete("none")


@pytest.mark.parametrize(
    ("arguments", "code", "field"),
    [
        (("calendar", "add", "x", "--date", "2026-02-30"), 2, "dates"),
        (("calendar", "add", "x", "--weekday", "someday"), 2, "weekdays"),
        (("calendar", "add", "x", "--file", "/nowhere/dates"), 2, "file"),
        (("calendar", "add", "en"), 2, "calendar"),
        (("calendar", "update", "en"), 2, None),
        (("calendar", "show", "x"), 3, "calendar"),
        (("calendar", "delete", "x"), 3, "calendar"),
        (("job", "add", "x", "--noop", "--schedule", "@daily", "--calendar", "x"), 2, "calendars"),
        (("job", "add", "x", "--noop", "--schedule", "@daily", "--shift", "next"), 2, "shift"),
    ],
)
def test_mistakes_have_their_exit_codes(program: Program, arguments: tuple[str, ...], code: int, field: str) -> None:
    """And say which field is meant."""
    program("calendar", "add", "en")
    assert program.error(*arguments, code=code).get("field") == field
