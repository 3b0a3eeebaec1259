"""How fast a node gets through runs, as far as it has seen."""

import pytest

from tokimori.engine.pace import LINGER, LONGEST_LINGER, Pace


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


@pytest.mark.parametrize(
    ("rate", "seconds"),
    [(0.0, 0.0), (79.0, 0.0), (80.0, LONGEST_LINGER), (160.0, LONGEST_LINGER), (200.0, 0.04), (1000.0, LINGER)],
)
def test_ends_that_come_more_slowly_are_waited_for_longer(rate: float, seconds: float) -> None:
    """Until eight have come, for 25 ms at least, 50 ms at most; and not at all where there are not two in 25 ms."""
    pace = Pace(4)
    pace.rate = rate
    assert pace.linger() == pytest.approx(seconds)


@pytest.mark.parametrize(("rate", "ahead"), [(0.0, 0), (79.0, 7), (80.0, 16), (160.0, 32), (200.0, 32), (1000.0, 100)])
def test_a_node_that_lingers_for_longer_claims_further_ahead(rate: float, ahead: int) -> None:
    """As much as starts in four lingers, and 100 ms of work at least."""
    pace = Pace(4)
    pace.rate = rate
    assert pace.ahead() == ahead
