"""ISO 8601 repeating intervals; vectors of Kala from `reference/kala.md` §4 and our differences from it."""

import pytest

from tests.unit.schedules.test_cron_vectors import at
from tokimori.clock import DAY, SECOND, Moment
from tokimori.errors import InvalidSchedule
from tokimori.schedules.counting import count_until
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import Fold, Gap, next_moments

LOS_ANGELES = "America/Los_Angeles"

KALA_RECURRENCE = [
    ("2020-01-13T14:09", "P1D", ["2020-01-13 14:09", "2020-01-14 14:09", "2020-01-15 14:09", "2020-01-16 14:09"]),
    ("2020-03-05T14:09", "P1D", ["2020-03-05 14:09", "2020-03-06 14:09", "2020-03-07 14:09", "2020-03-08 14:09"]),
    (
        "2020-03-05T14:09",
        "PT24H",
        ["2020-03-05 14:09", "2020-03-06 14:09", "2020-03-07 14:09", "2020-03-08 15:09", "2020-03-09 15:09"],
    ),
    ("2020-01-13T14:09", "P1W", ["2020-01-13 14:09", "2020-01-20 14:09", "2020-01-27 14:09", "2020-02-03 14:09"]),
    ("2020-01-20T14:09", "P1M", [f"2020-{month:02}-20 14:09" for month in range(1, 13)] + ["2021-01-20 14:09"]),
    ("2020-01-20T14:09", "P1Y", [f"{year}-01-20 14:09" for year in range(2020, 2026)]),
]

ACCEPTED = [
    ("R/2026-01-01T00:00:00Z/PT10S", "R/2026-01-01T00:00:00Z/PT10S"),
    ("R2/2026-01-01T00:00:00Z/PT2H", "R2/2026-01-01T00:00:00Z/PT2H"),
    ("R2/2026-01-01T00:00:00.5Z/P1DT1H", "R2/2026-01-01T00:00:00.500000Z/P1DT1H"),
    ("R007/2026-01-01T00:00:00+00:00/P7D", "R7/2026-01-01T00:00:00Z/P1W"),
    ("R-1/2026-01-01T00:00:00/P14M", "R/2026-01-01T00:00:00/P1Y2M"),
    ("R/2026-01-01T00:00:00+05:45/P1Y2M10DT2H30M15S", "R/2026-01-01T00:00:00+05:45/P1Y2M10DT2H30M15S"),
    ("R/2026-01-01T00:00:00Z/PT1.5S", "R/2026-01-01T00:00:00Z/PT1.5S"),
    ("R/2026-01-01T00:00:00Z/PT0,5H", "R/2026-01-01T00:00:00Z/PT30M"),
    ("R/2026-01-01T00:00:00Z/PT36H", "R/2026-01-01T00:00:00Z/PT36H"),
    ("R/2026-01-01T00:00:00Z/P1WT1H", "R/2026-01-01T00:00:00Z/P1WT1H"),
    ("R3/PT1H/2026-01-01T00:00:00Z", "R3/PT1H/2026-01-01T00:00:00Z"),
    ("R3/2026-01-01T00:00:00Z/2026-01-01T06:00:00Z", "R3/2026-01-01T00:00:00Z/2026-01-01T06:00:00Z"),
]

