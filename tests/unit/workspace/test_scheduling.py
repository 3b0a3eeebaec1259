"""A file says the schedule in a process of its own: whatever it does, an error of ours says so, with the line."""

import sys
from pathlib import Path

import pytest

from tokimori.errors import InvalidFile
from tokimori.workspace.evaluate import main
from tokimori.workspace.freezing import terms_of
from tokimori.workspace.source import read_source

FUNCTION = "def function(): ...\n"
ENVIRON = {"PATH": "/usr/bin:/bin"}


def write(folder: Path, schedule: str, env: str = "") -> Path:
    place = folder / "t"
    place.mkdir()
    (place / "function.py").write_text(FUNCTION)
    (place / "schedule.py").write_text(schedule)
    (place / ".env").write_text(env)
    return folder


def answer(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the file says, as it is written for who has asked."""
    file = folder / "schedule.py"
    file.write_text(text)
    monkeypatch.setattr(sys, "path", [*sys.path])
    main(str(file), str(folder / "answer"))
    return (folder / "answer").read_text()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("from tokimori import every\ndef schedule(): return every(10).seconds", '{"schedule": "every 10 seconds"}'),
        ("from tokimori import on\nschedule = on().friday.at('10:00PM')", '{"schedule": "on friday at 10:00PM"}'),
        ("def schedule(): return '0 3 * * *'", '{"schedule": "0 3 * * *"}'),
        ("", '{"schedule": null}'),
    ],
)
def test_a_file_says_a_schedule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str) -> None:
    """By a function or a text; a file that says none runs on demand."""
    assert answer(tmp_path, text, monkeypatch) == said


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("def schedule():\n    raise ValueError('no idea')", '"ValueError: no idea", "line": 2'),
        ("def schedule(:", '"line": 1'),
        ("import nothing_of_this_name", '"line": 1'),
        (
            "from tokimori import every\ndef schedule(): return every(0).seconds",
            '"0 is not above zero", "line": 2, "allowed": "1 or more"',
        ),
        (
            "from tokimori import every\ndef schedule(): return every(10)",
            "TypeError: the schedule is Every and no text",
        ),
        ("async def schedule(): return 'every 10 seconds'", "schedule() is async: write `def schedule():`"),
        ("def schedule(): raise SystemExit(3)", '"SystemExit: 3", "line": 1'),
    ],
)
def test_a_file_that_says_none_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, fault: str) -> None:
    """With the line, if the fault is in the file."""
    assert fault in answer(tmp_path, text, monkeypatch)


def test_the_process_has_the_variables_of_the_task(tmp_path: Path) -> None:
    """And what its file prints is no answer; modules beside it can be imported."""
    text = "import os, words\nprint('scheduling')\ndef schedule(): return words.every + os.environ['N'] + ' seconds'"
    write(tmp_path, text, "N=7\n")
    (tmp_path / "t" / "words.py").write_text("every = 'every '\n")
    assert terms_of(read_source(tmp_path, "t"), ENVIRON).schedule == "every 7 seconds"


@pytest.mark.parametrize(
    ("text", "longest", "match"),
    [
        ("raise ValueError('no idea')", 60, r"schedule\.py line 1: ValueError: no idea\. Allowed: def schedule"),
        ("import os; os._exit(3)", 60, r"it ended its process \(3\) without a schedule"),
        ("while True: pass", 0.3, r"it has not answered within 0\.3 s"),
    ],
)
def test_a_fault_is_told_with_its_file(tmp_path: Path, text: str, longest: float, match: str) -> None:
    """A file that never answers is ended."""
    write(tmp_path, text)
    with pytest.raises(InvalidFile, match=match) as refused:
        terms_of(read_source(tmp_path, "t"), ENVIRON, longest)
    assert refused.value.field == "schedule"


def test_a_file_alone_says_its_schedule_in_its_comment(tmp_path: Path) -> None:
    """No process is needed for that."""
    (tmp_path / "t.sh").write_text("# /// script\n# [tool.tokimori]\n# schedule = 'every 5 minutes'\n# ///\n")
    assert terms_of(read_source(tmp_path, "t"), {}).schedule == "every 5 minutes"


def test_code_says_other_terms_of_its_job(tmp_path: Path) -> None:
    """By methods of the schedule, and in the comment of the function; the schedule's count where both do."""
    write(tmp_path, "from tokimori import every\ndef schedule(): return every(10).seconds.retry(3).terms(timeout=60)")
    said = "# /// script\n# [tool.tokimori]\n# queue = 'q'\n# timeout = 7\n# ///\n"
    (tmp_path / "t" / "function.py").write_text(said + FUNCTION)
    terms = terms_of(read_source(tmp_path, "t"), ENVIRON)
    assert terms == ("every 10 seconds", {"queue": "q", "timeout": 60, "retry": {"attempts": 3}})


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("def schedule(): pass", r"schedule\.py: TypeError: schedule\(\) returns None"),
        ("from tokimori import every\n\nschedule = every().day.terms(timeout=-1)", r"schedule\.py line 3: timeout"),
        ("from tokimori import every\n\nschedule = every().day.terms(tmeout=1)", r"schedule\.py line 3: tmeout"),
        (
            "from tokimori import every\n\nschedule = every().day.terms(command='x')",
            "line 3: 'command' is said",
        ),
        ("from tokimori import every\nschedule = every().day.retry(0)", r"schedule\.py line 2: retry\.attempts"),
    ],
)
def test_terms_that_are_none_are_refused(tmp_path: Path, text: str, match: str) -> None:
    """With the file and the line; a function that forgets to return its schedule, too."""
    write(tmp_path, text)
    with pytest.raises(InvalidFile, match=match):
        terms_of(read_source(tmp_path, "t"), ENVIRON)
