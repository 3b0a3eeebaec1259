"""The door for schedule texts."""

import pytest

from tokimori.clock import Moment
from tokimori.errors import InvalidInput, InvalidSchedule
from tokimori.schedules.counting import count_until
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import OnDemand, Reboot


@pytest.mark.parametrize(
    ("text", "expected"), [("@reboot", Reboot()), ("on demand", OnDemand()), (" On  Demand", OnDemand())]
)
def test_schedules_without_moments(text: str, expected: OnDemand) -> None:
    """They never name a moment of themselves, and are two different schedules."""
    schedule = parse_schedule(text)
    assert schedule == expected
    assert schedule.next_after(Moment(0)) is None
    assert schedule.last_before(Moment(2**55)) is None
    assert count_until(schedule, Moment(0), Moment(2**55))[0] == 0
    assert Reboot() != OnDemand()


@pytest.mark.parametrize("text", ["", "  ", "@never", "@daily x", "daily", "on", "on demand please", "@reboot now"])
def test_a_text_of_no_notation_is_refused(text: str) -> None:
    """The error lists the notations."""
    with pytest.raises(InvalidSchedule) as caught:
        parse_schedule(text)
    assert caught.value.field
    assert caught.value.allowed


def test_an_unknown_zone_is_refused() -> None:
    """It is the zone that is wrong, not the schedule."""
    with pytest.raises(InvalidInput, match="Mars/Olympus") as caught:
        parse_schedule("* * * * *", zone="Mars/Olympus")
    assert caught.value.field == "time_zone"


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("2/2026-01-01T00:00:00Z/PT1S", "repeats", "2"),  # Kala crashes on it
        ("2/2026-01-01T00:00:00Z", "schedule", "2/2026-01-01T00:00:00Z"),
        ("0 9 * * 1; 2/2026-01-01T00:00:00Z/PT1S", "repeats", "2"),
        ("0 9 * * 1; 0 9 * * 8", "day of week", "8"),
        ("every 0 seconds; 0 9 * * *", "every", "every 0 seconds"),
        ("0 9 * * * except on fryday at 9:00", "day of week", "fryday"),
        ("at noon", "at", "noon"),
        ("*/*/* 25:0 (*)", "hour", "25"),
    ],
)
def test_an_error_has_the_field_the_text_and_what_is_allowed(text: str, field: str, value: str) -> None:
    """Whichever notation, and whichever member of a union, is wrong."""
    with pytest.raises(InvalidSchedule) as caught:
        parse_schedule(text)
    assert (caught.value.field, caught.value.value) == (field, value)
    assert caught.value.allowed


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "europe/paris", "EST5EDT4", "+02:00", "../etc/passwd"])
@pytest.mark.parametrize("text", ["* * * * *", "R/2026-01-01T00:00:00/P1D", "every 5 days", "at 2030-01-01T00:00:00"])
def test_every_notation_refuses_a_zone_that_does_not_exist(text: str, zone: str) -> None:
    """Whether it needs the zone or not."""
    with pytest.raises(InvalidInput) as caught:
        parse_schedule(text, zone=zone)
    assert (caught.value.field, caught.value.value) == ("time_zone", zone)
    assert caught.value.allowed


@pytest.mark.parametrize("text", ["0 9 * * thu", "0 9 * mar mon#2", "on thursday at 10:00PM"])
def test_jobs_share_a_schedule_whose_text_has_an_h(text: str) -> None:
    """It is read once for all of them; `H` alone means something else in each job."""
    assert parse_schedule(text, job_id="a") is parse_schedule(text, job_id="b")
    assert parse_schedule("H 9 * * thu", job_id="a") is not parse_schedule("H 9 * * thu", job_id="b")
    assert len({str(parse_schedule(f"{each} 9 * * *", job_id=name)) for name in "abcdefgh" for each in ("H", "h")}) > 4
