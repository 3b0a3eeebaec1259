"""The door for schedule texts."""

import pytest

from tokimori.clock import Moment
from tokimori.errors import InvalidInput, InvalidSchedule
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
    assert schedule.count(Moment(0), Moment(2**55)) == 0
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
