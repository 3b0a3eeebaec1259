"""`tokimori alarms` and `ping`: what was reported, as it is read and shown."""

from io import BytesIO

import pytest

from tests.unit.examples import NEW_YEAR
from tokimori.cli.alarms import _MOST_LOG, _end_of, _row
from tokimori.model.expectation import Alarm, AlarmKind


@pytest.mark.parametrize(("log", "shown"), [(None, None), ("", None), ("\n", ""), ("12 GB\ndisk gone\n", "disk gone")])
def test_the_last_line_of_a_report_is_shown(log: str | None, shown: str | None) -> None:
    """A command that wrote nothing has reported an empty text: it has no last line, and the list of alarms stands."""
    alarm = Alarm(
        kind=AlarmKind.FAILED, name="backup", since=NEW_YEAR, expected_by=NEW_YEAR, within=60, of_job=False, log=log
    )
    assert _row(alarm, "UTC")[-1] == shown


def test_standard_input_is_read_to_its_end() -> None:
    """The end is told, and who writes a lot meets no closed pipe."""
    stream = BytesIO(b"a line\n" * 100_000 + b"disk gone")
    assert _end_of(stream).endswith("a line\ndisk gone")
    assert (stream.read(), len(_end_of(BytesIO(b"x" * 300_000)))) == (b"", _MOST_LOG)


def test_what_a_store_cannot_keep_hinders_no_report() -> None:
    """A NUL, and half of a character where the end begins, are shown as such: a failure is told in any case."""
    assert _end_of(BytesIO(b"tape \0 gone \xff")) == "tape \N{REPLACEMENT CHARACTER} gone \N{REPLACEMENT CHARACTER}"
    assert _end_of(BytesIO(b"")) == ""
