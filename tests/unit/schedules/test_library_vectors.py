"""Where cron and date libraries are silently wrong (`reference/libraries.md` §1 and §2), and what is right.

What the best of other systems can say stands here too: the rows 1 to 13 of `reference/field.md` §2.
"""

import pytest

from tests.unit.schedules.test_cron_vectors import at
from tokimori.schedules.counting import count_until
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import next_moments

PARIS, CAIRO = "Europe/Paris", "Africa/Cairo"

CRON = [
    # 30 2 * * *: crontab, cron-converter and APScheduler name an imaginary time; croniter and APScheduler run twice
    ("30 2 * * *", PARIS, "2026-03-28 12:00", ["2026-03-29 03:00+02:00", "2026-03-30 02:30+02:00"]),
    ("30 2 * * *", PARIS, "2026-10-24 12:00", ["2026-10-25 02:30+02:00", "2026-10-26 02:30+01:00"]),
    # */30 * and 30 *: crontab and cron-converter lose the repeated hour
    (
        "*/30 * * * *",
        PARIS,
        "2026-10-25 01:45",
        [f"2026-10-25 {shown}" for shown in ("02:00+02:00", "02:30+02:00", "02:00+01:00", "02:30+01:00")],
    ),
    ("30 * * * *", PARIS, "2026-10-25 01:45", ["2026-10-25 02:30+02:00", "2026-10-25 02:30+01:00"]),
    # cronsim loses a whole year where midnight does not exist
    ("* 1 6 9 *", "America/Santiago", "2026-09-05 12:00", ["2026-09-06 01:00-03:00", "2026-09-06 01:01-03:00"]),
    # cronsim skips the last day of April, or names a midnight that does not exist
    ("0 1,21 L * *", CAIRO, "2027-04-29 22:00", ["2027-04-30 01:00+03:00", "2027-04-30 21:00+03:00"]),
    ("* 1,21 L * *", CAIRO, "2027-04-29 22:00", ["2027-04-30 01:00+03:00", "2027-04-30 01:01+03:00"]),
    ("* 5,0,8 * * 5L", CAIRO, "2026-04-23 12:00", ["2026-04-24 05:00+03:00", "2026-04-24 05:01+03:00"]),
    # APScheduler counts from Monday and refuses 7; it ignores #2
    ("0 9 * * 1-5", "UTC", "2026-01-02 12:00", ["2026-01-05 09:00", "2026-01-06 09:00"]),
    ("0 9 * * MON#2", "UTC", "2026-01-01", ["2026-01-12 09:00", "2026-02-09 09:00"]),
    # croniter reads an equal range as the whole cycle
    ("0 22-22 * * *", "UTC", "2026-01-01", ["2026-01-01 22:00", "2026-01-02 22:00"]),
    ("0 0 * * 1-1", "UTC", "2026-01-01", ["2026-01-05", "2026-01-12"]),
    # croniter puts seconds last, crontab reads a sixth field as the year
    ("30 0 9 * * *", "UTC", "2026-01-01", ["2026-01-01 09:00:30", "2026-01-02 09:00:30"]),
    ("0 22-2 * * *", "UTC", "2026-01-01 12:00", ["2026-01-01 22:00", "2026-01-01 23:00", "2026-01-02 00:00"]),
    ("0 0 L-3 * *", "UTC", "2026-01-01", ["2026-01-28", "2026-02-25"]),
    ("0 0 LW * *", "UTC", "2026-01-01", ["2026-01-30", "2026-02-27"]),
    ("0 0 * * 5L", "UTC", "2026-01-01", ["2026-01-30", "2026-02-27"]),
    # cronsim gives up after 50 years, croniter knows ten 29 Februaries
    ("0 0 0 29 2 * 2196", "UTC", "2026-01-01", ["2196-02-29"]),
]

