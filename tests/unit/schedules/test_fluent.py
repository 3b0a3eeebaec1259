"""Schedules as one speaks, and their builder; times from `reference/keiji.md` §4."""

import pytest

from tests.unit.schedules.test_cron_vectors import at
from tokimori.errors import InvalidSchedule
from tokimori.schedules.fluent import every, on, parse_time
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import next_moments

TIMES = [
    *(
        ("10:00PM", 22 * 60),
        ("09:00AM", 9 * 60),
        ("12:00AM", 0),
        ("12:00PM", 12 * 60),
        ("00:30AM", 30),
        ("22:00", 22 * 60),
    ),
    *(("9:05", 9 * 60 + 5), ("10:00pm", 22 * 60), ("9:00PM", 21 * 60)),
]


@pytest.mark.parametrize(("text", "minutes"), TIMES)
def test_times_of_day(text: str, minutes: int) -> None:
    """Keiji's accepted times mean the same; the last two it refuses for their spelling alone."""
    assert parse_time(text) == minutes


@pytest.mark.parametrize(
    "text", ["13:00PM", "10:00 PM", "9:5", "24:00", "23:60", "22:00:00", "", "10PM", " 10:00", "x"]
)
def test_bad_times_of_day(text: str) -> None:
    """What Keiji refuses is refused, by the builder and by the text."""
    with pytest.raises(InvalidSchedule) as caught:
        on().friday.at(text)
    assert caught.value.field == "time"
    with pytest.raises(InvalidSchedule):
        parse_schedule(f"on friday at .{text}")


def test_the_builder_writes_texts() -> None:
    """Each is a plain string, which the door reads and prints alike."""
    texts = {
        every(10).seconds: "every 10 seconds",
        every().minute: "every minute",
        every(2).hours: "every 2 hours",
        every(3).days: "every 3 days",
        every(2).weeks: "every 2 weeks",
        every().day.at("09:30"): "every day at 09:30AM",
        on().friday.at("10:00PM"): "on friday at 10:00PM",
        every().friday.at("22:00"): "on friday at 10:00PM",
    }
    for built, text in texts.items():
        assert built == text
        assert str(parse_schedule(built)) == text


@pytest.mark.parametrize("n", [0, -3])
def test_the_builder_refuses_an_interval_of_nothing(n: int) -> None:
    """Keiji ends the process here."""
    with pytest.raises(InvalidSchedule, match="not above zero"):
        every(n)


def test_every_weekday_has_its_name() -> None:
    """Seven properties, seven days."""
    start = at("2026-11-21")
    days = (on().sunday, on().monday, on().tuesday, on().wednesday, on().thursday, on().friday, on().saturday)
    found = [parse_schedule(day.at("00:00")).next_after(start) for day in days]
    assert found == [at(f"2026-11-{day}") for day in (22, 23, 24, 25, 26, 27, 28)]


def test_weekly_times_follow_the_clock_of_the_zone() -> None:
    """Keiji's case: today if later than now, else in 7 days, at the same time on the wall through a change."""
    schedule = parse_schedule("on Sunday at 10:00PM", zone="Europe/Paris")
    assert schedule.next_after(at("2026-03-22 21:59+01:00")) == at("2026-03-22 22:00+01:00")
    assert schedule.next_after(at("2026-03-22 22:00+01:00")) == at("2026-03-29 22:00+02:00")


def test_several_days_are_united() -> None:
    """In the order of the week, each once."""
    schedule = parse_schedule("on friday, monday,friday at 9:00")
    assert str(schedule) == "on monday, friday at 09:00AM"
    assert next_moments(schedule, at("2026-11-21"), 2) == [at("2026-11-23 09:00"), at("2026-11-27 09:00")]


@pytest.mark.parametrize(
    "text", ["on friday", "on fryday at 9:00", "on at 9:00", "every friday", "on friday at", "on day, friday at 9:00"]
)
def test_an_unfinished_phrase_is_refused(text: str) -> None:
    """The error says how to go on."""
    with pytest.raises(InvalidSchedule) as caught:
        parse_schedule(text)
    assert caught.value.allowed


@pytest.mark.parametrize(
    ("text", "printed"),
    [("@every 90s", "every 90 seconds"), ("@every 1h30m", "every 90 minutes"), ("@every 120m", "every 2 hours")],
)
def test_a_duration_of_go_is_an_interval(text: str, printed: str) -> None:
    """`@every` counts from the anchor, as `every` does."""
    assert str(parse_schedule(text)) == printed


@pytest.mark.parametrize("text", ["@every", "@every 0s", "@every 1.5h", "@every 90", "@every 30s1m", "@every -5s"])
def test_a_bad_duration_of_go_is_refused(text: str) -> None:
    """Whole seconds above zero, largest unit first."""
    with pytest.raises(InvalidSchedule):
        parse_schedule(text)
