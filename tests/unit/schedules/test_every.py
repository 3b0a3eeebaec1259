"""`every N units`."""

import pytest

from tests.unit.schedules.test_cron_vectors import at
from tokimori.clock import HOUR, MINUTE, SECOND, Moment
from tokimori.errors import InvalidSchedule
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import next_moments

ANCHOR = at("2026-03-27 10:00:00.250000+01:00")


@pytest.mark.parametrize(
    ("text", "distance"),
    [
        ("every 10 seconds", 10 * SECOND),
        ("every minute", MINUTE),
        ("Every 90 Minutes", 90 * MINUTE),
        ("every 1 hour", HOUR),
    ],
)
def test_the_first_moment_is_one_interval_after_the_anchor(text: str, distance: int) -> None:
    """Then on that grid, wherever one asks from: a restart changes nothing."""
    schedule = parse_schedule(text, zone="Europe/Paris", anchor=ANCHOR)
    assert next_moments(schedule, Moment(0), 2) == [ANCHOR + distance, ANCHOR + 2 * distance]
    assert schedule.next_after(ANCHOR) == ANCHOR + distance
    assert schedule.next_after(Moment(ANCHOR + 7 * distance + 1)) == ANCHOR + 8 * distance
    assert schedule.last_before(Moment(ANCHOR + 1)) is None


def test_days_and_weeks_keep_the_time_on_the_clock() -> None:
    """`every day` of a job added at 10:00 in Paris is at 10:00 after the clocks have changed too."""
    daily = parse_schedule("every 2 days", zone="Europe/Paris", anchor=ANCHOR)
    assert daily.next_after(ANCHOR) == at("2026-03-29 10:00:00.250000+02:00")
    weekly = parse_schedule("every week", zone="Europe/Paris", anchor=ANCHOR)
    assert weekly.next_after(ANCHOR) == at("2026-04-03 10:00:00.250000+02:00")


@pytest.mark.parametrize(("text", "printed"), [("every  5 Second", "every 5 seconds"), ("every 1 weeks", "every week")])
def test_it_prints_the_plain_form(text: str, printed: str) -> None:
    """One is not spelt out."""
    assert str(parse_schedule(text)) == printed


@pytest.mark.parametrize(
    "text", ["every", "every 0 seconds", "every -1 hours", "every 5", "every fortnight", "every 1.5 hours"]
)
def test_an_impossible_interval_is_refused(text: str) -> None:
    """The error says what an interval looks like."""
    with pytest.raises(InvalidSchedule, match="every") as caught:
        parse_schedule(text)
    assert caught.value.field == "every"
    assert caught.value.allowed


@pytest.mark.parametrize(
    ("text", "same"), [("every 30s", "@every 30s"), ("every 1h30m", "every 90 minutes"), ("every  5m", "@every 5m")]
)
def test_short_units_may_stand_behind_every(text: str, same: str) -> None:
    """As they do behind `@every`; nothing of the kind is read as another schedule."""
    assert str(parse_schedule(text, zone="UTC", anchor=ANCHOR)) == str(parse_schedule(same, zone="UTC", anchor=ANCHOR))
