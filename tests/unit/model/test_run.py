"""The names of what a run came from."""

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
    """Facts come back as they were, and no facts are no text; what a newer program adds is passed over."""
    known = Details(tzdata="2029z")
    assert decode_details(encode_details(known)) == known
    assert encode_details(NO_DETAILS) is None
    assert decode_details(None) == NO_DETAILS
    assert decode_details('{"tzdata":"2029z","unheard_of":[1]}') == known
