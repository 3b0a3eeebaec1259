"""Schedules that keep off days off, against a walk that moves every moment by hand."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise, product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.laws import examples, one_in
from tests.unit.schedules.test_cron_vectors import at
from tests.unit.schedules.test_zones import ALL_ZONES
from tests.unit.schedules.texts import Mode, coarse, edges, modes
from tokimori.clock import DAY, HOUR, MINUTE, Moment, format_moment
from tokimori.errors import InvalidSchedule
from tokimori.schedules.business_days import BusinessDays, LocalDays, Shift, on_business_days
from tokimori.schedules.counting import count_until
from tokimori.schedules.days import weekday_of
from tokimori.schedules.days_off import DaysOff, parse_days_off
from tokimori.schedules.grid import moment_of
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import OnDemand, Schedule, next_moments
from tokimori.schedules.zones import stretch_at, stretches_between

PARIS = "Europe/Paris"
CHRISTMAS = ["12-25", "12-26", "2026-12-31/2027-01-01"]
EPOCH = date(1970, 1, 1)


def with_days_off(text: str, shift: Shift | None, weekdays: list[str], dates: list[str], zone: str = PARIS) -> Schedule:
    """The schedule of the text without these days."""
    return on_business_days(parse_schedule(text, zone=zone), parse_days_off(dates, weekdays), shift, zone)


NEXT = [
    ("0 9 * * *", None, ["2026-12-24 09:00", "2026-12-28 09:00", "2026-12-29 09:00", "2026-12-30 09:00"]),
    ("0 9 * * *", Shift.NEXT, ["2026-12-24 09:00", "2026-12-28 09:00", "2026-12-29 09:00", "2026-12-30 09:00"]),
    ("0 9 25 * *", Shift.NEXT, ["2026-12-28 09:00", "2027-01-25 09:00", "2027-02-25 09:00", "2027-03-25 09:00"]),
    ("0 9 25 * *", Shift.PREVIOUS, ["2026-12-24 09:00", "2027-01-25 09:00", "2027-02-25 09:00", "2027-03-25 09:00"]),
    ("0 9 1 * *", Shift.PREVIOUS, ["2026-12-30 09:00", "2027-02-01 09:00", "2027-03-01 09:00", "2027-04-01 09:00"]),
    ("0 8 * * 6; 0 9 * * 0", Shift.NEXT, ["2026-12-28 08:00", "2026-12-28 09:00", "2027-01-04 08:00"]),
    ("0 8 * * 6; 0 7 * * 1", Shift.NEXT, ["2026-12-28 07:00", "2026-12-28 08:00", "2027-01-04 07:00"]),
    ("at 2026-12-26T10:30:00", Shift.NEXT, ["2026-12-28 10:30"]),
    ("at 2026-12-26T10:30:00", None, []),
]


@pytest.mark.parametrize(("text", "shift", "expected"), NEXT)
def test_moments_on_days_off_go_where_they_should(text: str, shift: Shift | None, expected: list[str]) -> None:
    """Around Christmas 2026 in Paris, a Friday, with weekends off."""
    schedule = with_days_off(text, shift, ["sat", "sun"], CHRISTMAS)
    start = at("2026-12-23 12:00", PARIS)
    found = next_moments(schedule, start, len(expected) or 1)
    assert found == [at(text, PARIS) for text in expected]
    if found:
        assert count_until(schedule, start, found[-1])[0] == len(found)
        assert schedule.last_before(Moment(found[-1] + 1)) == found[-1]


@pytest.mark.parametrize("length", [2, 62])
def test_what_is_moved_comes_from_weeks_away(length: int) -> None:
    """The moments of a row of days off go to the day before them, or behind them."""
    first, far, behind = (date(2030, 1, 2) + timedelta(days) for days in (0, length - 1, length))
    off = [f"{first}/{far}"]
    before = with_days_off(f"at 2030-01-01T10:00:00; at {far}T09:00:00", Shift.PREVIOUS, [], off)
    assert before.next_after(at("2029-12-31 20:00", PARIS)) == at("2030-01-01 09:00", PARIS)
    after = with_days_off(f"at {behind}T10:00:00; at 2030-01-02T11:00:00", Shift.NEXT, [], off)
    assert after.last_before(at(f"{behind} 23:00", PARIS)) == at(f"{behind} 11:00", PARIS)


@pytest.mark.parametrize(
    ("weekdays", "dates", "row"),
    [
        ([], ["2030-01-02/2030-03-05"], "63 days in a row, from 2030-01-02 to 2030-03-05"),
        (["sat", "sun"], ["2030-01-07/2030-03-08"], "65 days in a row, from 2030-01-05 to 2030-03-10"),
        (["sun"], [f"12-{day:02}" for day in range(1, 32)] + [f"01-{day:02}" for day in range(1, 32)], "64 days"),
    ],
)
def test_more_than_62_days_off_in_a_row_are_not_moved(weekdays: list[str], dates: list[str], row: str) -> None:
    """The error names the days; without a shift they are only left out."""
    with pytest.raises(InvalidSchedule, match=row) as caught:
        with_days_off("0 9 * * *", Shift.NEXT, weekdays, dates)
    assert (caught.value.field, caught.value.value) == ("shift", "next")
    assert "62" in str(caught.value.allowed)
    assert with_days_off("0 9 * * *", None, weekdays, dates).next_after(at("2030-01-08")) is not None


def test_a_row_of_days_off_between_intervals_is_too_long() -> None:
    """Between the last of one interval and the first of another one all moments may be off: a search takes a second."""
    text = "R5/0002-01-01T09:00:00Z/P1D; R/8059-01-01T09:00:00Z/P1D; 0 9 * * sun"
    with pytest.raises(InvalidSchedule, match=r"at least 401 moments or days of .* in a row are on days off"):
        with_days_off(text, None, ["sun"], [])
    assert with_days_off(text.replace("sun", "*"), None, ["sun"], []).next_after(at("2030-01-08")) is not None


@pytest.mark.parametrize("text", ["0 0 29 2 */7", "0 9 29 2 */7 except at 2032-02-29T09:00:00Z"])
def test_moments_that_are_all_on_days_off_are_refused(text: str) -> None:
    """The 29th of February on a Sunday, with Sundays off, comes never: each search went to the year 9999."""
    with pytest.raises(
        InvalidSchedule, match=r"at least \d{3} moments or days of .* in a row are on days off, and no other"
    ):
        with_days_off(text, None, ["sun"], [])
    assert with_days_off(text, None, ["mon"], []).next_after(at("2032-03-01")) is not None


def test_a_few_moments_may_all_be_on_days_off() -> None:
    """A calendar that takes the one moment of a job leaves a schedule of none, and is no error."""
    assert with_days_off("at 2030-12-25T10:00:00Z", None, [], ["12-25"]).next_after(at("2030-01-01")) is None


def test_two_that_fall_on_one_moment_are_one() -> None:
    """Nine on Saturday, Sunday and Monday is nine on Monday, once."""
    schedule = with_days_off("0 9 * * *", Shift.NEXT, ["sat", "sun"], [])
    assert count_until(schedule, at("2026-11-20 12:00"), at("2026-11-23 12:00"))[0] == 1


def test_a_moved_time_follows_the_clock() -> None:
    """02:30 of a Saturday, moved into the gap of the Sunday, runs at its end; into a fold, the first time."""
    off = ["2027-03-27", "2027-10-30"]
    schedule = with_days_off("30 2 * * 6", Shift.NEXT, [], off)
    assert schedule.next_after(at("2027-03-27", PARIS)) == at("2027-03-28 03:00+02:00")
    assert schedule.next_after(at("2027-10-30", PARIS)) == at("2027-10-31 02:30+02:00")
    assert schedule.last_before(at("2027-10-31 12:00", PARIS)) == at("2027-10-31 02:30+02:00")


def test_the_lost_day_of_apia_is_no_business_day() -> None:
    """What is moved from 2011-12-29 goes to the 31st, the next day that there was."""
    schedule = with_days_off("0 9 29 12 *", Shift.NEXT, [], ["2011-12-29"], "Pacific/Apia")
    assert schedule.next_after(at("2011-12-20")) == at("2011-12-31 09:00+14:00")


@pytest.mark.parametrize(
    ("zone", "lost"),
    [
        ("Pacific/Apia", date(2011, 12, 30)),
        ("Pacific/Fakaofo", date(2011, 12, 30)),
        ("Pacific/Kwajalein", date(1993, 8, 21)),
        ("Pacific/Kiritimati", date(1994, 12, 31)),
        ("Asia/Manila", date(1844, 12, 31)),
    ],
)
def test_a_day_that_clocks_skip_is_no_business_day(zone: str, lost: date) -> None:
    """It is off where no day is, and none within two months around it."""
    days, day = LocalDays(DaysOff(), zone), (lost - EPOCH).days
    assert [each for each in range(day - 60, day + 60) if days.is_off(each)] == [day]


def test_a_schedule_without_moments_stays_as_it_is() -> None:
    """A job on demand runs on holidays too."""
    assert on_business_days(OnDemand(), DaysOff(), Shift.NEXT, "UTC") == OnDemand()


def test_it_prints_what_becomes_of_days_off() -> None:
    """After the text of its base."""
    assert str(with_days_off("@daily", None, ["sat"], [])) == "0 0 * * *, not on days off"
    moved = with_days_off("@daily", Shift.PREVIOUS, ["sat"], [])
    assert str(moved) == "0 0 * * *, on days off: the previous business day"


def is_off(days: DaysOff, day: int) -> bool:
    return days.last_in_row(day) is not None


def by_hand(schedule: BusinessDays, start: Moment, stop: Moment) -> list[Moment]:
    """The moments with start < t <= stop: every moment of the base near by, moved day by day."""
    found = set()
    reach = 25 * DAY
    last = Moment(start - reach)
    while (moment := schedule.base.next_after(last)) is not None and moment <= stop + reach:
        last = moment
        shown = moment + stretch_at(schedule.zone, moment).offset
        day = shown // DAY
        if not is_off(schedule.days_off, day):
            found.add(moment)
        elif schedule.shift is not None:
            step = 1 if schedule.shift is Shift.NEXT else -1
            while is_off(schedule.days_off, day):
                day += step
            found.add(Moment(moment_of(day * DAY + shown % DAY, schedule.zone)))
    return sorted(moment for moment in found if start < moment <= stop)


zones = st.sampled_from(["UTC", PARIS, "Australia/Lord_Howe", "Africa/Cairo", "America/Santiago", "America/St_Johns"])
days = st.dates(date(2005, 9, 1), date(2011, 9, 1)).map(lambda day: (day - EPOCH).days)


@settings(deadline=None, max_examples=examples(150))
@given(coarse, zones, modes, st.sets(st.sampled_from(["sun", "mon", "sat"])), st.sampled_from([None, *Shift]), edges)
def test_the_first_and_the_last_days_of_time_are_days(  # noqa: PLR0917
    text: str, zone: str, mode: Mode, weekdays: set[str], shift: Shift | None, start: Moment
) -> None:
    """In the years 1 and 9999 moments follow each other, lead back and are counted as in all other years."""
    try:
        base = parse_schedule(text, zone=zone, gap=mode[0], fold=mode[1])
        schedule = on_business_days(base, parse_days_off([], sorted(weekdays)), shift, zone)
    except InvalidSchedule:
        assume(condition=False)
    found = next_moments(schedule, start, 5)
    assert all(before < after for before, after in pairwise([start, *found]))
    if found:
        assert count_until(schedule, start, found[-1])[0] == len(found)
        assert schedule.last_before(found[-1]) == (found[-2] if len(found) > 1 else schedule.last_before(found[0]))
    last = schedule.last_before(start)
    if last is not None:
        assert last < start
        following = schedule.next_after(last)
        assert following is None or following >= start


@st.composite
def business_days(draw: st.DrawFn) -> tuple[BusinessDays, Moment]:
    """A schedule near whose start some days are off, often those of a weekend at which clocks jump."""
    gap, fold = draw(modes)
    zone, day = draw(zones), draw(days)
    try:
        base = parse_schedule(draw(coarse), zone=zone, gap=gap, fold=fold)
    except InvalidSchedule:
        assume(condition=False)
    offs = draw(st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 5)), max_size=4))
    dates = [f"{EPOCH + timedelta(day + n)}/{EPOCH + timedelta(day + n + length)}" for n, length in offs]
    weekdays = draw(st.sets(st.sampled_from(["sun", "mon", "fri", "sat"]), max_size=3))
    shift = draw(st.sampled_from([None, *Shift]))
    days_off = parse_days_off(dates, weekdays)
    start = Moment(day * DAY + draw(st.integers(0, DAY)))
    try:
        schedule = on_business_days(base, days_off, shift, zone)
    except InvalidSchedule:
        assume(condition=False)
    assert isinstance(schedule, BusinessDays)
    return schedule, start


@settings(deadline=None, max_examples=examples(150))
@given(business_days(), st.integers(1, 5 * 24))
def test_it_equals_a_walk_that_moves_every_moment(drawn: tuple[BusinessDays, Moment], hours: int) -> None:
    """Forward, backward and counted, in zones whose clocks jump at odd times."""
    schedule, start = drawn
    stop = Moment(start + hours * HOUR)
    assume(count_until(schedule.base, Moment(start - 40 * DAY), Moment(stop + 40 * DAY))[0] < 3_000)
    expected = by_hand(schedule, start, stop)
    assert count_until(schedule, start, stop)[0] == len(expected)
    for before, after in pairwise([start, *expected[:20]]):
        assert schedule.next_after(before) == after
        assert schedule.next_after(Moment(after - 1)) == after
    for before, after in pairwise(expected[-20:]):
        assert schedule.last_before(after) == before
    if expected:
        assert schedule.last_before(Moment(stop + 1)) == expected[-1]
    following = schedule.next_after(expected[-1] if expected else start)
    assert following is None or following > stop


def test_the_walk_by_hand_knows_a_weekend() -> None:
    """The truth of these tests is itself right about one."""
    schedule = on_business_days(parse_schedule("0 9 * * 6"), parse_days_off([], ["sat"]), Shift.NEXT, "UTC")
    assert isinstance(schedule, BusinessDays)
    start = Moment(int(datetime(2026, 11, 20, tzinfo=UTC).timestamp()) * 1_000_000)
    assert by_hand(schedule, start, Moment(start + 3 * DAY)) == [at("2026-11-22 09:00")]


def test_a_minutely_schedule_is_counted_in_bounds() -> None:
    """A year of minutes, those of weekends moved onto Mondays, where there are such already."""
    schedule = with_days_off("* * * * *", Shift.NEXT, ["sat", "sun"], [], "UTC")
    assert count_until(schedule, at("2026-01-01"), at("2026-03-01"))[0] == 42 * 1_440 - 1


def test_days_of_local_mean_time_are_counted_by_the_second() -> None:
    """The days of the interval began when the clocks were 52 s apart from the minute; its hours have led far away."""
    text = "R/1582-01-02T00:00:00/P1DT12H; */8 2 L * *"
    schedule = with_days_off(text, None, ["sat", "sun"], [], "America/St_Johns")
    moments = next_moments(schedule, at("2031-05-22"), 40)
    assert any(moment % MINUTE for moment in moments)
    for low, high in pairwise(moments):
        assert (count_until(schedule, low, high)[0], count_until(schedule, low, Moment(high - 1))[0]) == (1, 0)


def test_a_gap_that_reaches_midnight_is_found_from_behind() -> None:
    """What moves into it happens at its end, which is on the next day: Nuuk, a Sunday's 23:30, on Saturday."""
    schedule = with_days_off("30 23 * * *", Shift.PREVIOUS, ["sun"], [], "America/Nuuk")
    assert schedule.last_before(at("2026-03-31 00:30")) == at("2026-03-29 01:00")
    assert schedule.next_after(at("2026-03-29 00:59")) == at("2026-03-29 01:00")


