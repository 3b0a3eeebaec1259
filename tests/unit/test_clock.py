"""Moments, and how they are written."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokimori.clock import (
    DAY,
    HOUR,
    MICROSECOND,
    MILLISECOND,
    MINUTE,
    SECOND,
    Moment,
    SystemClock,
    format_moment,
    from_datetime,
    parse_moment,
    to_datetime,
)
from tokimori.errors import InvalidInput

DATETIMES = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))
NEW_YEAR = 1_893_456_000 * SECOND


@given(DATETIMES)
def test_a_moment_is_a_datetime(value: datetime) -> None:
    """Every date from the year 1 to 9999 is a moment and comes back, to the microsecond."""
    assert to_datetime(from_datetime(value)) == value


@given(DATETIMES)
def test_what_is_printed_is_read_back(value: datetime) -> None:
    """RFC 3339 loses nothing."""
    moment = from_datetime(value)
    assert parse_moment(format_moment(moment)) == moment


@given(DATETIMES, st.integers(-1439, 1439))
def test_offsets_are_subtracted(value: datetime, minutes: int) -> None:
    """A time with any offset is the moment that it names."""
    local = value.astimezone(timezone(timedelta(minutes=minutes)))
    assert parse_moment(local.isoformat()) == from_datetime(value)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2030-01-01T00:00:00Z", NEW_YEAR),
        ("2030-01-01t00:00:00z", NEW_YEAR),
        ("2030-01-01 00:00:00Z", NEW_YEAR),
        (" 2030-01-01T00:00:00Z\n", NEW_YEAR),
        ("2030-01-01T01:30:00+01:30", NEW_YEAR),
        ("2029-12-31T19:00:00-05:00", NEW_YEAR),
        ("2030-01-01T00:00:00-00:00", NEW_YEAR),
        ("2030-01-01T00:00:00.5Z", NEW_YEAR + 500_000),
        ("2030-01-01T00:00:00.000001999Z", NEW_YEAR + 1),
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:59:59.999999Z", -1),
    ],
)
def test_moments_as_people_write_them(text: str, moment: int) -> None:
    """RFC 3339 as it is: either case, a blank for the T, any offset, digits beyond the microsecond cut."""
    assert parse_moment(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2030-01-01",
        "2030-01-01T00:00:00",
        "2030-01-01T00:00Z",
        "2030-1-1T00:00:00Z",
        "2030-02-29T00:00:00Z",
        "2030-13-01T00:00:00Z",
        "2030-01-01T24:00:00Z",
        "2030-01-01T00:60:00Z",
        "2030-01-01T00:00:60Z",
        "2030-01-01T00:00:00.Z",
        "2030-01-01T00:00:00+0100",
        "2030-01-01T00:00:00+01:60",
        "2030-01-01T00:00:00+24:00",
        "2030-01-01T00:00:00+99:00",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
        "2030-01-01T00:00:00Z\0",
        "٢٠٣٠-01-01T00:00:00Z",
    ],
)
def test_what_is_no_moment(text: str) -> None:
    """Anything else is refused, naming the field, the text and what is allowed."""
    with pytest.raises(InvalidInput) as caught:
        parse_moment(text, field="after")
    assert (caught.value.field, caught.value.value) == ("after", text)
    assert "2030-01-01T00:00:00Z" in str(caught.value.allowed)


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (NEW_YEAR, "2030-01-01T00:00:00Z"),
        (NEW_YEAR + 1, "2030-01-01T00:00:00.000001Z"),
        (NEW_YEAR + 500_000, "2030-01-01T00:00:00.500000Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
    ],
)
def test_moments_as_they_are_printed(moment: int, text: str) -> None:
    """UTC with a Z, and a fraction only where there is one."""
    assert format_moment(Moment(moment)) == text


def test_units() -> None:
    """All units are microseconds."""
    assert (MICROSECOND, MILLISECOND, SECOND) == (1, 1_000, 1_000_000)
    assert (MINUTE, HOUR, DAY) == (60 * SECOND, 60 * MINUTE, 24 * HOUR)


def test_the_machines_clocks() -> None:
    """The wall clock is today's, and the monotonic one does not go back."""
    clock = SystemClock()
    before = datetime.now(UTC)
    assert before - timedelta(seconds=1) <= to_datetime(clock.now()) <= datetime.now(UTC) + timedelta(seconds=1)
    first = clock.monotonic()
    assert clock.monotonic() >= first
