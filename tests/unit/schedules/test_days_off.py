"""Days off as values."""

from datetime import date, timedelta

import pytest

from tokimori.errors import InvalidInput
from tokimori.schedules.days import day_of
from tokimori.schedules.days_off import (
    MOST_RANGES,
    MOST_WITHOUT_BUSINESS,
    DaysOff,
    dates_of,
    parse_days_off,
    united,
    weekdays_of,
)


def test_days_off_are_printed_as_they_are_read() -> None:
    """Ranges that touch are one, dates of every year come first, and the week begins with Monday."""
    found = parse_days_off(["2026-12-26", "2026-12-24/2026-12-25", "12-25", "2026-05-01"], ["Sun", "sat"])
    assert dates_of(found) == ["12-25", "2026-05-01", "2026-12-24/2026-12-26"]
    assert weekdays_of(found) == ["sat", "sun"]
    assert parse_days_off(dates_of(found), weekdays_of(found)) == found


def test_a_row_of_days_off_is_known_from_both_ends() -> None:
    """A range is one row; a day of the week and a date of every year are rows of one day."""
    days = parse_days_off(["2026-12-24/2027-01-01", "05-01"], ["sun"])
    first, last = day_of(2026, 12, 24), day_of(2027, 1, 1)
    assert (days.last_in_row(first + 4), days.first_in_row(first + 4)) == (last, first)
    assert days.last_in_row(last + 1) is None
    assert days.first_in_row(day_of(2033, 5, 1)) == day_of(2033, 5, 1)
    assert days.next_off(first - 3, first + 9) == day_of(2026, 12, 24)
    assert days.next_off(last + 1, last + 1) is None


def test_dates_alone_are_found_without_a_walk() -> None:
    """Far away."""
    days = parse_days_off(["1990-01-01/1990-01-05", "2090-01-01"], [])
    assert days.next_off(day_of(1990, 1, 3), day_of(1990, 1, 4)) == day_of(1990, 1, 3)
    assert days.next_off(day_of(1990, 1, 6), day_of(2100, 1, 1)) == day_of(2090, 1, 1)
    assert days.next_off(day_of(1990, 1, 6), day_of(2080, 1, 1)) is None


def test_calendars_are_united() -> None:
    """What is off in one is off."""
    one, other = parse_days_off(["2026-12-25"], ["sun"]), parse_days_off(["2026-12-26", "05-01"], ["sat"])
    assert united([one, other]) == parse_days_off(["2026-12-25/2026-12-26", "05-01"], ["sat", "sun"])
    assert united([]) == DaysOff()
    with pytest.raises(InvalidInput):
        united([parse_days_off([], ["mon", "tue", "wed", "thu"]), parse_days_off([], ["fri", "sat", "sun"])])


@pytest.mark.parametrize(
    ("dates", "weekdays", "field", "value"),
    [
        (["2026-02-30"], [], "dates", "2026-02-30"),
        (["2026-12-25/2026-12-24"], [], "dates", "2026-12-25/2026-12-24"),
        (["2026-01-01/2027-01-02"], [], "dates", "2026-01-01/2027-01-02"),
        (["13-01"], [], "dates", "13-01"),
        (["02-30"], [], "dates", "02-30"),
        (["20261225"], [], "dates", "20261225"),
        (["Christmas"], [], "dates", "Christmas"),
        (["2026-12-25/"], [], "dates", "2026-12-25/"),
        ([], ["someday"], "weekdays", "someday"),
        ([], ["mon", "tue", "wed", "thu", "fri", "sat", "sun"], "weekdays", None),
    ],
)
def test_bad_days_are_refused(dates: list[str], weekdays: list[str], field: str, value: str | None) -> None:
    """With the field, the text and what is allowed."""
    with pytest.raises(InvalidInput) as caught:
        parse_days_off(dates, weekdays)
    assert (caught.value.field, caught.value.value) == (field, value)
    assert caught.value.allowed


def test_so_many_dates_may_be_off() -> None:
    """Each is looked at by itself where moments are moved; those that touch each other are one."""
    first = date(2026, 1, 1)
    every_other = [str(first + timedelta(2 * n)) for n in range(MOST_RANGES + 1)]
    assert len(parse_days_off(every_other[1:], []).ranges) == MOST_RANGES
    assert len(parse_days_off([str(first + timedelta(n)) for n in range(MOST_RANGES + 1)], []).ranges) == 1
    half = len(every_other) // 2
    with pytest.raises(InvalidInput, match=f"{MOST_RANGES + 1} of them") as caught:
        parse_days_off(every_other, [])
    assert (caught.value.field, str(MOST_RANGES) in str(caught.value.allowed)) == ("dates", True)
    with pytest.raises(InvalidInput, match=f"{MOST_RANGES + 1} of them"):
        united([parse_days_off(every_other[:half], []), parse_days_off(every_other[half:], [])])


@pytest.mark.parametrize("weekdays", [[], ["sun", "mon", "tue", "wed", "fri", "sat"]])
def test_so_many_days_in_a_row_may_be_off(weekdays: list[str]) -> None:
    """The moments of all of them go to one day; days of the week that are off lie between dates of one row, too."""
    thursday, step = date(2026, 1, 1), 7 if weekdays else 1
    row = [str(thursday + timedelta(n)) for n in range(0, MOST_WITHOUT_BUSINESS + step, step)]
    assert len(parse_days_off([*row[:100], *row[101:]], weekdays).longest_row()) < MOST_WITHOUT_BUSINESS
    with pytest.raises(InvalidInput, match="have no business day") as caught:
        parse_days_off(row, weekdays)
    assert (caught.value.field, str(MOST_WITHOUT_BUSINESS) in str(caught.value.allowed)) == ("dates", True)
    with pytest.raises(InvalidInput, match="have no business day"):
        parse_days_off([f"{year}-01-01/{year}-12-31" for year in range(9988, 9999)], weekdays)


def test_a_leap_day_may_be_off_every_year() -> None:
    """29 February is a date of every year, where a year has it."""
    assert parse_days_off(["02-29"], []).next_off(day_of(2026, 1, 1), day_of(2030, 1, 1)) == day_of(2028, 2, 29)
