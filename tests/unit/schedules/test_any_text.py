"""Texts that nobody means well with: refused by an error of ours, or answered in time, and all answers agree."""

import random

import pytest

from tests.unit.schedules.hostile import Case, Examination, case, read
from tests.unit.schedules.test_cron_vectors import at
from tokimori.clock import DAY, Moment
from tokimori.errors import InvalidInput, InvalidSchedule
from tokimori.schedules.business_days import Shift, on_business_days
from tokimori.schedules.counting import count_until
from tokimori.schedules.days_off import parse_days_off
from tokimori.schedules.explain import explained
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import Fold, Gap


def test_any_text_is_refused_or_answered_in_time() -> None:
    """Next, last and count agree, in the years 1 and 9999 too; nothing raises an error that is not ours."""
    asked = Examination()
    for n in range(150):
        rng = random.Random(f"quick {n}")
        asked.check(case(rng), rng, moments=2)
    assert asked.asked > 2_000
    asked.assert_fast()


FIFTHS = [f"{month:02}-05" for month in range(1, 13)]
ALL_BUT_THURSDAY = ["sun", "mon", "tue", "wed", "fri", "sat"]
ALL_BUT_SATURDAY = ["sun", "mon", "tue", "wed", "thu", "fri"]
DENSE = "; ".join(f"{n}-{n + 30}/{n} {n}-{n + 9}/2 * * {n % 7}" for n in range(1, 15))
SLOW = [
    ("R5/1999-02-09T02:30:00-03:30/P400Y", "America/Scoresbysund", [], ["tue"], None),
    ("at 1582-01-23T00:59:59.999999+02:00", "America/Nuuk", [], ["mon", "thu"], Shift.NEXT),
    ("30 23 * * tue; 0 9 1 1 *", "America/Nuuk", [], ["tue"], None),
    ("R/2026-01-05T09:00:00/P1M; 0 9 1 1 *", "Europe/Paris", FIFTHS, [], Shift.NEXT),
    ("R/2026-01-05T09:00:00Z/P7M; 0 9 1 1 *", "Europe/Paris", FIFTHS, [], None),
    ("every 1 days; */23 0-13,3 * * 7 except every 2 seconds", "Europe/Paris", [], [], None),
    ("every 7 seconds; */7 * * * * *; every 2 minutes", "Europe/Paris", FIFTHS, ["sat", "sun"], None),
    ("R/P2W/9997-04-11T02:00:00Z", "Pacific/Kwajalein", [], ALL_BUT_THURSDAY, Shift.NEXT),
]


@pytest.mark.parametrize(("text", "zone", "dates", "weekdays", "shift"), SLOW)
def test_what_once_took_long_is_fast(
    text: str, zone: str, dates: list[str], weekdays: list[str], shift: Shift | None
) -> None:
    """Rare moments and rows of days off for ever: 8,000 years were looked through, change by change of the clocks."""
    anchor, asked, rng = Moment(72_999_351_061_409_670), Examination(), random.Random(7)
    asked.check(
        Case(text, zone, anchor, Gap.SHIFT, Fold.FIRST, parse_days_off(dates, weekdays), shift), rng, moments=20
    )
    asked.assert_fast()


def test_clocks_of_thousands_of_years_are_not_looked_at() -> None:
    """A count in the year 9998 of what began in our time: since 1980 no clock is apart from UTC by odd seconds."""
    calendar = parse_days_off(FIFTHS, ["sun", "wed"])
    text = "; ".join(f"R/{year}-07-21T00:30:00/P1DT12H" for year in range(2020, 2023))
    far = Case(text, "America/Nuuk", Moment(0), Gap.SHIFT, Fold.FIRST, calendar, None)
    asked, schedule = Examination(), read(far)
    assert schedule is not None
    asked.within(lambda anew: count_until(anew, Moment(at("9998-01-01")), Moment(at("9998-12-01")))[0], schedule, far)
    asked.assert_fast()