REFUSED = [
    ("2/2026-01-01T00:00:00Z/PT1S", "repeats"),
    ("R+3/2026-01-01T00:00:00Z/PT1S", "repeats"),
    ("xR2/2026-01-01T00:00:00Z/PT1S", "repeats"),
    ("R2R3/2026-01-01T00:00:00Z/PT1S", "repeats"),
    ("RR2/2026-01-01T00:00:00Z/PT1S", "repeats"),
    ("R2.5/2026-01-01T00:00:00Z/PT1S", "repeats"),
    ("R9999999999/2026-01-01T00:00:00Z/PT1S", "repeats"),
    ("R/2026-01-01T00:00:00Z", "schedule"),
    ("R/2026-01-01T00:00:00Z/PT1S/PT1S", "schedule"),
    ("R/2026-01-01/PT1S", "start"),
    ("R/20260101T000000Z/PT1S", "start"),
    ("R/2026-01-01T24:00:00Z/PT1S", "start"),
    ("R/2026-02-30T00:00:00Z/PT1S", "start"),
    ("R/2026-01-01T00:00:00+25:00/PT1S", "start"),
    ("R//PT1S", "start"),
    ("R/9999-12-31T00:00:00Z/PT1S", "start"),
    ("R/PT1S/0001-01-01T00:00:00", "end"),
    ("R/2026-01-01T00:00:00Z/", "period"),
    ("R/2026-01-01T00:00:00Z/P", "period"),
    ("R/2026-01-01T00:00:00Z/PT", "period"),
    ("R/2026-01-01T00:00:00Z/P1DT", "period"),
    ("R/2026-01-01T00:00:00Z/P-1D", "period"),
    ("R/2026-01-01T00:00:00Z/-PT1S", "period"),
    ("R/2026-01-01T00:00:00Z/PT1S1M", "period"),
    ("R/2026-01-01T00:00:00Z/xxP1Dyy", "period"),
    ("R/2026-01-01T00:00:00Z/PxP1D", "period"),
    ("R/2026-01-01T00:00:00Z/p1d", "period"),
    ("R/2026-01-01T00:00:00Z/T", "period"),
    ("R/2026-01-01T00:00:00Z/DTT", "period"),
    ("R/2026-01-01T00:00:00Z/000D", "period"),
    ("R/2026-01-01T00:00:00Z/P0D", "period"),
    ("R/2026-01-01T00:00:00Z/PT0S", "period"),
    ("R/2026-01-01T00:00:00Z/PT0.0000001S", "period"),
    ("R/2026-01-01T00:00:00Z/P1.5D", "period"),
    ("R/2026-01-01T00:00:00Z/PT1.5.5S", "period"),
    ("R/PT1S/soon", "end"),
    ("R/2026-01-01T00:00:00Z/2026-01-01T00:00:00Z", "end"),
    ("R/2026-01-02T00:00:00Z/2026-01-01T00:00:00Z", "end"),
]


@pytest.mark.parametrize(("start", "period", "expected"), KALA_RECURRENCE)
def test_it_recurs_as_kala_does(start: str, period: str, expected: list[str]) -> None:
    """Kala's recurrence table, for a start without offset in Los Angeles."""
    schedule = parse_schedule(f"R/{start}:00/{period}", zone=LOS_ANGELES)
    assert next_moments(schedule, at("2020-01-01"), len(expected)) == [at(text, LOS_ANGELES) for text in expected]


def test_month_ends_are_counted_from_the_anchor() -> None:
    """31 July plus months is each month's end: it never stays at a shorter one, nor spills over as in Kala."""
    text, start = "R/2020-07-31T14:09:00Z/P1M", at("2020-07-31 14:09")
    clamped = next_moments(parse_schedule(text), start, 4)
    assert clamped == [at(f"2020-{day} 14:09") for day in ("08-31", "09-30", "10-31", "11-30")]


def test_a_leap_day_returns_every_fourth_year() -> None:
    """29 February plus years is the 28th until the next leap year."""
    schedule = parse_schedule("R/2024-02-29T00:00:00Z/P1Y")
    assert next_moments(schedule, at("2024-03-01"), 4) == [
        at(day) for day in ("2025-02-28", "2026-02-28", "2027-02-28", "2028-02-29")
    ]


@pytest.mark.parametrize(("text", "printed"), ACCEPTED)
def test_it_prints_the_plain_form(text: str, printed: str) -> None:
    """The parts stay, each in its shortest form, and are read back as the same schedule."""
    assert str(parse_schedule(text)) == printed
    assert parse_schedule(printed) == parse_schedule(text)


@pytest.mark.parametrize(("text", "field"), REFUSED)
def test_an_error_names_the_part(text: str, field: str) -> None:
    """What Kala reads with luck, or crashes on, is refused with the name of the part."""
    with pytest.raises(InvalidSchedule) as caught:
        parse_schedule(text)
    assert caught.value.field == field
    assert caught.value.allowed


@pytest.mark.parametrize(("repeats", "moments"), [("R0", 1), ("R2", 3), ("R5", 6)])
def test_repeats_come_after_the_first(repeats: str, moments: int) -> None:
    """Rn has n + 1 moments, from whichever end it is anchored."""
    for rest in ("2026-01-01T00:00:00Z/PT1H", "PT1H/2026-01-01T00:00:00Z"):
        schedule = parse_schedule(f"{repeats}/{rest}")
        assert len(next_moments(schedule, at("2025-01-01"), 10)) == moments
        assert count_until(schedule, at("2025-01-01"), at("2027-01-01"))[0] == moments


