import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import NEW_YEAR, seconds
from tokimori.clock import DAY, HOUR, MINUTE, SECOND, Moment, parse_moment
from tokimori.web.words import clock_time, distance, duration, full_time, zone_name


@pytest.mark.parametrize(
    ("moment", "zone", "text"),
    [
        (NEW_YEAR, "UTC", "00:00:00"),
        (NEW_YEAR - SECOND, "UTC", "Mon 31 Dec 2029 23:59:59"),
        (NEW_YEAR + 3 * DAY, "UTC", "Fri 4 Jan 00:00:00"),
        (NEW_YEAR, "Asia/Tokyo", "09:00:00"),
        (NEW_YEAR + 15 * HOUR, "Asia/Tokyo", "Wed 2 Jan 00:00:00"),
    ],
)
def test_clock_time(moment: Moment, zone: str, text: str) -> None:
    """A moment is shown as clocks in its zone show it, with the day unless that is today there."""
    assert clock_time(moment, zone, NEW_YEAR) == text


def test_zone_name() -> None:
    """A zone is named as it is called at that moment."""
    assert zone_name(NEW_YEAR, "Europe/Paris") == "CET"
    assert zone_name(Moment(NEW_YEAR + 180 * DAY), "Europe/Paris") == "CEST"


@pytest.mark.parametrize(
    ("away", "text"),
    [
        (0, "now"),
        (0.4, "now"),
        (-1, "1 s ago"),
        (59, "in 59 s"),
        (60, "in 1 min"),
        (-3599, "59 min ago"),
        (3600, "in 1 h"),
        (86_400, "in 1 d"),
        (-400 * 86_400, "400 d ago"),
    ],
)
def test_distance(away: float, text: str) -> None:
    """How far away a moment is, is told in its largest whole unit."""
    assert distance(seconds(away), NEW_YEAR) == text


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (0, "0 ms"),
        (999_499, "999 ms"),
        (999_500, "1.0 s"),
        (9_949_999, "9.9 s"),
        (9_950_000, "10 s"),
        (59_499_999, "59 s"),
        (59_500_000, "1 min 00 s"),
        (3 * MINUTE + 5 * SECOND, "3 min 05 s"),
        (HOUR - 1, "1 h 00 min"),
        (30 * HOUR + 3 * MINUTE, "30 h 03 min"),
    ],
)
def test_duration(length: int, text: str) -> None:
    """A duration is told in units of its size, and is never rounded to 60 of one."""
    assert duration(length) == text


@given(st.integers(0, 10**15))
def test_no_unit_reaches_the_next(length: int) -> None:
    """No duration says 1000 ms, 60 s or 60 min, and none is off by more than it is rounded."""
    numbers = duration(length).replace(" min", "").replace(" ms", "").replace(" s", "").replace(" h", "").split()
    unit = duration(length).split()[1]
    limit = {"ms": [1000], "s": [60], "min": [60, 60], "h": [10**9, 60]}[unit]
    assert all(float(number) < most for number, most in zip(numbers, limit, strict=True))


@pytest.mark.parametrize(
    ("moment", "zone", "text"),
    [
        ("2027-03-28T01:00:00Z", "Europe/Paris", "Sun 2027-03-28 03:00:00+02:00 CEST"),
        ("2027-03-28T01:00:00.5Z", "UTC", "Sun 2027-03-28 01:00:00.500+00:00 UTC"),
        ("2027-03-28T01:00:00Z", "Asia/Kathmandu", "Sun 2027-03-28 06:45:00+05:45"),
    ],
)
def test_full_time(moment: str, zone: str, text: str) -> None:
    """Nothing is left out, as where a schedule is explained; a zone whose time has no name shows the offset alone."""
    assert full_time(parse_moment(moment), zone) == text