@pytest.mark.parametrize("shift", list(Shift))
def test_a_row_of_days_off_is_looked_at_all_at_once(shift: Shift) -> None:
    """All its times go to one day: each of its days was looked at for each of them."""
    calendar, asked = parse_days_off(["2026-03-01/2026-05-01"], []), Examination()
    off = Case(f"{DENSE}; every 2 hours", "America/Nuuk", Moment(0), Gap.SHIFT, Fold.FIRST, calendar, shift)
    schedule = read(off)
    assert schedule is not None
    day = at("2026-05-02 06:00" if shift is Shift.NEXT else "2026-02-28 06:00")
    told = asked.within(lambda anew: explained(off.text, anew, zone=off.zone, after=day, n=5), schedule, off)
    assert count_until(schedule, day, told.moments[4])[0] == 5
    last = asked.within(lambda anew: anew.last_before(told.moments[4]), schedule, off)
    assert last == told.moments[3]
    asked.assert_fast()


def test_a_day_off_is_not_looked_at_beyond_its_end() -> None:
    """Of a base that has few moments those of years around were looked for, for each day of a row: 22 ms."""
    text = "every 1 days except 32/5 48-55 2-17/1 * * 1-5; 33 * */3 */4 *; 15-39/3,6-4/1 * * sep-apr *"
    calendar = parse_days_off(["2037-02-05/2037-04-07", "2038-09-07/2038-11-07", "2039-02-05/2039-04-07"], [])
    rare = Case(text, "America/St_Johns", Moment(0), Gap.SHIFT, Fold.BOTH, calendar, Shift.NEXT)
    asked, schedule = Examination(), read(rare)
    assert schedule is not None
    asked.within(lambda anew: anew.last_before(at("2038-11-08")), schedule, rare)
    asked.assert_fast()


@pytest.mark.parametrize("shift", list(Shift))
@pytest.mark.parametrize(("text", "expected"), [("* * * * *", 30 * 1_440), ("* * * * * *", 30 * 86_400)])
def test_a_month_that_is_moved_is_not_walked(text: str, expected: int, shift: Shift) -> None:
    """Thirty days off go to one day that has all their times already."""
    schedule = on_business_days(parse_schedule(text), parse_days_off(["2026-10-01/2026-10-30"], []), shift, "UTC")
    days = 60 - 30
    assert count_until(schedule, Moment(at("2026-09-01") - 1), Moment(at("2026-10-31") - 1))[0] == expected * days // 30


def test_a_year_of_many_overlapping_members_is_counted() -> None:
    """As many as there are moments of any of them."""
    members = [f"{n}/7 {n}-23 {n + 1}-31 * *" for n in range(20)]
    schedule = parse_schedule("; ".join(members))
    start, stop = at("2026-03-01"), at("2026-03-10")
    moments = set()
    for member in map(parse_schedule, members):
        moment = member.next_after(start)
        while moment is not None and moment <= stop:
            moments.add(moment)
            moment = member.next_after(moment)
    assert count_until(schedule, start, stop)[0] == len(moments)


def test_intervals_that_meet_in_many_ways_are_counted_in_steps() -> None:
    """Each second of a year is compared for each of them, a day at a time."""
    schedule = parse_schedule("; ".join(f"every {n} seconds" for n in range(7, 71)))
    assert count_until(schedule, at("2026-01-01"), at("2027-01-01"), lambda: True)[1] <= at("2026-01-02")
    hour = set(range(1, 3_601)) & {at for n in range(7, 71) for at in range(n, 3_601, n)}
    assert count_until(schedule, Moment(0), Moment(3_600_000_000))[0] == len(hour)


def test_intervals_of_parts_of_a_second_are_counted_together() -> None:
    """Every 0.25 s and every 0.3 s meet every 1.5 s; what is left without every 0.5 s, too."""
    start, stop = at("2026-01-01T00:00:00"), at("2026-01-01T01:00:00")
    both = parse_schedule("R/2026-01-01T00:00:00Z/PT0.25S; R/2026-01-01T00:00:00Z/PT0.3S")
    assert count_until(both, start, stop)[0] == 3_600 * 4 + 12_000 - 2_400
    left = parse_schedule("R/2026-01-01T00:00:00Z/PT0.25S except R/2026-01-01T00:00:00Z/PT0.5S; * * * * * *")
    assert count_until(left, start, stop)[0] == 3_600 * 2


def test_what_drifts_through_seconds_is_not_moved() -> None:
    """A quarter of a second has no place on another day; the error names the field."""
    with pytest.raises(InvalidSchedule) as caught:
        on_business_days(
            parse_schedule("R/2026-01-01T00:00:00Z/PT0.25S"), parse_days_off([], ["sat"]), Shift.NEXT, "UTC"
        )
    assert caught.value.field == "shift"


