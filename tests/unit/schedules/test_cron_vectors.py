"""What PerfectSched's chrono gem answers (`reference/perfectsched.md` §4), and where Tokimori differs on purpose.

Chrono knows no rule for gaps and folds: it runs whenever the clock shows the time, which is gap = skip and fold = both.
"""

from datetime import datetime

import pytest

from tokimori.clock import Moment, from_datetime
from tokimori.errors import InvalidSchedule
from tokimori.schedules.cron import Dialect, rewrite
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import Fold, Gap, Schedule, next_moments
from tokimori.schedules.zones import zone_info


def at(text: str, zone: str = "UTC") -> Moment:
    """The moment of a local time with its offset, or of a time in the zone."""
    read = datetime.fromisoformat(text)
    return from_datetime(read if read.tzinfo else read.replace(tzinfo=zone_info(zone)))


def chrono(text: str, zone: str = "UTC") -> Schedule:
    """The schedule under chrono's rules for clock jumps."""
    return parse_schedule(text, zone=zone, gap=Gap.SKIP, fold=Fold.BOTH)


FROM_NEW_YEAR = [
    ("0 * * * *", "2026-01-01 01:00"),
    ("* * * * *", "2026-01-01 00:01"),
    ("*/7 * * * *", "2026-01-01 00:07"),
    ("0,30 * * * *", "2026-01-01 00:30"),
    ("5-10 * * * *", "2026-01-01 00:05"),
    ("5-10/2 * * * *", "2026-01-01 00:05"),
    ("5/15 * * * *", "2026-01-01 00:05"),
    ("* * * jan *", "2026-01-01 00:01"),
    ("* * * Jan-Mar *", "2026-01-01 00:01"),
    ("* * * JAN,3 *", "2026-01-01 00:01"),
    ("* * * * sun", "2026-01-04 00:00"),
    ("* * * * SUN", "2026-01-04 00:00"),
    ("* * * * 0", "2026-01-04 00:00"),
    ("* * * * 7", "2026-01-04 00:00"),
    ("* * * * sun-tue", "2026-01-04 00:00"),
    ("* * * * mon-fri", "2026-01-01 00:01"),
    ("0 0 13 * 5", "2026-01-02 00:00"),
    ("0 0 29 2 *", "2028-02-29 00:00"),
    ("0 0 1-31 * 1", "2026-01-02 00:00"),
    ("@hourly", "2026-01-01 01:00"),
    ("@daily", "2026-01-02 00:00"),
    ("@weekly", "2026-01-04 00:00"),
    ("@monthly", "2026-02-01 00:00"),
    ("@yearly", "2027-01-01 00:00"),
    ("@annually", "2027-01-01 00:00"),
    (" 0  *  * * * ", "2026-01-01 01:00"),
    ("0\t* * * *", "2026-01-01 01:00"),
    ("0 * * * * ", "2026-01-01 01:00"),
    ("1,2,3,59 0 1,15 * *", "2026-01-01 00:01"),
    ("*,5 * * * *", "2026-01-01 00:01"),
    ("00 00 * * *", "2026-01-02 00:00"),
    ("1-59/58 * * * *", "2026-01-01 00:01"),
]

OURS = [
    ("10-5 * * * *", "2026-01-01 00:01", "ranges wrap: 10-59 and 0-5"),
    ("* * * * 5-7", "2026-01-02 00:00", "Friday to Sunday"),
    ("* * * * fri-sun", "2026-01-02 00:00", "Friday to Sunday"),
    ("0 0 L * *", "2026-01-31 00:00", "the last day of the month"),
    ("0 0 */2 * 1", "2026-01-05 00:00", "Vixie cron: a field that begins with * does not restrict, so both must match"),
    ("0 0 * * */2", "2026-01-03 00:00", "Sunday, Tuesday, Thursday, Saturday"),
    ("0 0 ? * 1", "2026-01-05 00:00", "? is *"),
    ("@midnight", "2026-01-02 00:00", "as in Vixie cron"),
    ("* * * * * *", "2026-01-01 00:00:01", "six fields: seconds first"),
    ("@every 5m", "2026-01-01 00:05", "as in Go's cron"),
]

IN_ITS_DIALECT = [
    ("5/15 * * * *", "2026-01-01 01:05", "2026-01-01 00:05"),
    ("0 0 */2 * 1", "2026-01-03 00:00", "2026-01-01 00:00"),
    ("0 0 * * */2", "2026-01-03 00:00", "2026-01-01 00:00"),
    ("0 0 13 * 5", "2026-01-02 00:00", "2026-01-01 00:00"),
    ("@weekly", "2026-01-04 00:00", "2026-01-01 00:00"),
]

REFUSED = [
    *("*/0 * * * *", "60 * * * *", "-1 * * * *", "a * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 13 *"),
    *("* * * 0 *", "* * * janu *", "* * * * 8", "@Hour", "", "* * * *", "0 *-5 * * *", "1,, * * * *"),
    *(",1 * * * *", "1#2 * * * *", "0 0 30 2 *"),
]

HALF_PAST_TO_FOUR = ("01:40", "02:00", "02:20", "02:40", "03:00", "03:20", "03:40")

