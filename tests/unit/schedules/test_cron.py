"""Cron expressions: their fields, their printing, their errors and their rules where clocks jump."""

import pytest

from tests.unit.schedules.test_cron_vectors import at
from tokimori.clock import DAY, HOUR, Moment
from tokimori.errors import InvalidSchedule
from tokimori.schedules.counting import count_until
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import Fold, Gap, next_moments
from tokimori.schedules.sentence import sentence

PRINTED = [
    ("*/5 * * * *", "*/5 * * * *"),
    ("0-59/5 * * * *", "0,5,10,15,20,25,30,35,40,45,50,55 * * * *"),
    ("0 0 * jan-mar MON", "0 0 * 1-3 1"),
    ("0 0 9 * * 1-5", "0 9 * * 1-5"),
    ("30 0 9 * * *", "30 0 9 * * *"),
    ("0 22-2 * * 7", "0 0-2,22,23 * * 0"),
    ("*/7,3 * * * *", "*/7,3 * * * *"),
    ("*/90 * * * *", "*/60 * * * *"),
    ("0 0 l,lw,15w,L-3 * fri#2,6L", "0 0 15W,L,L-3,LW * 5#2,6L"),
    ("0 0 ? * ?", "0 0 * * *"),
    ("0 0 0 1 1 * 2030-2032", "0 0 0 1 1 * 2030-2032"),
    ("0 30 9 * * * *", "30 9 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("5/20 1-1 * * *", "5,25,45 1 * * *"),
]

BAD = [
    ("60 * * * *", "minute", "60"),
    ("* 9-24 * * *", "hour", "9-24"),
    ("0 0 0 * *", "day of month", "0"),
    ("0 0 L-31 * *", "day of month", "L-31"),
    ("0 0 0W * *", "day of month", "0W"),
    ("0 0 * 13 *", "month", "13"),
    ("0 0 * feb-xyz *", "month", "feb-xyz"),
    ("0 0 * * 8", "day of week", "8"),
    ("0 0 * * 5#6", "day of week", "5#6"),
    ("0 0 * * 5#0", "day of week", "5#0"),
    ("0 0 * * jan", "day of week", "jan"),
    ("0 0 * * L", "day of week", "L"),
    ("60 0 0 * * *", "second", "60"),
    ("0 0 0 1 1 * 1969", "year", "1969"),
    ("0 0 0 1 1 * 2040-2030", "year", "2040-2030"),
    ("*/0 * * * *", "minute", "*/0"),
    ("1,,2 * * * *", "minute", ""),
    ("? * * * *", "minute", "?"),
    ("٣ * * * *", "minute", "٣"),
    ("1- * * * *", "minute", "1-"),
    ("0 0 30 2 *", "day of month", "30"),
    ("0 0 31 4,6,9,11 *", "day of month", "31"),
    ("0 0 0 29 2 * 2027", "day of month", "29"),
    ("0 0 31W 2 *", "day of month", "31W"),
    ("* * * *", "schedule", "* * * *"),
    ("* * * * * * * *", "schedule", "* * * * * * * *"),
]


@pytest.mark.parametrize(("text", "printed"), PRINTED)
def test_it_prints_the_plain_form(text: str, printed: str) -> None:
    """Names become numbers, lists become ranges, and what begins with a star still does."""
    schedule = parse_schedule(text)
    assert str(schedule) == printed
    assert parse_schedule(printed) == schedule


@pytest.mark.parametrize(("text", "field", "value"), BAD)
def test_an_error_names_the_field_the_text_and_what_is_allowed(text: str, field: str, value: str) -> None:
    """Whoever typed it finds the place and a way on."""
    with pytest.raises(InvalidSchedule) as caught:
        parse_schedule(text)
    assert (caught.value.field, caught.value.value) == (field, value)
    assert caught.value.allowed
    assert field in caught.value.message


def test_an_equal_range_is_one_value() -> None:
    """`22-22` is ten in the evening, not every hour."""
    assert parse_schedule("0 22-22 * * *") == parse_schedule("0 22 * * *")


def test_a_star_is_not_the_full_range() -> None:
    """`0-59` and `*` have the same minutes but other rules where clocks jump, so they are two schedules."""
    assert parse_schedule("0-59 2 * * *") != parse_schedule("* 2 * * *")


def test_a_fixed_time_in_a_gap_runs_once_right_after_it() -> None:
    """All the fixed times that a gap swallows share one moment; gap = skip has none on that day."""
    text, start = "10,20,30 2 * * *", at("2026-03-28 12:00", "Europe/Paris")
    found = next_moments(parse_schedule(text, zone="Europe/Paris"), start, 2)
    assert found == [at("2026-03-29 03:00+02:00"), at("2026-03-30 02:10+02:00")]
    skipping = parse_schedule(text, zone="Europe/Paris", gap=Gap.SKIP)
    assert skipping.next_after(start) == at("2026-03-30 02:10+02:00")


def test_a_fixed_time_at_the_end_of_a_gap_is_not_doubled() -> None:
    """Where a swallowed time and a time at the end of the gap meet, there is one moment, and one is counted."""
    schedule = parse_schedule("0 2,3 * * *", zone="Europe/Paris")
    start = at("2026-03-28 12:00", "Europe/Paris")
    assert next_moments(schedule, start, 2) == [at("2026-03-29 03:00+02:00"), at("2026-03-30 02:00+02:00")]
    assert count_until(schedule, start, Moment(start + DAY))[0] == 1


def test_a_fixed_time_in_a_fold_runs_the_first_time() -> None:
    """fold = first runs 02:30+02:00 only; both runs 02:30+01:00 too."""
    start = at("2026-10-24 12:00", "Europe/Paris")
    first = parse_schedule("30 2 * * *", zone="Europe/Paris")
    assert next_moments(first, start, 2) == [at("2026-10-25 02:30+02:00"), at("2026-10-26 02:30+01:00")]
    both = parse_schedule("30 2 * * *", zone="Europe/Paris", fold=Fold.BOTH)
    assert next_moments(both, start, 2) == [at("2026-10-25 02:30+02:00"), at("2026-10-25 02:30+01:00")]


def test_the_lost_day_of_apia_runs_its_fixed_times_at_its_end() -> None:
    """2011-12-30 did not exist in Apia: what was fixed on it runs when the 31st begins."""
    schedule = parse_schedule("0 9 30 12 *", zone="Pacific/Apia")
    assert schedule.next_after(at("2011-12-01")) == at("2011-12-31 00:00+14:00")
    assert schedule.last_before(at("2012-01-05")) == at("2011-12-31 00:00+14:00")


def test_a_time_that_is_always_in_a_gap_never_comes() -> None:
    """New York's clocks always skip 02:30 on the second Sunday of March: the search ends, in both directions."""
    schedule = parse_schedule("*/30 2 * 3 0#2", zone="America/New_York")
    assert schedule.next_after(at("2026-01-01")) is None
    assert schedule.last_before(at("2026-01-01")) == at("2006-03-12 02:30-05:00")


def test_the_rarest_date_is_found_within_bounds() -> None:
    """A 29 February that is a Monday comes after up to 40 years, across 2100 too."""
    schedule = parse_schedule("0 0 29 2 */7,1")
    assert str(schedule) == "0 0 29 2 */7,1"
    assert parse_schedule("0 0 29 2 */1").next_after(at("2096-03-01")) == at("2104-02-29")


def test_counting_a_year_of_seconds_needs_no_walk() -> None:
    """31,536,000 moments are counted, as are those of a century, in folds and gaps too."""
    start = at("2026-01-01", "Europe/Paris")
    schedule = parse_schedule("* * * * * *", zone="Europe/Paris")
    assert count_until(schedule, start, Moment(start + 365 * DAY))[0] == 31_536_000
    hourly = parse_schedule("0 * * * *", zone="Europe/Paris")
    assert count_until(hourly, start, Moment(start + 36_500 * DAY))[0] == 36_500 * DAY // HOUR


def test_a_moment_within_a_second_counts_as_after_its_second() -> None:
    """Microseconds are neither lost nor rounded up."""
    schedule = parse_schedule("* * * * * *")
    assert schedule.next_after(Moment(1)) == 1_000_000
    assert schedule.next_after(Moment(999_999)) == 1_000_000
    assert schedule.next_after(Moment(1_000_000)) == 2_000_000
    assert schedule.last_before(Moment(1_000_001)) == 1_000_000
    assert schedule.last_before(Moment(1_000_000)) == 0


def test_it_ends_with_the_calendar() -> None:
    """After the year 9998 and before the year 1 there is nothing, and no error."""
    schedule = parse_schedule("0 0 1 1 *", zone="Asia/Tokyo")
    assert schedule.next_after(Moment(2**60)) is None
    assert schedule.last_before(Moment(-(2**60))) is None
    assert count_until(schedule, Moment(-(2**55)), Moment(-(2**55) + 1))[0] == 0


def test_the_year_bounds_the_schedule() -> None:
    """Seven fields: the last one is the year."""
    schedule = parse_schedule("0 0 12 1 1 ? 2030,2035")
    assert next_moments(schedule, at("2026-01-01"), 3) == [at("2030-01-01 12:00"), at("2035-01-01 12:00")]
    assert schedule.last_before(at("2026-01-01")) is None
    assert schedule.last_before(at("2300-01-01")) == at("2035-01-01 12:00")
    assert schedule.next_after(at("0900-01-01")) == at("2030-01-01 12:00")
    assert count_until(schedule, at("0900-01-01"), at("2300-01-01"))[0] == 2


def test_hashed_values_are_stable_and_spread() -> None:
    """`H` gives the same value for the same job for ever, and a thousand jobs nearly all minutes."""
    assert str(parse_schedule("H H * * *", job_id="nightly")) == str(parse_schedule("H H * * *", job_id="nightly"))
    texts = {str(parse_schedule("H * * * *", job_id=f"job-{n}")) for n in range(1000)}
    assert len(texts) > 55
    for n in range(50):
        minutes = str(parse_schedule("H(10-19)/5 * * * *", job_id=f"job-{n}")).split()[0]
        first, second = (int(minute) for minute in minutes.split(","))
        assert 10 <= first < 15
        assert second == first + 5
        weekdays = str(parse_schedule("0 0 * * H(1-7)/2", job_id=f"job-{n}")).split()[4]
        assert weekdays in ("0,1,3,5", "2,4,6")


@pytest.mark.parametrize("text", ["H(5-1) * * * *", "H(0-60) * * * *", "0 0 0 1 1 * H", "HH * * * *", "H/0 * * * *"])
def test_a_bad_hash_is_refused(text: str) -> None:
    """Its range lies within the field and is not reversed; a year can't be spread."""
    with pytest.raises(InvalidSchedule):
        parse_schedule(text)


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("@Daily", "@daily"),
        ("@HOURLY", "@hourly"),
        ("@minutely", "* * * * *"),
        ("0 9 * January,feb-April Monday-fri", "0 9 * 1-4 1-5"),
        ("0 9 * * friday#2", "0 9 * * 5#2"),
        ("0 9 * * SundayL", "0 9 * * 0L"),
        ("0 9 * * wednesday", "0 9 * * 3"),
        ("0 9 l-0w * *", "0 9 LW * *"),
    ],
)
def test_it_may_be_written_in_several_ways(written: str, plain: str) -> None:
    """Macros and names in any case, names short or in full."""
    assert parse_schedule(written) == parse_schedule(plain)