TEXTS = ("30 23 * * *", "0 0 * * *", "30 0,2 * * *", "*/20 * * * *", "15 1,23 * * *", "0 */3 * * *")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
JUMPY = [
    *("America/Nuuk", "Africa/Cairo", "America/Havana", "Asia/Beirut", "America/Sao_Paulo", "Pacific/Apia"),
    *("Asia/Gaza", "Australia/Lord_Howe", "Europe/Dublin", "Africa/Casablanca", "Antarctica/Troll", "America/Caracas"),
]


def neighbours_agree(zone: str, first: int, last: int) -> int:
    """Around the zone's transitions of these years each moment's neighbours know each other; how many transitions.

    The day before the transition is off, the day after it, or both.
    """
    low, high = (Moment((date(year, 1, 1) - EPOCH).days * DAY) for year in (first, last + 1))
    changes = [stretch.start for stretch in stretches_between(zone, low, high)][1:]
    for number, change in enumerate(changes):
        weekday = weekday_of((change + stretch_at(zone, change).offset - 1) // DAY)
        for shift, off in product([None, *Shift], ([weekday], [(weekday + 1) % 7], [weekday, (weekday + 1) % 7])):
            weekdays = [WEEKDAYS[day] for day in off]
            schedule = with_days_off(TEXTS[number % len(TEXTS)], shift, weekdays, [], zone)
            assert_neighbours(schedule, Moment(change - 2 * DAY), Moment(change + 2 * DAY))
    return len(changes)


def assert_neighbours(schedule: Schedule, start: Moment, stop: Moment) -> None:
    """Whoever goes on to the next moment comes back by the last one before it."""
    before = schedule.next_after(start)
    while before is not None and before < stop and (after := schedule.next_after(before)) is not None:
        assert schedule.last_before(after) == before, (str(schedule), format_moment(before))
        before = after


@pytest.mark.parametrize("zone", one_in(3, JUMPY))
def test_neighbours_agree_around_transitions(zone: str) -> None:
    """The moment before the next one is the one where the search began, with days off that move what is on them."""
    assert neighbours_agree(zone, 2006, 2012) + neighbours_agree(zone, 2023, 2026) > 0


@pytest.mark.prove
@pytest.mark.parametrize("part", range(16))
def test_neighbours_agree_around_all_transitions(part: int) -> None:
    """The same in all zones, from 2000 to 2030."""
    assert sum(neighbours_agree(zone, 2000, 2030) for zone in ALL_ZONES[part::16]) > 500
