"""What Kōjō's cron library and PHP's DateInterval answer (`reference/kojo.md` §4), and where Tokimori differs."""

import pytest

from tests.unit.schedules.test_cron_vectors import at
from tokimori.errors import InvalidSchedule
from tokimori.schedules.combined import names
from tokimori.schedules.duration import Duration, parse_duration
from tokimori.schedules.parse import parse_schedule

IS_DUE = [
    ("* * * * *", "2026-01-01 00:00:00", True),
    ("0 0 13 * 5", "2026-01-02 00:00:00", True),
    ("0 0 13 * 5", "2026-01-13 00:00:00", True),
    ("0 0 13 * 5", "2026-01-14 00:00:00", False),
    ("0 0 L * *", "2026-01-31 00:00:00", True),
    ("0 0 * * 5L", "2026-01-30 00:00:00", True),
    ("0 0 * * 1#2", "2026-01-12 00:00:00", True),
    ("0 0 ? * 1", "2026-01-05 00:00:00", True),
    ("0 0 * * 0", "2026-01-04 00:00:00", True),
    ("0 0 * * 7", "2026-01-04 00:00:00", True),
    ("0 0 * * 5-7", "2026-01-04 00:00:00", True),
    ("0 0 * JAN MON", "2026-01-05 00:00:00", True),
    ("@hourly", "2026-01-01 05:00:00", True),
    ("@daily", "2026-01-01 00:00:00", True),
    ("@midnight", "2026-01-01 00:00:00", True),
    ("@weekly", "2026-01-04 00:00:00", True),
    ("@monthly", "2026-02-01 00:00:00", True),
    ("@yearly", "2026-01-01 00:00:00", True),
    ("@annually", "2026-01-01 00:00:00", True),
    ("*/15 * * * *", "2026-01-01 00:45:00", True),
]

OURS = [
    ("* * * * *", "2026-01-01 00:00:59", False, "a minute is its first second, not all sixty"),
    ("5/15 * * * *", "2026-01-01 00:20:00", True, "a/s is from a on; Kōjō refuses it"),
    ("* * * * * 2026", "2026-01-01 00:00:00", None, "six fields begin with seconds: 2026 is no day of the week"),
    ("50-10 * * * *", "2026-01-01 00:05:00", True, "ranges wrap; Kōjō's match nothing"),
]

REFUSED = ["60 * * * *", "* * * *", "", "*/0 * * * *", "0 0 31 2 *"]

INTERVALS = [
    ("P1D", Duration(0, 1, 0)),
    ("P1W", Duration(0, 7, 0)),
    ("P1Y2M10DT2H30M15S", Duration(14, 10, 9_015_000_000)),
    ("P1W2D", Duration(0, 9, 0)),
    ("PT36H", Duration(0, 0, 129_600_000_000)),
    ("PT1.5S", Duration(0, 0, 1_500_000)),  # refused by PHP
]


@pytest.mark.parametrize(("text", "when", "expected"), IS_DUE)
def test_it_is_due_as_in_kojo(text: str, when: str, expected: bool) -> None:
    """At these moments of UTC the expression is due, or not."""
    assert names(parse_schedule(text), at(when)) is expected


def test_the_nearest_workday_of_a_sunday_is_the_monday() -> None:
    """15 March 2026 is a Sunday, so `15W` is the 16th."""
    assert names(parse_schedule("0 0 15W * *"), at("2026-03-16 00:00"))


@pytest.mark.parametrize(("text", "when", "expected", "why"), OURS)
def test_it_differs_from_kojo_on_purpose(text: str, when: str, expected: bool | None, why: str) -> None:
    """None: the text is refused."""
    if expected is None:
        with pytest.raises(InvalidSchedule):
            parse_schedule(text)
    else:
        assert names(parse_schedule(text), at(when)) is expected, why


@pytest.mark.parametrize("text", REFUSED)
def test_it_refuses_what_kojo_refuses(text: str) -> None:
    """And the date that never comes, for which Kōjō answers "not due" for ever."""
    with pytest.raises(InvalidSchedule) as caught:
        parse_schedule(text)
    assert caught.value.field
    assert caught.value.allowed


def test_a_schedule_for_reboots_is_never_due_by_itself() -> None:
    """Kōjō refuses `@reboot`; here nodes ask for those runs when they start."""
    assert not names(parse_schedule("@reboot"), at("2026-01-01"))


@pytest.mark.parametrize(("text", "expected"), INTERVALS)
def test_durations_are_those_of_php(text: str, expected: Duration) -> None:
    """Years, months, weeks, days; hours, minutes and seconds exact; fractions of seconds besides."""
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["P", "", "1D", "P-1D", "PT0S", "P0001-00-00T00:00:00"])
def test_durations_that_are_none(text: str) -> None:
    """What PHP refuses; besides, nothing (`PT0S`) is no period, and the alternative form is not understood."""
    with pytest.raises(InvalidSchedule) as caught:
        parse_duration(text)
    assert caught.value.field == "period"
    assert caught.value.allowed
