"""A program's app is imported in a process of its own, which may do what it likes."""

import json
import sys
from pathlib import Path

import pytest

from tokimori.errors import InvalidFile
from tokimori.formats import celery
from tokimori.formats.celery import _conf_of

SCHEDULE = "BEAT = {'a': {'task': 'x.y', 'schedule': 60}}\n"


@pytest.mark.parametrize(
    "program",
    [
        "print('said at its start')",
        "import atexit; atexit.register(print, 'said at its end')",
        "import threading, time; threading.Thread(target=time.sleep, args=[600]).start()",
        "import sys; sys.stdin.read()",
    ],
)
def test_what_a_program_does_beside_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Its last line on standard output was taken for the schedule, and a thread that does not end for a failure."""
    (tmp_path / "shop.py").write_text(f"{SCHEDULE}{program}\n")
    monkeypatch.chdir(tmp_path)
    assert json.loads(_conf_of("shop:BEAT", sys.executable))["beat_schedule"]["a"]["schedule"] == 60


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("import sys; sys.exit()", "could not import it: it ended without a word"),
        ("for _ in range(9): print('x' * 70_000)\nraise ValueError('no')", "could not import it: ValueError: no"),
        ("import time; time.sleep(60)", r"has not imported it after 0\.3 s"),
    ],
)
def test_a_program_that_gives_no_schedule_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, why: str
) -> None:
    """In words, within a bound of time, and of what is read of it."""
    (tmp_path / "shop.py").write_text(f"{program}\n")
    monkeypatch.chdir(tmp_path)
    if "sleep" in program:
        monkeypatch.setattr(celery, "_LONGEST", 0.3)
    with pytest.raises(InvalidFile, match=why):
        _conf_of("shop:BEAT", sys.executable)