def test_the_working_day_nearest_to_some_days_before_the_last() -> None:
    """As Quartz has it: within the month, and none where the month is too short."""
    near = parse_schedule("0 9 L-5W * *")
    # 26 February 2027 is a Friday: five days before its last day is Tuesday 23.
    assert near.next_after(at("2027-02-01")) == at("2027-02-23 09:00")
    # 25 December 2027 is 6 days before its last, 26 a Sunday: Monday 27 is nearest.
    assert near.next_after(at("2027-12-01")) == at("2027-12-27 09:00")
    # 31 days have a first that is 30 days before the last: a Saturday in May 2027, and no workday before it.
    assert parse_schedule("0 9 L-30W * *").next_after(at("2027-04-01")) == at("2027-05-03 09:00")
    assert str(near) == "0 9 L-5W * *"
    assert "nearest to 5 days before the last of the month" in sentence(near)


def test_what_a_list_cannot_leave_out_is_explained() -> None:
    """`except` belongs to one text; an error says so, and how it is written."""
    with pytest.raises(InvalidSchedule, match="stands in a list") as caught:
        parse_schedule(["0 9 * * *", "0 10 * * * except * * 24 12 *"])
    assert caught.value.allowed == "`except` in one text: `A; B except C`"


@pytest.mark.parametrize(
    ("text", "hints"),
    [
        ("0 0 1 1 * 2030", ["`0 0 0 1 1 * 2030`", "`at 2030-01-01T00:00:00`"]),
        ("*/5 9 1 1 mon 2030-2032", ["`0 */5 9 1 1 mon 2030-2032`"]),
        ("0 12 * * ? *", ["`0 0 12 * * ? *`"]),
        ("0 12 ? * MON-FRI *", ["`0 0 12 ? * MON-FRI *`"]),
    ],
)
def test_six_fields_with_a_year_are_explained(text: str, hints: list[str]) -> None:
    """Others write the year sixth; here the first of six is the second, so both ways to mean it are said."""
    with pytest.raises(InvalidSchedule, match="in AWS the sixth is the year") as caught:
        parse_schedule(text, zone="UTC", anchor=Moment(0))
    assert caught.value.field in {"day of week", "month", "hour"}
    for hint in hints:
        assert hint in str(caught.value.allowed)
        parse_schedule(hint.strip("`"), zone="UTC", anchor=Moment(0))


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("cron(0 12 * * ? *)", "`0 0 12 * * ? *`"),
        ("rate(5 minutes)", "`every 5 minutes`"),
        ("rate(1 hour)", "`every 1 hour`"),
        ("at(2026-11-20T13:00:00)", "`at 2026-11-20T13:00:00`"),
    ],
)
def test_a_text_of_aws_is_refused_with_the_same_in_our_words(text: str, ours: str) -> None:
    """The message names AWS, and what it says instead is a schedule."""
    with pytest.raises(InvalidSchedule, match="as for AWS") as caught:
        parse_schedule(text)
    assert str(caught.value.allowed).startswith(ours)
    parse_schedule(ours.strip("`"))
