"""Tables as terminals, files and programs get them."""

import io
from collections.abc import Sequence

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from tests.unit.examples import NEW_YEAR, seconds
from tokimori.cli.table import At, Id, State, distance, drawn, fit, lasted, print_table, shortest
from tokimori.clock import Moment

NOW = NEW_YEAR
RUNS = ("ID", "JOB", "STATE", "BY", "NOMINAL", "DUE", "STARTED", "ENDED", "EXIT", "REASON")
SPARE = ("NOMINAL", "BY", "ENDED", "EXIT", "DUE", "STARTED")
AWKWARD = [
    (
        Id("0197a1b2-c3d4-7000-8000-000000000001"),
        "j" * 255,
        State("succeeded"),
        "schedule",
        At(seconds(-90), "UTC"),
        At(seconds(-90), "UTC"),
        At(seconds(-89), "UTC"),
        At(seconds(-1), "UTC"),
        0,
        None,
    ),
    (
        Id("0197a1b2-c3d4-7000-8000-000000000002"),
        "日本語のジョブ",
        State("failed"),
        "request",
        At(seconds(86_400 * 3 + 3_600), "Asia/Tokyo"),
        At(None, "UTC"),
        At(None, "UTC"),
        At(None, "UTC"),
        None,
        "ten\nlines\n" * 5 + "\x1b[2J",
    ),
]
AT_80 = """\
ID                                    JOB           STATE        REASON
0197a1b2-c3d4-7000-8000-000000000001  jjjjjjjjjjj…  ✓ succeeded  -
0197a1b2-c3d4-7000-8000-000000000002  日本語のジ …  ✗ failed     ten\\nlines\\n…
BY, NOMINAL, DUE, STARTED, ENDED, EXIT and whole texts: --output wide
"""


def printed(width: int, rows: Sequence[Sequence[object]] = AWKWARD) -> str:
    """What a terminal of that width shows, without colours."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    drawn(console, RUNS, rows, SPARE, NOW)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def test_awkward_rows_fit_into_80_columns() -> None:
    """Each row has one line; what there is no room for is named, with the option that shows it."""
    assert printed(80) == AT_80


@pytest.mark.parametrize("width", [80, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    """Whatever the cells hold, a row is one line."""
    lines = printed(width).splitlines()
    assert len(lines) <= 4
    assert max(map(cell_len, lines)) <= width


@given(
    st.dictionaries(st.text(min_size=1, max_size=3), st.integers(1, 300), min_size=1, max_size=12), st.integers(40, 200)
)
def test_what_is_fitted_fits(widths: dict[str, int], room: int) -> None:
    """No column becomes wider or vanishes, and together they have room."""
    fitted = fit(widths, (), room)
    assert list(fitted) == list(widths)
    assert all(1 <= fitted[name] <= width for name, width in widths.items())
    assert sum(fitted.values()) + 2 * len(fitted) <= room


def test_ids_are_as_long_as_tells_them_apart() -> None:
    """And have their millisecond, so that ids of one second differ in what is shown."""
    assert shortest([]) == 13
    assert shortest(["0197a1b2-c3d4-7000", "0197a1b2-c3d5-7000"]) == 13
    assert shortest(["0197a1b2-c3d4-7000", "0197a1b2-c3d4-7010", "0197a1b2-c3d4-7000"]) == 17


def test_distances_have_two_units() -> None:
    """Before and after now; far ones are told by days alone."""
    told = {
        0: "now",
        -5: "5s ago",
        200: "in 3m 20s",
        -7200: "2h ago",
        90_061: "in 1d 1h",
        200 * 86_400 + 3600: "in 200d",
    }
    assert {length: distance(Moment(NOW + length * 1_000_000), NOW) for length in told} == told


def test_lengths_are_told_as_people_write_them() -> None:
    """The two largest units; what a command line takes back, but for the blank between them."""
    told = {0: "0ms", 120_000: "120ms", 1_000_000: "1s", 5_400_000_000: "1h 30m", 86_400_000_000 * 200 + 1: "200d"}
    assert {length: lasted(length) for length in told} == told


def test_ids_are_those_of_the_rows(capsys: pytest.CaptureFixture[str]) -> None:
    """Wherever their column stands, and each once; without one, the first column tells rows apart."""
    with click.Context(click.Command("list")) as context:
        context.meta["output"] = "ids"
        print_table(("AT", "ID"), [("now", "a"), ("then", "b"), ("then", "b")])
        print_table(("DAY", "COUNT"), [("monday", 3)])
    assert capsys.readouterr().out == "a\nb\nmonday\n"


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("table", "ID       STATE\nlong-id  -\nx        failed\n"),
        ("wide", "ID       STATE\nlong-id  -\nx        failed\n"),
        ("csv", "ID,STATE\nlong-id,-\nx,failed\n"),
        ("ids", "long-id\nx\n"),
    ],
)
def test_programs_get_whole_texts(output: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Off a terminal columns stand below each other, without trailing spaces and cut nowhere."""
    with click.Context(click.Command("list")) as context:
        context.meta["output"] = output
        print_table(("ID", "STATE"), [("long-id", None), ("x", State("failed"))])
    assert capsys.readouterr().out == expected