AROUND_JUMPS = [
    ("30 2 * * *", "America/New_York", "2026-03-08 01:45", ["2026-03-09 02:30-04:00"]),
    ("0 2 * * *", "America/New_York", "2026-03-08 01:45", ["2026-03-09 02:00-04:00"]),
    ("0 3 * * *", "America/New_York", "2026-03-08 01:45", ["2026-03-08 03:00-04:00"]),
    ("*/30 * * * *", "America/New_York", "2026-03-08 01:45", ["2026-03-08 03:00-04:00"]),
    ("0 * * * *", "America/New_York", "2026-03-08 01:45", ["2026-03-08 03:00-04:00"]),
    ("30 * * * *", "America/New_York", "2026-03-08 01:45", ["2026-03-08 03:30-04:00"]),
    ("30 2 * * *", "America/New_York", "2026-03-07 02:30", ["2026-03-09 02:30-04:00"]),
    (
        "30 1 * * *",
        "America/New_York",
        "2026-10-31 12:00",
        ["2026-11-01 01:30-04:00", "2026-11-01 01:30-05:00", "2026-11-02 01:30-05:00", "2026-11-03 01:30-05:00"],
    ),
    (
        "0 * * * *",
        "America/New_York",
        "2026-10-31 23:30",
        [
            f"2026-11-01 {shown}"
            for shown in ("00:00-04:00", "01:00-04:00", "01:00-05:00", "02:00-05:00", "03:00-05:00")
        ],
    ),
    (
        "*/30 * * * *",
        "America/New_York",
        "2026-11-01 00:45",
        [
            f"2026-11-01 {shown}"
            for shown in ("01:00-04:00", "01:30-04:00", "01:00-05:00", "01:30-05:00", "02:00-05:00", "02:30-05:00")
        ],
    ),
    (
        "30 * * * *",
        "America/New_York",
        "2026-11-01 00:45",
        [f"2026-11-01 {shown}" for shown in ("01:30-04:00", "01:30-05:00", "02:30-05:00", "03:30-05:00")],
    ),
    (
        "*/30 * * * *",
        "America/New_York",
        "2026-03-08 01:15",
        [f"2026-03-08 {shown}" for shown in ("01:30-05:00", "03:00-04:00", "03:30-04:00", "04:00-04:00")],
    ),
    (
        "0 0 * * *",
        "Europe/London",
        "2026-03-28 12:00",
        ["2026-03-29 00:00+00:00", "2026-03-30 00:00+01:00", "2026-03-31 00:00+01:00"],
    ),
    (
        "*/20 * * * *",
        "Australia/Lord_Howe",
        "2026-10-04 01:30",
        [f"2026-10-04 {shown}" for shown in ("01:40+10:30", "02:40+11:00", "03:00+11:00", "03:20+11:00")],
    ),
    (
        "*/20 * * * *",
        "Australia/Lord_Howe",
        "2026-04-05 01:30",
        [f"2026-04-05 {shown}" for shown in ("01:40+11:00", *(f"{time}+10:30" for time in HALF_PAST_TO_FOUR))],
    ),
    ("0 0 29 2 *", "UTC", "2026-01-01", ["2028-02-29", "2032-02-29", "2036-02-29"]),
    (
        "0 0 1 * 1",
        "UTC",
        "2026-01-01",
        [f"2026-{day}" for day in ("01-05", "01-12", "01-19", "01-26", "02-01", "02-02")],
    ),
    ("0 12 31 * *", "UTC", "2026-01-01", [f"2026-{day} 12:00" for day in ("01-31", "03-31", "05-31", "07-31")]),
]


@pytest.mark.parametrize(("text", "expected"), FROM_NEW_YEAR)
def test_it_answers_as_chrono_does(text: str, expected: str) -> None:
    """From 2026-01-01T00:00:00Z the next moment is the one that chrono computed."""
    assert chrono(text).next_after(at("2026-01-01")) == at(expected)


@pytest.mark.parametrize(("text", "expected", "why"), OURS)
def test_it_differs_from_chrono_on_purpose(text: str, expected: str, why: str) -> None:
    """Chrono refuses these or reads them otherwise; here they mean what their users expect."""
    assert chrono(text).next_after(at("2026-01-01")) == at(expected), why


@pytest.mark.parametrize(("text", "expected", "start"), IN_ITS_DIALECT)
def test_the_dialect_brings_back_what_chrono_means(text: str, expected: str, start: str) -> None:
    """Rewritten, `a/s` is just `a`, and `*/s` restricts a day."""
    assert chrono(rewrite(text, Dialect.CHRONO)).next_after(at(start)) == at(expected)


def test_a_schedule_for_reboots_has_no_moments() -> None:
    """Chrono refuses `@reboot`; here nodes ask for those runs when they start."""
    assert chrono("@reboot").next_after(at("2026-01-01")) is None


@pytest.mark.parametrize("text", REFUSED)
def test_it_refuses_what_chrono_refuses(text: str) -> None:
    """Also the date that never comes, for which chrono searches for ever."""
    with pytest.raises(InvalidSchedule):
        chrono(text)


@pytest.mark.parametrize(
    ("text", "given", "expected"), [("0 * * * *", "00:00:00", "00:00"), ("0 * * * *", "00:00:01", "01:00")]
)
def test_the_first_slot_at_or_after_a_time(text: str, given: str, expected: str) -> None:
    """Chrono's `cron_time` is asked as "the next after the microsecond before"."""
    assert chrono(text).next_after(Moment(at(f"2026-01-01 {given}") - 1)) == at(f"2026-01-01 {expected}")


@pytest.mark.parametrize(("text", "zone", "start", "expected"), AROUND_JUMPS)
def test_it_answers_as_chrono_does_where_clocks_jump(text: str, zone: str, start: str, expected: list[str]) -> None:
    """With gap = skip and fold = both, the moments are chrono's."""
    assert next_moments(chrono(text, zone), at(start, zone), len(expected)) == [at(text, zone) for text in expected]
