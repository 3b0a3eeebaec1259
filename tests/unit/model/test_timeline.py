"""What time is it?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import NEW_YEAR, seconds
from tokimori.clock import SECOND
from tokimori.model.lease import AGREEING_TICKS, SURE, Timeline, follow


def test_time_goes_on_by_the_monotonic_clock() -> None:
    """Between ticks the store's time is carried on by the node's own monotonic clock."""
    assert Timeline(NEW_YEAR, 100.0).now(107.25) == seconds(7.25)


@pytest.mark.parametrize(("off", "trusted"), [(0, True), (5, True), (-5, True), (5.000001, False), (-5.000001, False)])
def test_over_five_seconds_are_a_disagreement(off: float, trusted: bool) -> None:
    """A store's clock that is over 5 s off what was expected is not trusted; within them it is just followed."""
    timeline = follow(Timeline(NEW_YEAR, 100.0), seconds(10 + off), 110.0, 110.0)
    assert timeline.trusted is trusted
    assert timeline.now(111.0) == seconds(11 + off)


@pytest.mark.parametrize("jump", [3600, -3600])
def test_three_ticks_in_a_row_have_to_agree(jump: float) -> None:
    """After a jump in either direction three ticks must agree before the time is trusted again."""
    timeline = follow(Timeline(NEW_YEAR, 0.0), seconds(jump), 0.0, 0.0)
    trusted = []
    for tick in range(1, 5):
        timeline = follow(timeline, seconds(jump + tick), float(tick), float(tick))
        trusted.append(timeline.trusted)
    assert trusted == [False, False, True, True]


def test_a_second_jump_starts_the_count_again() -> None:
    """Two agreeing ticks, a jump and two more are not three in a row."""
    timeline = Timeline(NEW_YEAR, 0.0)
    for monotonic, store in [(0, 3600), (1, 3601), (2, 3602), (3, 3), (4, 4), (5, 5)]:
        timeline = follow(timeline, seconds(store), float(monotonic), float(monotonic))
    assert not timeline.trusted
    assert follow(timeline, seconds(6), 6.0, 6.0).trusted


def test_a_leap_may_have_put_the_clock_ahead_for_an_hour() -> None:
    """The sum of leaps while the node watches, without one that it began with; one back takes it away again."""
    timeline, ahead = Timeline(NEW_YEAR, 0.0), []
    for monotonic, store in [(0, 3600), (1, 3601), (2, 7202), (3, 9203), (4, 7204), (5, 5), (6, 3606)]:
        timeline = follow(timeline, seconds(store), float(monotonic), float(monotonic))
        ahead.append(timeline.ahead(monotonic) / SECOND)
    assert ahead == [0, 0, 3600, 5600, 3600, 0, 3600]
    assert (timeline.ahead(6 + SURE - 1), timeline.ahead(6 + SURE)) == (3600 * SECOND, 0)


@given(st.lists(st.tuples(st.floats(0.1, 3), st.floats(-4, 4)), max_size=20))
def test_small_errors_never_stop_firing(ticks: list[tuple[float, float]]) -> None:
    """A clock that is disciplined by less than 5 s between ticks is followed without a stop."""
    timeline, monotonic, store = Timeline(NEW_YEAR, 0.0), 0.0, float(NEW_YEAR)
    for passed, error in ticks:
        monotonic += passed
        store += (passed + error) * SECOND
        timeline = follow(timeline, seconds((store - NEW_YEAR) / SECOND), monotonic, monotonic)
        assert timeline.trusted
        assert abs(timeline.now(monotonic) - store) < SECOND


def test_slow_replies_do_not_move_time() -> None:
    """While the store's clock may have been read when this node expects it, its replies' delays change nothing."""
    timeline = Timeline(NEW_YEAR, 0.0)
    for sent, read, received in [(1.0, 1.0, 1.004), (2.0, 2.3, 2.3), (3.0, 3.1, 4.9)]:
        timeline = follow(timeline, seconds(read), sent, received)
    assert timeline == Timeline(NEW_YEAR, 0.0, leapt=0)


def test_of_the_times_that_fit_the_earliest_is_taken() -> None:
    """A node whose clock is wrong would rather start late by a reply's delay than early."""
    for wrong in (-2, 2):
        timeline = follow(Timeline(seconds(wrong), 0.0), seconds(1), 1.0, 1.5)
        assert timeline.now(1.5) == seconds(1)


def test_the_count_is_what_the_design_says() -> None:
    """Three (DESIGN §3)."""
    assert AGREEING_TICKS == 3
