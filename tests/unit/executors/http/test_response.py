"""What an answer means for the run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokimori.executors.http.request import Answer, Later, meaning_of, result_of
from tokimori.model.outcome import Failed, Succeeded

STATUSES = st.integers(100, 599)
EXPECTED = st.lists(st.integers(200, 599), max_size=4)


@given(STATUSES, EXPECTED, st.booleans())
def test_every_answer_means_one_thing(status: int, expect: list[int], may_say_later: bool) -> None:
    """What is expected (by default 2xx) succeeds, a 5xx may be tried again, all else is final; 202 may put it off."""
    meaning = meaning_of(Answer(status), expect, may_say_later=may_say_later, result="r")
    if status == 202 and may_say_later:
        assert meaning == Later()
    elif status in expect if expect else 200 <= status <= 299:
        assert meaning == Succeeded(None, "r")
    else:
        assert isinstance(meaning, Failed)
        assert meaning.final is (status < 500)
        assert str(status) in meaning.error


def test_a_redirect_says_where_it_leads() -> None:
    """It is not followed; whoever owns the job may put the new address into it."""
    meaning = meaning_of(Answer(301, "http://10.0.0.1/admin"), (), may_say_later=False)
    assert isinstance(meaning, Failed)
    assert "10.0.0.1/admin" in meaning.error and "not followed" in meaning.error
    long = meaning_of(Answer(302, "x" * 5_000), (), may_say_later=False)
    assert isinstance(long, Failed) and len(long.error) < 700


@pytest.mark.parametrize(
    ("body", "whole", "result"),
    [
        (b"", True, None),
        (b"\xc3\xa9", True, "é"),
        (b"\xff", True, None),
        (b"cut", False, None),
        (b"x" * 65_537, True, None),
    ],
)
def test_what_is_handed_on_is_short_text(body: bytes, whole: bool, result: str | None) -> None:
    """Children of the run get the body where it is text, whole and not too long."""
    assert result_of(body, whole=whole) == result
