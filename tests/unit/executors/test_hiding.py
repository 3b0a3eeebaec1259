"""What of a secret is hidden, and where."""

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokimori.executors.secrets import hidden_in, hidden_in_json, hidden_in_outcome, needles_of
from tokimori.model.outcome import Cancelled, Failed, Hold, Lost, Outcome, Released, Succeeded, TimedOut

VALUE = 'p/w "4+2"'
NEEDLES = needles_of([VALUE])
VALUES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=6, max_size=30)


@given(VALUES, st.binary(max_size=4), st.binary(max_size=4))
def test_base64_is_hidden_wherever_the_value_begins(value: str, before: bytes, after: bytes) -> None:
    """As in `Authorization: Basic`, where a user stands before the password; for addresses, too."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        shown = hidden_in(encode(before + value.encode() + after).decode(), needles_of([value]))
        assert "***" in shown
        assert len(shown.replace("***", "").rstrip("=")) <= 2 * len(before + after) + 4


@given(VALUES)
def test_the_forms_of_a_value_are_hidden(value: str) -> None:
    """As it is, in JSON of both kinds, and in an address."""
    forms = [value, json.dumps(value), json.dumps(value, ensure_ascii=False), quote(value, safe="")]
    for form in forms:
        assert hidden_in(form, needles_of([value])).strip('"') == "***"


def test_lines_of_a_value_are_hidden() -> None:
    """A key may be shown line by line, with a margin; short lines are too common."""
    needles = needles_of(["-----BEGIN-----\nabcdefgh\n  ijklmnop\n==\n"])
    assert hidden_in("> abcdefgh\n> ijklmnop\n> ==", needles) == "> ***\n> ***\n> =="


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"error": f"no {VALUE}!"}, {"error": "no ***!"}),
        ({"result": json.dumps({"a": VALUE})}, {"result": '{"a": "***"}'}),
        ({VALUE: [VALUE, 1, None]}, {"***": ["***", 1, None]}),
    ],
)
def test_json_stays_json(before: Any, after: Any) -> None:
    """What was said in JSON can be read when the value is hidden."""
    needles = needles_of([VALUE, json.dumps(VALUE)[1:-1]])
    assert json.loads(hidden_in_json(json.dumps(before).encode(), needles)) == after


def test_a_number_becomes_a_text() -> None:
    """Where a value is a number, or a part of one, beside the same as a text."""
    line = b'{"pin": 12345678, "same": "12345678", "more": 9123456780, "n": 1.50}'
    assert json.loads(hidden_in_json(line, needles_of(["12345678"]))) == {
        "pin": "***",
        "same": "***",
        "more": "***",
        "n": 1.5,
    }
    assert hidden_in_json(b"12345678 is no JSON", needles_of(["12345678"])) == b"*** is no JSON"
    assert hidden_in_json(b"[" * 300_000 + b"12345678", needles_of(["12345678"])) == b"[" * 300_000 + b"***"


@pytest.mark.parametrize("kind", [Failed, TimedOut, Hold, Released, Cancelled, Lost])
def test_no_outcome_shows_a_value(kind: type[Any]) -> None:
    """Neither an error nor a reason."""
    assert hidden_in_outcome(kind(f"it was {VALUE}"), NEEDLES) == kind("it was ***")


def test_no_result_shows_a_value() -> None:
    """A result is handed on to the children of the run; half a character of a name of a file is no fault."""
    shown: Outcome = hidden_in_outcome(Succeeded(0, f"\udcff{VALUE}"), NEEDLES)
    assert shown == Succeeded(0, "\udcff***")
    assert hidden_in_outcome(Succeeded(0), NEEDLES) == Succeeded(0)


def test_what_is_nested_deeply_is_hidden_as_any_text() -> None:
    """It is no report: what matters is that the value is in it no more."""
    line = b"[" * 900 + b"12345678" + b"]" * 900
    found = hidden_in_json(line, needles_of(["12345678"]))
    assert found.replace(b'"', b"") == b"[" * 900 + b"***" + b"]" * 900, "newer Pythons read deeper texts"
