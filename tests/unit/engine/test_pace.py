"""How fast a node gets through runs, as far as it has seen."""

import pytest

from tokimori.engine.pace import Pace


def test_a_rise_of_the_pace_is_believed_where_every_place_was_used() -> None:
    """Runs that end as fast as they are claimed let the next claim be as large; then one slow round changes little."""
    pace = Pace(4)
    pace.note(4, at=0.01)
    assert pace.rate == pytest.approx(400)
    pace.note(4, at=1.01)
    assert pace.rate == pytest.approx(400 + 0.3 * (4 - 400))


def test_a_few_ends_at_a_time_make_no_pace() -> None:
    """Long runs of which some happen to end together are smoothed; a round in which none ended takes its time."""
    pace = Pace(4)
    pace.note(1, at=1.0)
    assert pace.rate == pytest.approx(0.3)
    pace.note(0, at=2.0)
    pace.note(3, at=3.0)
    assert pace.rate == pytest.approx(0.3 + 0.3 * (1.5 - 0.3))


def test_idle_time_is_no_part_of_the_pace() -> None:
    """What a node does after a rest is measured from the end of the rest; all places at once after 10 s is slow."""
    pace = Pace(4)
    pace.begin(100.0)
    pace.note(4, at=110.0)
    assert pace.rate == pytest.approx(0.4)
    pace.begin(200.0)
    pace.note(4, at=200.01)
    assert pace.rate == pytest.approx(400)
