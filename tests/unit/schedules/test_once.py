"""`at T`: one moment."""

import pytest

from tests.unit.schedules.test_cron_vectors import at
from tokimori.clock import Moment
from tokimori.errors import InvalidSchedule
from tokimori.schedules.counting import count_until
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import Fold, Gap, next_moments


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("at 2030-01-01T00:00:00Z", "2030-01-01 00:00+00:00"),
        ("at 2030-01-01T00:00:00", "2030-01-01 00:00+01:00"),
        ("at 2030-07-01T00:00:00.5-03:30", "2030-07-01 00:00:00.500000-03:30"),
        ("at 2026-03-29T02:30:00", "2026-03-29 03:00+02:00"),
        ("at 2026-10-25T02:30:00", "2026-10-25 02:30+02:00"),
    ],
)
def test_it_has_one_moment(text: str, expected: str) -> None:
    """Without an offset the time is in the job's zone, shifted out of a gap and the first of two in a fold."""
    schedule = parse_schedule(text, zone="Europe/Paris")
    moment = at(expected)
    assert next_moments(schedule, Moment(0), 2) == [moment]
    assert schedule.next_after(moment) is None
    assert schedule.last_before(Moment(moment + 1)) == moment
    assert schedule.last_before(moment) is None
    assert count_until(schedule, Moment(moment - 1), moment)[0] == 1
    assert str(schedule).startswith("at 20")


def test_it_follows_the_rules_for_jumps() -> None:
    """A time that is skipped is an error at once; a doubled one has two moments if asked."""
    with pytest.raises(InvalidSchedule, match="does not exist"):
        parse_schedule("at 2026-03-29T02:30:00", zone="Europe/Paris", gap=Gap.SKIP)
    late = parse_schedule("at 2026-03-29T02:30:00", zone="Europe/Paris", gap=Gap.LATER)
    assert late.next_after(Moment(0)) == at("2026-03-29 03:30", "Europe/Paris")
    both = parse_schedule("at 2026-10-25T02:30:00", zone="Europe/Paris", fold=Fold.BOTH)
    assert next_moments(both, Moment(0), 3) == [at("2026-10-25 02:30+02:00"), at("2026-10-25 02:30+01:00")]


@pytest.mark.parametrize(
    "text", ["at", "at noon", "at 2030-01-01", "at 2030-13-01T00:00:00Z", "at 2030-01-01T00:00:00 UTC"]
)
def test_a_bad_time_is_refused(text: str) -> None:
    """The error shows a good one."""
    with pytest.raises(InvalidSchedule) as caught:
        parse_schedule(text)
    assert caught.value.field == "at"
    assert "2030-01-01T00:00:00Z" in str(caught.value.allowed)
