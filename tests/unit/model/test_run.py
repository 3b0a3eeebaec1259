"""The names of what a run came from."""

import pytest

from tests.unit.examples import NEW_YEAR, seconds
from tokimori.model.run import NO_DETAILS, Details, decode_details, encode_details, manual_origin, scheduled_origin


def test_origins_tell_where_a_run_came_from() -> None:
    """Occurrences are named by their nominal moment, requests by their key; the two never meet."""
    assert scheduled_origin(NEW_YEAR) == "s:2030-01-01T00:00:00Z"
    assert manual_origin("s:2030-01-01T00:00:00Z") == "m:s:2030-01-01T00:00:00Z"


def test_every_occurrence_has_its_own_origin() -> None:
    """Two occurrences a microsecond apart do not share an origin."""
    assert scheduled_origin(seconds(0.000001)) == "s:2030-01-01T00:00:00.000001Z"


def test_details_are_one_text() -> None:
    """Facts come back as they were, and no facts are no text; what a newer program adds stays with them."""
    known = Details(tzdata="2029z")
    assert decode_details(encode_details(known)) == known
    assert encode_details(NO_DETAILS) is None
    assert decode_details(None) == NO_DETAILS
    more = '{"tzdata":"2029z","unheard_of":[1]}'
    assert decode_details(more) == Details(tzdata="2029z", as_stored=more)
    assert encode_details(decode_details(more)) == more


@pytest.mark.parametrize("text", ['{"tzdata":5}', "[]", "{", "", "null", "7"])
def test_details_that_cannot_be_read_are_kept(text: str) -> None:
    """A text that is none of ours hinders nobody, and goes on as it is."""
    assert decode_details(text) == Details(as_stored=text)
    assert encode_details(decode_details(text)) == text
