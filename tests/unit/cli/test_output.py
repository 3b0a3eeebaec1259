"""What the program prints."""

import pytest

from tests.unit.examples import NEW_YEAR, seconds
from tokimori.cli.output import local, print_fields


def test_moments_are_shown_on_the_clocks_of_a_zone() -> None:
    """With their offset; a fraction only where there is one."""
    assert local(NEW_YEAR, "Europe/Paris") == "2030-01-01 01:00:00+01:00"
    assert local(seconds(0.25), "UTC") == "2030-01-01 00:00:00.250+00:00"
    assert local(None, "UTC") == "-"


def test_no_job_writes_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Control characters are shown, not sent."""
    print_fields([("name", "a\x1b[2J\nb"), ("longer", "é")])
    assert capsys.readouterr().out == "name:   a\\x1b[2J\\nb\nlonger: é\n"