DATES = [
    # anchored, never iterated: iterated, the third step is 28 April
    ("R/2026-01-31T00:00:00Z/P1M", "UTC", "2026-01-31", ["2026-02-28", "2026-03-31", "2026-04-30"]),
    # the standard library, isodate and dateutil add hours on the wall clock: 02:30+02:00 + 1 h is 02:30+01:00
    ("R/2026-10-25T01:30:00/PT1H", PARIS, "2026-10-25 01:30", ["2026-10-25 02:30+02:00", "2026-10-25 02:30+01:00"]),
    # + 1 day into a gap is an imaginary time with these
    ("R/2026-03-28T02:30:00/P1D", PARIS, "2026-03-28 12:00", ["2026-03-29 03:00+02:00", "2026-03-30 02:30+02:00"]),
    # pendulum makes 36 hours one calendar day and 12 hours
    ("R/2026-03-28T12:00:00/PT36H", PARIS, "2026-03-28 12:00", ["2026-03-30 01:00+02:00", "2026-03-31 13:00+02:00"]),
    # pendulum refuses weeks beside years
    ("R/2026-01-01T00:00:00Z/P1Y2W", "UTC", "2026-01-01", ["2027-01-15", "2028-01-29"]),
    # no library parses it; it is found without a walk after years of downtime
    ("R5/2026-01-01T00:00:00Z/P1D", "UTC", "2025-01-01", [f"2026-01-0{day}" for day in range(1, 7)]),
    ("R/1990-01-01T00:00:00Z/PT7S", "UTC", "2026-01-01", ["2026-01-01 00:00:03"]),
]

FIELD = [
    ("0 0 12 ? * MON-FRI 2030", "UTC", "2026-01-01", ["2030-01-01 12:00", "2030-01-02 12:00"]),  # 2: Quartz, Temporal
    ("*/15 * * * * *", "UTC", "2026-01-01", ["2026-01-01 00:00:15", "2026-01-01 00:00:30"]),
    ("R/2026-01-01T00:00:00Z/PT0.1S", "UTC", "2026-01-01", ["2026-01-01 00:00:00.100000"]),
    ("0 0 L-6 * *", "UTC", "2026-02-01", ["2026-02-22", "2026-03-25"]),  # 3: xyOps -7
    ("R2/2026-01-01T00:00:00Z/2026-01-01T06:00:00Z", "UTC", "2026-01-01", ["2026-01-01 06:00", "2026-01-01 12:00"]),
    ("R2/PT6H/2026-01-01T12:00:00Z", "UTC", "2025-01-01", ["2026-01-01 00:00", "2026-01-01 06:00", "2026-01-01 12:00"]),
    ("at 2030-01-01T00:00:00Z", "UTC", "2026-01-01", ["2030-01-01"]),  # 6
    ("0 9 * * 1; 0 12 * * 0 except * * 4 1 *", "UTC", "2026-01-01", ["2026-01-05 09:00", "2026-01-11 12:00"]),  # 7
]


@pytest.mark.parametrize(("text", "zone", "start", "expected"), CRON)
def test_cron_is_right_where_libraries_are_wrong(text: str, zone: str, start: str, expected: list[str]) -> None:
    """The moments after the start, on the wall clock of the zone."""
    assert next_moments(parse_schedule(text, zone=zone), at(start, zone), len(expected)) == [at(e) for e in expected]


@pytest.mark.parametrize(("text", "zone", "start", "expected"), DATES)
def test_dates_are_right_where_libraries_are_wrong(text: str, zone: str, start: str, expected: list[str]) -> None:
    """Calendar units on the wall clock, hours in the time that passes, all counted from the anchor."""
    assert next_moments(parse_schedule(text, zone=zone), at(start, zone), len(expected)) == [at(e) for e in expected]


@pytest.mark.parametrize(("text", "zone", "start", "expected"), FIELD)
def test_what_the_best_of_others_can_say(text: str, zone: str, start: str, expected: list[str]) -> None:
    """Each can be said in one text."""
    assert next_moments(parse_schedule(text, zone=zone), at(start, zone), len(expected)) == [at(e) for e in expected]


def test_the_previous_moments_are_asked_as_easily_as_the_next() -> None:
    """Row 13: back from a moment, and how many lie between two."""
    schedule = parse_schedule("0 9 * * 1-5", zone=PARIS)
    assert schedule.last_before(at("2026-01-05 09:00+01:00")) == at("2026-01-02 09:00+01:00")
    assert count_until(schedule, at("2026-01-01"), at("2027-01-01"))[0] == 261
