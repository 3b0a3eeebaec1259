"""What the program prints."""

import os
import socket
from pathlib import Path

import pytest

from tests.unit.examples import NEW_YEAR, seconds
from tokimori.cli.output import is_for_one_reader, local, print_fields


def test_moments_are_shown_on_the_clocks_of_a_zone() -> None:
    """With their offset; a fraction only where there is one."""
    assert local(NEW_YEAR, "Europe/Paris") == "2030-01-01 01:00:00+01:00"
    assert local(seconds(0.25), "UTC") == "2030-01-01 00:00:00.250+00:00"
    assert local(None, "UTC") == "-"


def test_no_job_writes_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Control characters are shown, not sent."""
    print_fields([("name", "a\x1b[2J\nb"), ("longer", "é")])
    assert capsys.readouterr().out == "name:   a\\x1b[2J\\nb\nlonger: é\n"


def test_what_goes_to_a_file_is_not_for_one_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal and a pipe are read by who started this, unless supervisord or a container is that one; no file is."""
    monkeypatch.delenv("SUPERVISOR_ENABLED", raising=False)
    monkeypatch.setattr(os, "getppid", lambda: 2)
    reading, writing = os.pipe()
    master, terminal = os.openpty()
    journal, other = socket.socketpair()
    file = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        for_one = [is_for_one_reader(each) for each in (writing, terminal, file, journal.fileno(), nothing, 9_999)]
        assert for_one == [True, True, False, False, False, False]
        monkeypatch.setenv("SUPERVISOR_ENABLED", "1")
        assert (is_for_one_reader(writing), is_for_one_reader(terminal)) == (False, True)
        monkeypatch.delenv("SUPERVISOR_ENABLED")
        monkeypatch.setattr(os, "getppid", lambda: 1)
        assert (is_for_one_reader(writing), is_for_one_reader(terminal)) == (False, True)
    finally:
        for each in (reading, writing, master, terminal, file, nothing):
            os.close(each)
        journal.close()
        other.close()
