"""Named days off as values."""

import pytest

from tokimori.errors import InvalidInput
from tokimori.model.calendar import Calendar, decode_calendar, decode_days_off, encode_calendar, encode_days_off
from tokimori.schedules.days_off import parse_days_off

GERMANY = Calendar(name="de", description="Feiertage", dates=("12-25", "2026-12-31/2027-01-01"), weekdays=("sun",))


def test_a_calendar_is_read_as_it_was_stored() -> None:
    """Every field, as it was typed."""
    assert decode_calendar(encode_calendar(GERMANY)) == GERMANY
    assert encode_calendar(Calendar(name="none")) == '{"name":"none"}'


def test_a_job_keeps_the_days_of_all_its_calendars() -> None:
    """Equal days have one text, however they were typed; none at all is another thing than a calendar without days."""
    twice = Calendar(name="x", dates=("2027-01-01", "2026-12-31"), weekdays=("Sun",))
    kept = encode_days_off([GERMANY, twice])
    assert kept == encode_days_off([GERMANY]) == '{"dates":["12-25","2026-12-31/2027-01-01"],"weekdays":["sun"]}'
    assert decode_days_off(kept) == parse_days_off(GERMANY.dates, GERMANY.weekdays)
    assert encode_days_off([]) is None
    assert encode_days_off([Calendar(name="none")]) == "{}"


def test_calendars_that_leave_no_day_are_refused() -> None:
    """Each may leave some, but not all together."""
    week = [
        Calendar(name="a", weekdays=("mon", "tue", "wed", "thu")),
        Calendar(name="b", weekdays=("fri", "sat", "sun")),
    ]
    with pytest.raises(InvalidInput) as caught:
        encode_days_off(week)
    assert caught.value.field == "calendars"
