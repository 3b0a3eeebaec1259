"""Cron fields of systems in which every field must match."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokimori.clock import from_datetime
from tokimori.errors import InvalidInput
from tokimori.schedules.parse import parse_schedule
from tokimori.translators.cron_sets import Times, schedule_of

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def some(low: int, high: int) -> st.SearchStrategy[frozenset[int] | None]:
    """Some values of a field, or all."""
    return st.none() | st.frozensets(st.integers(low, high), min_size=1)


@given(some(1, 31), some(1, 12), some(0, 6))
def test_days_are_those_on_which_every_field_matches(
    day: frozenset[int] | None, month: frozenset[int] | None, weekday: frozenset[int] | None
) -> None:
    """Of two years exactly the days come whose day, month and weekday are all among the values."""
    days = [NEW_YEAR + timedelta(days=number) for number in range(730)]
    wanted = [
        each
        for each in days
        if (day is None or each.day in day)
        and (month is None or each.month in month)
        and (weekday is None or each.isoweekday() % 7 in weekday)
    ]
    try:
        text = schedule_of(Times(minute={0}, hour={0}, day=day, month=month, weekday=weekday))
        schedule = parse_schedule(text)
    except InvalidInput:
        assert wanted == []  # the 31st of February
        return
    for each in days:
        moment = from_datetime(each)
        assert (schedule.next_after(type(moment)(moment - 1)) == moment) is (each in wanted), text


@pytest.mark.parametrize(
    ("times", "text"),
    [
        (Times(), "* * * * *"),
        (Times(minute=range(0, 60, 15)), "*/15 * * * *"),
        (Times(minute=range(0, 60, 7)), "*/7 * * * *"),
        (Times(minute={5, 20, 35}), "5,20,35 * * * *"),
        (Times(minute={0}, hour=range(8, 19), weekday=range(1, 6)), "0 8-18 * * 1-5"),
        (Times(second={5, 10}, minute={0}), "5,10 0 * * * *"),
        (Times(minute={0}, hour={0}, day={1}, year={2030, 2031}), "0 0 0 1 * * 2030-2031"),
        (Times(minute={0}, hour={0}, day=range(1, 32, 2)), "0 0 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31 * *"),
        (Times(minute={0}, hour={0}, special_day="L"), "0 0 L * *"),
        (Times(minute={0}, hour={0}, special_weekday="5#2"), "0 0 * * 5#2"),
        (Times(minute={0}, hour={0}, special_day="L", weekday={0}), "0 0 L * * except 0 0 * * 1-6"),
    ],
)
def test_it_is_as_short_as_people_write_it(times: Times, text: str) -> None:
    """Ranges, steps over the whole field, and a star for all values."""
    assert schedule_of(times) == text


def test_a_place_in_the_month_goes_alone() -> None:
    """`2nd fri` beside another day can't be said."""
    with pytest.raises(InvalidInput, match="can't be combined"):
        schedule_of(Times(special_weekday="5#2", day={1}))