def test_an_interval_with_an_end_goes_back_from_it() -> None:
    """R2/P1M/31 March ends there, having clamped in February."""
    schedule = parse_schedule("R2/P1M/2026-03-31T00:00:00Z")
    assert next_moments(schedule, at("2025-01-01"), 9) == [at("2026-01-31"), at("2026-02-28"), at("2026-03-31")]
    unbounded = parse_schedule("R/P1M/2026-03-31T00:00:00Z")
    assert unbounded.last_before(at("1990-01-01")) == at("1989-12-31")
    assert unbounded.next_after(at("2026-03-31")) is None


def test_between_a_start_and_an_end_passes_exact_time() -> None:
    """R/start/end repeats the time between them: 23 hours, where a day in Paris has 23."""
    schedule = parse_schedule("R/2026-03-29T00:00:00/2026-03-30T00:00:00", zone="Europe/Paris")
    assert next_moments(schedule, at("2026-03-29"), 2) == [at("2026-03-30 00:00+02:00"), at("2026-03-30 23:00+02:00")]


def test_calendar_units_follow_the_zone_of_the_start() -> None:
    """Without an offset days are counted on the clock of the job; with one, at that offset all year."""
    after = at("2026-03-28 12:00")
    own = parse_schedule("R/2026-01-01T09:00:00/P1D", zone="Europe/Paris")
    assert own.next_after(after) == at("2026-03-29 09:00+02:00")
    fixed = parse_schedule("R/2026-01-01T09:00:00+01:00/P1D", zone="Europe/Paris")
    assert fixed.next_after(after) == at("2026-03-29 09:00+01:00")


def test_gaps_and_folds_concern_calendar_units() -> None:
    """A swallowed day's time is shifted or skipped; a doubled one counts once or twice."""
    text, before = "R/2026-01-01T02:30:00/P1D", at("2026-03-28 12:00")
    assert parse_schedule(text, zone="Europe/Paris").next_after(before) == at("2026-03-29 03:00+02:00")
    skipping = parse_schedule(text, zone="Europe/Paris", gap=Gap.SKIP)
    assert skipping.next_after(before) == at("2026-03-30 02:30+02:00")
    october = at("2026-10-24 12:00"), at("2026-10-25 12:00")
    assert count_until(parse_schedule(text, zone="Europe/Paris"), *october)[0] == 1
    assert count_until(parse_schedule(text, zone="Europe/Paris", fold=Fold.BOTH), *october)[0] == 2


def test_a_mixed_period_adds_its_calendar_part_first() -> None:
    """P1MT1H: n months on the wall clock, then n hours that pass."""
    schedule = parse_schedule("R/2026-01-31T10:00:00/P1MT1H", zone="Europe/Paris")
    assert next_moments(schedule, at("2026-01-31"), 3) == [
        at("2026-01-31 10:00+01:00"),
        at("2026-02-28 11:00+01:00"),
        at("2026-03-31 12:00+02:00"),
    ]


def test_after_years_the_next_moment_is_found_without_a_walk() -> None:
    """The millionth moment costs no more than the first, with a fraction of a second too."""
    schedule = parse_schedule("R/1980-01-01T00:00:00Z/PT0.25S")
    now = at("2026-01-01")
    assert schedule.next_after(now) == now + SECOND // 4
    assert count_until(schedule, at("1980-01-01"), now)[0] == (now - at("1980-01-01")) * 4 // SECOND
    monthly = parse_schedule("R/0002-01-31T00:00:00Z/P1M")
    assert monthly.next_after(now) == at("2026-01-31")


def test_it_ends_with_the_calendar() -> None:
    """A step beyond the year 9998 is no moment."""
    for period in ("P9000Y", "P999999M", "P999999D", "P9000YT1S"):
        schedule = parse_schedule(f"R/2026-01-01T00:00:00Z/{period}")
        assert schedule.next_after(Moment(at("2026-01-01") + 700_000 * DAY)) is None or period == "P999999D"
        assert schedule.last_before(at("2026-01-01")) is None
        assert count_until(schedule, at("2025-01-01"), at("2026-02-01"))[0] == 1
