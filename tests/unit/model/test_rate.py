"""How often somebody may ask."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokimori.errors import InvalidInput
from tokimori.model.rate import Bucket, Rate, parse_rate

SECOND = 10**9
rates = st.builds(Rate, st.integers(1, 1_000_000), st.sampled_from([SECOND, 60 * SECOND, 3_600 * SECOND]))


def taken(rate: Rate, moments: list[int]) -> list[int]:
    """The moments at which there was a token."""
    bucket, found = Bucket(), []
    for now in moments:
        bucket, wait = bucket.take(rate, now)
        found += [] if wait else [now]
    return found


@pytest.mark.parametrize(
    ("text", "rate"),
    [("100/s", Rate(100, SECOND)), ("1/m", Rate(1, 60 * SECOND)), ("1000000/h", Rate(1_000_000, 3_600 * SECOND))],
)
def test_a_rate_is_read(text: str, rate: Rate) -> None:
    """It is a number for each second, minute or hour."""
    assert parse_rate(text, field="http.rate") == rate


@pytest.mark.parametrize("text", ["", "100", "0/s", "-1/s", "1.5/s", "100/d", "100 / s", "1000001/s", "9" * 30 + "/s"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    """The fault names the setting, and shows how a rate is written."""
    with pytest.raises(InvalidInput, match=r"^http\.rate: ") as caught:
        parse_rate(text, field="http.rate")
    assert "100/s" in (caught.value.allowed or "")


def test_a_bucket_is_emptied_and_fills_again() -> None:
    """Two a second: two at once, the third half a second later, and after a rest no more than two."""
    rate = Rate(2, SECOND)
    assert taken(rate, [5, 5, 5, 5 + SECOND // 2 - 1, 5 + SECOND // 2]) == [5, 5, 5 + SECOND // 2]
    assert taken(rate, [0, 9 * SECOND, 9 * SECOND, 9 * SECOND]) == [0, 9 * SECOND, 9 * SECOND]


@given(rates, st.lists(st.integers(0, 2 * SECOND), min_size=1, max_size=50))
def test_no_span_of_time_has_more_than_it_may(rate: Rate, gaps: list[int]) -> None:
    """Whoever asks whenever he likes: in each span of time a full bucket is taken at most, and what comes into it."""
    found = taken(rate, list(accumulate(gaps)))
    for first, begin in enumerate(found):
        for count, end in enumerate(found[first:], start=1):
            assert count * rate.interval <= rate.period + end - begin


@given(rates, st.integers(0, 10**18), st.integers(1, 20))
def test_who_waits_as_long_as_he_is_told_is_let_in(rate: Rate, full_for: int, times: int) -> None:
    """The wait is never too short, and the one who asks as often as he may is never refused."""
    bucket, now = Bucket(full_for), 0
    for _ in range(times):
        same, wait = bucket.take(rate, now)
        assert not wait or same is bucket
        bucket, left = bucket.take(rate, now + wait)
        now += wait + rate.interval
        assert left == 0
