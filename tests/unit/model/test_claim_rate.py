"""Rates of semaphores and jobs: how many units are taken in any window."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokimori.clock import DAY, HOUR, MINUTE, SECOND, Moment
from tokimori.errors import InvalidInput
from tokimori.model.claim_rate import (
    ClaimRate,
    Taken,
    cut,
    free_now,
    last_in_the_way,
    opens_at,
    parse_claim_rate,
    stored_rate,
    window_of,
)

rates = st.builds(ClaimRate, st.integers(1, 20), st.integers(1_000, 100_000), st.booleans())
steps = st.lists(st.tuples(st.integers(0, 60_000), st.integers(1, 25)), max_size=60)


@pytest.mark.parametrize(
    ("text", "rate", "shown"),
    [
        ("10/s", ClaimRate(10, SECOND), "10/s"),
        ("100/1m", ClaimRate(100, MINUTE), "100/m"),
        ("5/h", ClaimRate(5, HOUR), "5/h"),
        ("7/1d smooth", ClaimRate(7, DAY, True), "7/d smooth"),
        ("10000/90s", ClaimRate(10_000, 90 * SECOND), "10000/90s"),
        ("3/1h30m", ClaimRate(3, 90 * MINUTE), "3/90m"),
        ("3/0.25s", ClaimRate(3, SECOND // 4), "3/0.25s"),
        ("3/PT1M", ClaimRate(3, MINUTE), "3/m"),
        ("1/30", ClaimRate(1, 30 * SECOND), "1/30s"),
    ],
)
def test_rates_are_read(text: str, rate: ClaimRate, shown: str) -> None:
    """A number of units, and a length or the name of one."""
    assert parse_claim_rate(text, field="rate") == rate
    assert str(rate) == shown
    assert stored_rate(rate.stored) == rate


@pytest.mark.parametrize("text", ["", "10", "0/s", "10001/s", "10/", "10/0s", "10/x", "-1/s", "1/367d", "10/s rough"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    """The error names the field, the value and what is allowed."""
    with pytest.raises(InvalidInput, match="is no rate") as refused:
        parse_claim_rate(text, field="rate_limit")
    assert (refused.value.field, refused.value.value) == ("rate_limit", text)
    assert "100/1m" in str(refused.value.allowed)


@given(rates)
def test_a_rate_is_read_as_it_is_shown(rate: ClaimRate) -> None:
    """What people are shown they can type."""
    assert parse_claim_rate(str(rate), field="rate") == rate


def taken_by(rate: ClaimRate, steps: list[tuple[int, int]]) -> list[Taken]:
    """What claims take that come after such pauses, and want so many units."""
    taken, now = list[Taken](), Moment(10**15)
    for pause, weight in steps:
        now = Moment(now + pause)
        if weight <= free_now(rate, window_of(rate, taken, now), now):
            taken = (
                [*taken, Taken(now, weight)]
                if not taken or taken[-1].moment < now
                else cut([*taken, Taken(now, weight)], now)
            )
    return taken


@given(rates, steps)
def test_no_window_has_more(rate: ClaimRate, steps: list[tuple[int, int]]) -> None:
    """Wherever a window of one period begins, no more units are in it than the rate says."""
    taken = taken_by(rate, steps)
    for first in taken:
        assert (
            sum(each.units for each in taken if first.moment <= each.moment < first.moment + rate.period) <= rate.units
        )
    if rate.smooth:
        for one, other in pairwise(taken):
            assert other.moment - one.moment >= one.units * rate.period / rate.units


@given(rates, steps, st.integers(1, 25), st.integers(0, 60_000))
def test_the_moment_is_the_first_at_which_units_fit(
    rate: ClaimRate, steps: list[tuple[int, int]], weight: int, pause: int
) -> None:
    """They fit then, and not a microsecond before; it is never over a period ahead."""
    taken, weight = taken_by(rate, steps), min(weight, rate.units)
    now = Moment((taken[-1].moment if taken else 10**15) + pause)
    in_the_way = last_in_the_way(rate, taken, weight, now)
    at = opens_at(rate, window_of(rate, taken, now), in_the_way, now)
    assert now <= at <= now + rate.period
    before = Moment(at - 1)
    if at < now + rate.period:
        assert free_now(rate, window_of(rate, taken, at), at) >= weight
    if at > now:
        assert free_now(rate, window_of(rate, taken, before), before) < weight


@given(rates, steps, st.integers(0, 10**9))
def test_a_clock_that_is_set_back_delays_at_most_a_period(
    rate: ClaimRate, steps: list[tuple[int, int]], back: int
) -> None:
    """What was to come counts as taken now, and a period later all is free."""
    taken = taken_by(rate, steps)
    now = Moment((taken[-1].moment if taken else 10**15) - back)
    known = cut(taken, now)
    assert sum(each.units for each in known) == sum(each.units for each in taken)
    assert all(each.moment <= now for each in known)
    later = Moment(now + rate.period * (2 if rate.smooth else 1))
    assert window_of(rate, known, later).used == 0
