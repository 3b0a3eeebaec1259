"""What a person is told who starts a node with an app that can't be loaded."""

import sys
from pathlib import Path

import pytest

from tokimori.apps.loading import ALLOWED, load_app, why_not_loaded

TWO_JOBS = """import tokimori
app = tokimori.App("twice")
@app.job(id="a")
def one() -> None: ...
@app.job(id="a")
def two() -> None: ...
"""


@pytest.fixture(autouse=True)
def _no_path_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])


def told(said: str) -> list[str]:
    """The lines about this app, and below them what is allowed."""
    try:
        load_app(said)
    except BaseException as fault:  # whatever it raises, without the frame of this test
        found = fault.with_traceback(fault.__traceback__ and fault.__traceback__.tb_next)
    message, allowed = why_not_loaded(said, found)
    return [*message.splitlines(), *([] if allowed is None else [allowed])]


def unmuted_events(file: Path, source: str) -> list[str]:
    """What is told of an app in this file."""
    file.write_text(source)
    return [line.replace(str(file), "FILE") for line in told(f"{file}:app")]


@pytest.mark.parametrize(
    ("source", "first", "mends"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'", "Install 'no_such_module' "),
        ("nonsense(", "SyntaxError: '(' was never closed", "Correct line 1 of FILE."),
        ("\n1 / 0", "ZeroDivisionError: division by zero", "Correct line 2 of FILE."),
        ("raise SystemExit(3)", "SystemExit: 3", 'Put what ends the program under `if __name__ == "__main__":`'),
        (TWO_JOBS, "id: the app 'twice' has two jobs 'a'", "Correct line 5 of FILE."),
    ],
)
def test_what_happened_and_what_mends_it_come_first(tmp_path: Path, source: str, first: str, mends: str) -> None:
    """Then come the lines of the user's own code alone: neither ours nor Python's own frames."""
    lines = unmuted_events(tmp_path / "mine.py", source)
    assert lines[0] == f"app: 'FILE:app' can't be loaded: {first}"
    assert lines[1].startswith(mends)
    assert all("FILE" in line for line in lines[2:] if line.startswith('  File "'))
    assert len(lines) <= 6


def test_a_thing_that_is_no_app_has_no_frames(tmp_path: Path) -> None:
    """What is allowed is said instead."""
    first, *rest = unmuted_events(tmp_path / "mine.py", "app = 1")
    assert first == "app: 'FILE:app' can't be loaded: 'FILE:app' is not an app: it is a int"
    assert rest == [ALLOWED]


def test_a_module_that_is_not_there_is_looked_for() -> None:
    """The folder that was looked at is named, and the option that adds others."""
    _, mends = told("no_such_module:app")
    assert f"the folder where 'no_such_module' lies ({Path.cwd()} has none)" in mends
    assert "`-I FOLDER`" in mends
