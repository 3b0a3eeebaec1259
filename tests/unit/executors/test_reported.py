"""What a command says of its own end."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import seconds
from tokimori.errors import InvalidInput
from tokimori.executors.reported import (
    MOST_LINE,
    MOST_TEXT,
    ReportedEnd,
    ReportFailed,
    ReportHold,
    ReportRetry,
    ReportSucceeded,
    line_of,
    outcome_from,
)
from tokimori.model.outcome import Failed, Hold, Outcome, RetryAt, RetryIn, Succeeded


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        (b'{"outcome": "succeeded"}', Succeeded(3)),
        (b'{"outcome": "succeeded", "result": "42"}\n', Succeeded(3, "42")),
        (b'{"outcome": "failed", "error": "no luck"}', Failed("no luck", 3)),
        (b'{"outcome": "retry", "at": "2030-01-01T00:00:05Z"}', RetryAt(seconds(5))),
        (b'{"outcome": "retry", "in": 1.5}', RetryIn(1.5)),
        (b'{"outcome": "retry", "in": 0}', RetryIn(0)),
        (b'{"outcome": "hold", "reason": "look"}', Hold("look")),
    ],
)
def test_every_report(line: bytes, outcome: Outcome) -> None:
    """Each word is one outcome, with the exit code where the outcome has one."""
    assert outcome_from(line, 3) == outcome


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"", "truncated"),
        (b"succeeded", "malformed"),
        (b'{"outcome": "succeeded"}\n{"outcome": "succeeded"}', "malformed"),
        (b'{"outcome": "great"}', "great"),
        (b'{"result": "42"}', "outcome"),
        (b'{"outcome": "succeeded", "result": 42}', "result"),
        (b'{"outcome": "succeeded", "more": 1}', "more"),
        (b'{"outcome": "succeeded", "result": "a\\u0000"}', "result"),
        (b'{"outcome": "failed"}', "error"),
        (b'{"outcome": "retry"}', "at"),
        (b'{"outcome": "retry", "in": 1, "at": "2030-01-01T00:00:05Z"}', "one of|either"),
        (b'{"outcome": "retry", "in": -1}', "in"),
        (b'{"outcome": "retry", "in": 1e300}', "in"),
        (b'{"outcome": "retry", "at": "tomorrow"}', "tomorrow"),
        (b'{"outcome": "hold", "reason": "\xff"}', "utf-8|UTF-8"),
        (b'{"outcome": "succeeded", "result": "' + b"x" * (MOST_TEXT + 1) + b'"}', "result|length"),
        (b'{"more": ' + b"[" * 300_000, "nested"),
        (b'{"outcome": "' + b"x" * 300_000 + b'"}', "x…"),
        (b'{"outcome": "succeeded", "\\u0000\\u001b": 1}', r"x00.x1b"),
        (b" " * MOST_LINE + b'{"outcome": "succeeded"}', "longer"),
    ],
)
def test_what_can_not_be_understood_is_a_failure(line: bytes, why: str) -> None:
    """A malformed report fails the attempt, and the error says what is wrong with it."""
    outcome = outcome_from(line, 0)
    assert isinstance(outcome, Failed)
    assert outcome.exit_code == 0
    with pytest.raises(AssertionError, match=why):
        raise AssertionError(outcome.error)
    assert outcome.error.startswith("what it reported can't be understood: ")


@pytest.mark.parametrize(
    "reported",
    [
        ReportSucceeded("é" * MOST_TEXT),
        ReportFailed("a\0b"),
        ReportRetry(),
        ReportRetry(at="2030-01-01T00:00:05Z", seconds=1),
        ReportRetry(at="soon"),
        ReportRetry(seconds=-1),
        ReportHold("\ud800"),
    ],
)
def test_nothing_is_written_that_would_not_be_understood(reported: ReportedEnd) -> None:
    """Bad input is refused where it is given, not at the end of the attempt."""
    with pytest.raises(InvalidInput):
        line_of(reported)


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=200))
def test_what_is_written_is_understood(text: str) -> None:
    """Every text comes back as it was given, on one line."""
    assert outcome_from(line_of(ReportSucceeded(text)), 0) == Succeeded(0, text)
    assert outcome_from(line_of(ReportHold(text)), 0) == Hold(text)
    assert line_of(ReportFailed(text)).count(b"\n") == 1


def test_the_largest_result_fits() -> None:
    """A result at the bound is understood however JSON has to write it."""
    text = "\x01" * MOST_TEXT
    assert outcome_from(line_of(ReportSucceeded(text)), 0) == Succeeded(0, text)
    assert msgspec.json.decode(line_of(ReportSucceeded(text)))["result"] == text
