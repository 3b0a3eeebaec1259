"""Long rows of excluded moments: they are passed, never taken for the end."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws import examples
from tests.unit.schedules.test_cron_vectors import at
from tests.unit.schedules.texts import modes, zones
from tokimori.clock import DAY, Moment
from tokimori.errors import InvalidSchedule
from tokimori.schedules.business_days import Shift, on_business_days
from tokimori.schedules.combined import Difference, Except, Union, members_of, names
from tokimori.schedules.counting import count_until
from tokimori.schedules.days_off import parse_days_off
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import Fold, Gap, Schedule, next_moments

law = settings(deadline=None, max_examples=examples(150))

BASES = (
    *("0 0 * * *", "0 9 * * 1", "0 9 * * 1-5; 30 2 1 * *", "*/10 9-17 * * *", "30 2 * * *", "0 0 29 2 *"),
    *("every 1 day", "every 7 hours", "every 90 minutes", "R/2026-01-01T00:00:00/P1D", "* 2 * 3,10 *"),
)
ROWS = (
    *("R1200/2026-01-01T00:00:00Z/P1D", "R1200/2026-01-01T00:00:00/P1D", "R/2026-03-01T02:30:00/P1D", "every 7 days"),
    *("R/P1D/2027-01-01T00:00:00Z", "R/PT10M/2026-06-01T00:00:00Z", "R3000/2026-03-28T00:00:00Z/PT30M"),
    *(
        "every 2 minutes",
        "every 3 hours",
        "R/2026-01-05T09:00:00Z/P1W",
        "R50/2026-01-01T00:00:00/P1M",
        "* * * * 1-11 *",
    ),
    *(
        "R500/2026-02-01T00:00:00Z/PT13H",
        "0,30 0-22 * * *",
        "R/2025-01-01T00:00:00+02:00/P2D",
        "R40/P1D/2026-12-31T09:00:00",
    ),
)
starts = st.integers(at("2025-11-01"), at("2027-03-01")).map(Moment)


def test_an_exclusion_of_400_days_is_not_the_end() -> None:
    """After it the schedule goes on, and the last moment and the number of moments say the same."""
    schedule = parse_schedule("0 0 * * * except R399/2026-01-01T00:00:00Z/P1D")
    after, following = at("2025-12-31 12:00"), at("2027-02-05")
    assert schedule.next_after(after) == following
    assert schedule.last_before(following) == at("2025-12-31")
    assert count_until(schedule, after, following)[0] == 1


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("0 0 * * * except R399/2026-01-01T00:00:00/P1D", "Europe/Paris", "2027-02-04 23:00"),
        ("30 2 * * * except R399/2026-01-01T02:30:00/P1D", "Europe/Paris", "2027-02-05 01:30"),
        ("0 9 * * 1; 0 0 9 2 1 * 2030 except R299/2026-01-05T09:00:00Z/P7D", "UTC", "2030-01-02 09:00"),
        (
            "every 2 hours except R199/2026-01-01T00:00:00Z/PT4H; R199/2026-01-01T02:00:00Z/PT4H",
            "UTC",
            "2026-02-03 08:00",
        ),
    ],
)
def test_rows_of_any_kind_are_passed(text: str, zone: str, expected: str) -> None:
    """On wall clocks or not, of days of the week, and by several intervals together."""
    assert parse_schedule(text, zone=zone).next_after(at("2026-01-01 00:00")) == at(expected)


@pytest.mark.parametrize(
    ("text", "member"),
    [
        ("0 0 1 * * except R/2026-01-01T00:00:00Z/P1M", "R/2026-01-01T00:00:00Z/P1M"),
        ("0 0 1 * * except R/P1M/2026-01-01T00:00:00Z", "R/P1M/2026-01-01T00:00:00Z"),
        ("R/2026-01-01T09:30:00Z/P1D except * 9 * 1-6 *; * 9 * 7-12 *", "* 9 * 1-6 *"),
        ("0 0 * * * except 0 5 * * *; R400/2026-01-01T00:00:00Z/P1D", "R400/2026-01-01T00:00:00Z/P1D"),
        ("0 9 * * 1 except R/2026-01-05T09:00:00Z/P1W", "R/2026-01-05T09:00:00Z/P1W"),
        ("every 1 days except * 0-5 * * *", "* 0-5 * * *"),
        ("* * * * * * except every 1 second", "every second"),
        ("*/5 * * * 1-5 except R/PT10S/2199-12-31T00:00:00Z", "R/PT10S/2199-12-31T00:00:00Z"),
        ("0 9 * * 1; @yearly except 0 9 * * 1; every 2 seconds", "every 2 seconds"),
    ],
)
def test_a_row_of_more_than_400_is_refused(text: str, member: str) -> None:
    """In the middle of time, at its end, or always: the error names the member that excludes them."""
    with pytest.raises(InvalidSchedule, match="more than 400 moments in a row are excluded") as caught:
        parse_schedule(text)
    assert (caught.value.field, caught.value.value) == ("schedule", member)
    assert "several jobs" in str(caught.value.allowed)


def test_a_row_that_can_be_walked_is_not_refused() -> None:
    """Of months no formula is known: twelve years of them are walked."""
    schedule = parse_schedule("0 0 1 * * except R150/2026-01-01T00:00:00Z/P1M")
    assert schedule.next_after(at("2026-01-01")) == at("2038-08-01")
    assert schedule.last_before(at("2038-08-01")) == at("2025-12-01")


def test_what_clocks_show_twice_is_not_passed() -> None:
    """A fixed time is excluded the first time only: the hour that comes again stays, as it is counted."""
    schedule = parse_schedule("every 1 minute except 0-59 0-22 * * *", zone="Europe/Paris", fold=Fold.FIRST)
    start, stop = at("2026-10-24 22:00"), at("2026-10-25 22:00")
    assert schedule.next_after(start) == at("2026-10-25 01:00")
    assert schedule.last_before(stop) == at("2026-10-25 01:59")
    assert count_until(schedule, start, stop)[0] == 61


@law
@given(st.sampled_from(BASES), st.lists(st.sampled_from(ROWS), min_size=1, max_size=3), zones, modes, starts)
def test_next_last_and_count_are_those_of_a_walk(
    base: str, excluded: list[str], zone: str, mode: tuple[Gap, Fold], start: Moment
) -> None:
    """The moments of the base that none of the exclusions names, one by one, are what is left."""
    gap, fold = mode
    anchor = at("2026-01-01")
    try:
        left = parse_schedule(f"{base} except {'; '.join(excluded)}", zone=zone, anchor=anchor, gap=gap, fold=fold)
    except InvalidSchedule:
        return
    assert isinstance(left, Except)
    candidates = next_moments(left.base, start, 1_500)
    stop = candidates[-1] if candidates else Moment(start + DAY)
    walked = [moment for moment in candidates if not _named(left, moment)]
    following = left.next_after(start)
    assert following == walked[0] if walked else following is None or following > stop
    assert count_until(left, start, stop)[0] == len(walked)
    if walked:
        assert left.last_before(Moment(stop + 1)) == walked[-1]
        assert left.last_before(walked[0]) == _previous(left, start)


def _named(left: Except, moment: Moment) -> bool:
    """Whether none of the parts that are compared keeps the moment."""
    assert isinstance(left._kept, Union)
    return not any(
        names(part.base, moment) and not names(part.excluded, moment)
        if isinstance(part, Difference)
        else names(part, moment)
        for part in left._kept._parts
    )


def _previous(left: Schedule, start: Moment) -> Moment | None:
    """The last moment that is not after the start."""
    return left.last_before(Moment(start + 1))


@law
@given(st.sampled_from(BASES), st.lists(st.sampled_from(ROWS), min_size=1, max_size=3), zones, modes, starts)
def test_the_next_and_the_last_moment_know_each_other(
    base: str, excluded: list[str], zone: str, mode: tuple[Gap, Fold], start: Moment
) -> None:
    """Between a moment and its next there is none; counting says so too."""
    gap, fold = mode
    try:
        left = parse_schedule(f"{base} except {'; '.join(excluded)}", zone=zone, gap=gap, fold=fold)
    except InvalidSchedule:
        return
    following, before = left.next_after(start), left.last_before(start)
    if following is not None:
        assert left.last_before(Moment(following + 1)) == following
        assert count_until(left, start, following)[0] == 1
    if before is not None:
        assert left.next_after(Moment(before - 1)) == before
        assert left.next_after(before) in {start, following}


@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris", "Pacific/Apia"])
def test_hundreds_of_mondays_off_are_not_the_end(zone: str) -> None:
    """In 2033 there is a Sunday behind them."""
    base = parse_schedule("0 0 9 ? * mon 2026-2032; 0 0 9 2 1 ? 2033", zone=zone)
    schedule = on_business_days(base, parse_days_off([], ["mon"]), None, zone)
    sunday = at("2033-01-02 09:00", zone)
    assert schedule.next_after(at("2026-01-01")) == sunday
    assert schedule.last_before(at("2090-01-01")) == sunday
    assert schedule.next_after(sunday) is None


@pytest.mark.parametrize(
    ("text", "weekdays", "dates"),
    [
        ("0 9 * * mon", ["mon"], []),
        ("R/2026-01-05T09:00:00Z/P2W", ["mon"], []),
        ("R/2026-01-05T09:00:00/P7D", ["mon"], []),
        ("0 9 25 12 *", [], ["12-25"]),
        ("0 9 29 2 *; 0 8 25 12 *", ["sun"], ["12-25", "02-29"]),
    ],
)
def test_what_is_always_off_is_refused(text: str, weekdays: list[str], dates: list[str]) -> None:
    """Without a look at each week of eight thousand years; moved, it is no fault."""
    base, days_off = parse_schedule(text), parse_days_off(dates, weekdays)
    with pytest.raises(InvalidSchedule, match="on days off") as caught:
        on_business_days(base, days_off, None, "UTC")
    assert caught.value.value in {str(member) for member in members_of(base)}
    assert on_business_days(base, days_off, Shift.NEXT, "UTC").next_after(at("2026-01-06")) is not None


def test_what_clocks_skip_before_midnight_comes_on_the_next_day() -> None:
    """In Nuuk 23:30 of 27 March 2027, a Saturday, is skipped and comes at midnight: Saturdays off don't hide it."""
    base = parse_schedule("30 23 * * sat; 0 12 1 2 *", zone="America/Nuuk", gap=Gap.SHIFT)
    schedule = on_business_days(base, parse_days_off([], ["sat"]), None, "America/Nuuk")
    sunday = at("2027-03-28 00:00", "America/Nuuk")
    assert base.next_after(Moment(sunday - 1)) == sunday
    assert schedule.next_after(at("2027-03-01")) == sunday
    assert schedule.last_before(at("2027-06-01")) == sunday


@pytest.mark.parametrize("shift", list(Shift))
def test_moved_moments_are_found_behind_many_rows(shift: Shift) -> None:
    """A Sunday in 2060 is moved, and up to then no other."""
    base = parse_schedule("0 0 9 4 1 * 2060; 0 9 * * wed")
    schedule = on_business_days(base, parse_days_off([], ["sun", "wed"]), shift, "UTC")
    sunday = at("2060-01-04 09:00")
    assert base.next_after(Moment(sunday - 1)) == sunday
    moved = Moment(sunday + DAY) if shift is Shift.NEXT else Moment(sunday - DAY)
    assert schedule.next_after(Moment(moved - 1)) == moved


def test_a_row_of_first_times_leaves_the_second() -> None:
    """A wildcard means both times at two o'clock, the excluded days the first: the second is behind a row of days."""
    schedule = parse_schedule("*/59 2 * * * except R/2026-09-01T02:00:00/P1D; 59 2 * * *", zone="Europe/Paris")
    assert schedule.next_after(at("2026-09-05")) == at("2026-10-25 01:00")