def test_intervals_of_seconds_are_not_moved() -> None:
    """Each second of the minute would be moved by itself; what is on days off can still be left out."""
    monday_off = parse_days_off([], ["mon"])
    with pytest.raises(InvalidSchedule, match="whole minutes") as caught:
        on_business_days(parse_schedule("every 529 seconds; 0 9 * * *"), monday_off, Shift.PREVIOUS, "UTC")
    assert "no shift" in str(caught.value.allowed)
    left = on_business_days(parse_schedule("every 10 seconds"), monday_off, None, "UTC")
    assert count_until(left, at("2026-01-01"), at("2026-01-08"))[0] == 6 * 8_640


def test_a_text_has_so_many_characters() -> None:
    """It is read in one step, so that a longer one would hold a node's loop; the error says how many are allowed."""
    minutes = ",".join(str(n % 60) for n in range(6_000))
    for text in (f"{minutes} * * * *", [f"{minutes[:3_000]} * * * *"] * 2, "except " * 600):
        with pytest.raises(InvalidSchedule, match="characters") as caught:
            parse_schedule(text)
        assert caught.value.field == "schedule"
        assert "4096" in str(caught.value.allowed)


def test_days_and_parts_of_a_second_are_combined() -> None:
    """Such moments are bits of the parts of a minute on which they lie."""
    schedule = parse_schedule("R/2026-01-01T00:00:00Z/P1DT0.5S; * * * * *")
    assert count_until(schedule, at("2026-01-01"), at("2026-01-11"))[0] == 10 * 1_440 + 9


def test_a_calendar_has_so_many_dates_of_every_year() -> None:
    """With all of them off no business day would be left, and a search would never end."""
    dates = [f"{month:02}-{day:02}" for month in range(1, 6) for day in range(1, 29)]
    with pytest.raises(InvalidInput, match="of every year") as caught:
        parse_days_off(dates, [])
    assert caught.value.field == "dates"


def test_an_anchor_beyond_the_calendar_is_refused() -> None:
    """By an error that names it, as somebody may ask what a text means in the year 9999."""
    far = Case("every 2 seconds", "UTC", Moment(253_402_300_799_000_000), Gap.SHIFT, Fold.FIRST, None, None)
    assert read(far) is None


def test_times_that_a_rule_always_skips_are_found_where_it_did_not_hold() -> None:
    """The fifth Sunday of March has been the change of clocks in Berlin since 1981: before it there were such times."""
    schedule = parse_schedule("30 2 * 3 0#5", zone="Europe/Berlin", gap=Gap.SKIP)
    assert schedule.last_before(at("6678-01-01")) == at("1980-03-30 01:30")
    assert schedule.next_after(at("1981-01-01")) is None


def test_a_year_that_is_named_is_found_beside_times_that_a_rule_always_skips() -> None:
    """The search passed it: after 60 years of gaps it said that there is no more, and the job was finished."""
    text = "30 2 * 3 0#5; 0 0 12 1 6 ? 2150"
    schedule = parse_schedule(text, zone="Europe/Andorra", gap=Gap.SKIP)
    assert schedule.next_after(at("2000-01-01")) == schedule.last_before(at("2994-01-01")) == at("2150-06-01 10:00")
    assert schedule.next_after(at("2150-06-02")) is None
    named = Case(text, "Europe/Andorra", Moment(0), Gap.SKIP, Fold.FIRST, None, None)
    asked = Examination()
    asked.within(lambda anew: anew.next_after(at("2000-01-01")), schedule, named)
    asked.within(lambda anew: anew.last_before(at("2994-01-01")), schedule, named)
    asked.assert_fast()


def test_what_is_moved_beyond_the_calendar_is_found_from_behind() -> None:
    """The last day of 9998 is a Thursday: what is moved from it comes on the day after it, from both sides."""
    schedule = on_business_days(parse_schedule("0 0 * * *"), parse_days_off([], ["thu"]), Shift.NEXT, "UTC")
    last = schedule.last_before(Moment(at("9998-12-31") + 30 * DAY))
    assert last is not None
    assert schedule.next_after(Moment(last - 1)) == last
