"""Quiet hours: when they end, and what they may be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokimori.clock import DAY, HOUR, MINUTE, Moment, format_moment, parse_moment
from tokimori.errors import InvalidInput
from tokimori.model.notifier import check_quiet, quiet_until

MONDAY = parse_moment("2030-01-07T00:00:00Z")
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


@pytest.mark.parametrize(
    ("quiet", "now", "end"),
    [
        (("22:00-07:00",), "2030-01-07T21:59:59Z", None),
        (("22:00-07:00",), "2030-01-07T22:00:00Z", "2030-01-08T07:00:00Z"),
        (("22:00-07:00",), "2030-01-08T06:59:59Z", "2030-01-08T07:00:00Z"),
        (("22:00-07:00",), "2030-01-08T07:00:00Z", None),
        (("sat,sun 00:00-24:00",), "2030-01-12T10:30:00Z", "2030-01-14T00:00:00Z"),
        (("sun 22:00-07:00",), "2030-01-07T06:00:00Z", "2030-01-07T07:00:00Z"),
        (("fri-mon 20:00-24:00", "00:00-08:00"), "2030-01-11T21:00:00Z", "2030-01-12T08:00:00Z"),
        ((), "2030-01-07T22:00:00Z", None),
    ],
)
def test_when_they_end(quiet: tuple[str, ...], now: str, end: str | None) -> None:
    """Days are those on which they begin; hours that touch each other are one stretch."""
    found = quiet_until(quiet, "UTC", parse_moment(now))
    assert (None if found is None else format_moment(found)) == end


def test_they_are_those_of_a_time_zone() -> None:
    """Where clocks are set back meanwhile they are an hour longer."""
    now = parse_moment("2030-10-26T22:00:00Z")  # midnight in Paris, where clocks go back at three
    assert quiet_until(("23:00-07:00",), "Europe/Paris", now) == parse_moment("2030-10-27T06:00:00Z")


@pytest.mark.parametrize(
    "text", ["22-7", "25:00-26:00", "22:00-22:00", "sa 22:00-23:00", "mon-tue-wed 01:00-02:00", "", "x" * 10_000]
)
def test_what_are_none(text: str) -> None:
    """The error quotes them."""
    with pytest.raises(InvalidInput) as refused:
        check_quiet([text])
    assert refused.value.field == "notifier.quiet"


def test_some_minute_is_left() -> None:
    """Or nobody would ever be notified."""
    with pytest.raises(InvalidInput):
        check_quiet(["00:00-12:00", "12:00-24:00"])
    check_quiet(["00:00-12:00", "12:01-24:00"])


HOURS = st.integers(0, 24 * 60 - 1).map(lambda n: f"{n // 60:02}:{n % 60:02}")
STRETCHES = st.builds(lambda day, first, last: f"{day} {first}-{last}", st.sampled_from(DAYS), HOURS, HOURS)


@given(
    st.lists(STRETCHES.filter(lambda text: text[4:9] != text[10:]), max_size=6),
    st.integers(0, 400 * DAY),
    st.sampled_from(["UTC", "Europe/Paris", "Australia/Lord_Howe", "+05:30"][:3]),
)
def test_they_end_and_not_in_others(quiet: list[str], after: int, zone: str) -> None:
    """At the end nothing is quiet, but for an hour where clocks are set; it lies ahead, at most a week and an hour."""
    now = Moment(MONDAY + after)
    end = quiet_until(quiet, zone, now)
    if end is not None:
        assert now < end <= now + 7 * DAY + HOUR + MINUTE
        again = quiet_until(quiet, zone, end)
        assert again is None or again - end <= DAY
