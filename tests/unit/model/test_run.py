"""The names of what a run came from."""

from tests.unit.examples import NEW_YEAR, seconds
from tokimori.model.run import manual_origin, scheduled_origin


def test_origins_tell_where_a_run_came_from() -> None:
    """Occurrences are named by their nominal moment, requests by their key; the two never meet."""
    assert scheduled_origin(NEW_YEAR) == "s:2030-01-01T00:00:00Z"
    assert manual_origin("s:2030-01-01T00:00:00Z") == "m:s:2030-01-01T00:00:00Z"


def test_every_occurrence_has_its_own_origin() -> None:
    """Two occurrences a microsecond apart do not share an origin."""
    assert scheduled_origin(seconds(0.000001)) == "s:2030-01-01T00:00:00.000001Z"
