"""What whole lists show, and in which order."""

import pytest

from tests.unit.cli.conftest import Called
from tokimori.cli.table import At, Listed, State, wanted
from tokimori.clock import Moment

COLUMNS = ("NAME", "STATE", "PAUSED SINCE", "JOBS")
LISTED: Listed[int] = [
    (1, [("b", State("alive"), At(Moment(20), "UTC"), 9), ("", "", "", "")]),
    (2, [("C", State("dead"), At(None, "UTC"), 10)]),
    (3, [("a", State("alive"), At(Moment(3), "UTC"), None), ("holder", "", "", "")]),
]


def order(text: str | None = None, sort: str | None = None, *, reverse: bool = False) -> list[int]:
    return [each for each, _ in wanted(COLUMNS, LISTED, text, sort, reverse=reverse)]


@pytest.mark.parametrize(
    ("sort", "there", "nothing"), [("name", [3, 1, 2], []), ("paused-since", [3, 1], [2]), ("jobs", [1, 2], [3])]
)
def test_rows_are_sorted_by_what_they_mean(sort: str, there: list[int], nothing: list[int]) -> None:
    """Moments and numbers by size, texts whatever their case; what has nothing is last, either way."""
    assert order(sort=sort) == there + nothing
    assert order(sort=sort, reverse=True) == there[::-1] + nothing
    assert order(sort="state") == [1, 3, 2]
    assert (order(), order(reverse=True)) == ([1, 2, 3], [3, 2, 1])


def test_a_text_is_looked_for_in_every_row() -> None:
    """In any cell, whatever its case; a thing is shown with all of its rows."""
    assert order("DEAD") == [2]
    assert order("hold") == [3]
    assert order("c") == [2]
    assert order("nobody") == []


def test_lists_are_searched_and_sorted(called: Called) -> None:
    """As a table, as JSON and as ids alike; a column that is none is refused with those that there are."""
    for name, limit in (("gpu", 4), ("db", 10), ("disk", 1)):
        called("lock", "set", name, "--limit", str(limit))
    assert called("lock", "list", "--sort", "limit", "-o", "ids").split() == ["disk", "gpu", "db"]
    assert [each["name"] for each in called.json("lock", "list", "--text", "D", "--sort", "name", "--reverse")] == [
        "disk",
        "db",
    ]
    called("lock", "list", "--sort", "colour", code=2)
    assert "limit" in called.told
    called("job", "add", "j", "--noop", "--queue", "night")
    called("queue", "pause", "late")
    assert called("queue", "list", "-o", "ids").split() == ["late", "night"]
    assert called("queue", "list", "--paused", "-o", "ids") == "late\n"
    for noun in ("calendar", "token", "secret", "task", "node"):
        assert called.json(noun, "list", "--text", "x", "--sort", "name" if noun != "node" else "host") == []
    assert called.json("node", "list", "--state", "alive") == []


def test_jobs_and_runs_are_searched_and_sorted(called: Called) -> None:
    """Jobs all of them, runs those that are listed; the command and the reason are looked at, too."""
    for job, command in (("b", "sleep 1"), ("a", "echo Hi"), ("c", "echo ho")):
        called("job", "add", job, "--", *command.split())
    assert called("job", "list", "-o", "ids", "--text", "ECHO", "--sort", "id", "--reverse").split() == ["c", "a"]
    assert [each["id"] for each in called.json("job", "list", "--sort", "command")] == ["a", "c", "b"]
    for job in ("b", "c", "a"):
        called("job", "trigger", job)
    assert [each["job_id"] for each in called.json("run", "list", "--sort", "job")] == ["a", "b", "c"]
    assert [each["job_id"] for each in called.json("run", "list", "-n", "2", "--sort", "job")] == ["a", "c"]
    assert [each["job_id"] for each in called.json("run", "list", "--text", "READY", "--reverse")] == ["b", "c", "a"]
    assert called.json("run", "list", "--text", "nothing of it") == []


def test_changes_are_searched(called: Called) -> None:
    """By when, by whom, what and of what; the newest first, no more than asked for."""
    for job in ("a", "b", "c"):
        called("job", "add", job, "--noop")
    called("job", "pause", "b")
    every = called.json("audit", "list")
    assert called.json("audit", "list", "--of", "JOB B") == [each for each in every if each["of"].endswith("b")]
    assert [each["what"] for each in called.json("audit", "list", "--what", every[0]["what"].upper())] == [
        every[0]["what"]
    ]
    assert called.json("audit", "list", "--since", "1h") == every
    assert called.json("audit", "list", "--until", "1h") == []
    assert called.json("audit", "list", "--until", every[1]["at"]) == every[2:]
    assert called.json("audit", "list", "--since", every[1]["at"]) == every[:2]
    assert called.json("audit", "list", "--who", every[0]["who"], "-n", "2") == every[:2]
    assert called.json("audit", "list", "--who", "nobody at all") == []
    called("audit", "list", "--since", "never", code=2)
    assert "since" in called.told
