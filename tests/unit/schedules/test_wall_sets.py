"""Sets of wall-clock times: the same times, however they are kept."""

import pytest

from tests.unit.schedules.test_cron_vectors import at
from tokimori.clock import DAY, Moment
from tokimori.errors import InvalidSchedule
from tokimori.schedules.combined import Union, names
from tokimori.schedules.counting import count_until
from tokimori.schedules.cron import Cron
from tokimori.schedules.parse import MOST_MEMBERS, parse_schedule
from tokimori.schedules.schedule import next_moments
from tokimori.schedules.wallclock import Clocks, WallClock
from tokimori.schedules.zoned import Zoned

DISTINCT = "; ".join(f"{n % 60} {n % 24} {1 + n % 28} {1 + n % 12} {n % 7}" for n in range(64))
START = at("2026-03-01 12:00")
END = Moment(START + 30 * DAY)


def clock_of(text: str) -> WallClock:
    """The times of a cron expression."""
    cron = parse_schedule(text)
    assert isinstance(cron, Cron)
    assert isinstance(cron.moments.times, WallClock)
    return cron.moments.times


def test_times_of_one_day_are_one_clock() -> None:
    """Lines that differ in the hour and minute alone, as a crontab has them, are as cheap as one of them."""
    text = "\n".join(f"{minute} {hour} * * *" for hour in range(5) for minute in range(12))
    schedule = parse_schedule(text)
    assert isinstance(schedule, Union)
    (part,) = schedule._parts
    assert isinstance(part, Zoned)
    assert part.times == clock_of("0-11 0-4 * * *")


def test_members_that_overlap_in_many_ways_are_united_all_the_same() -> None:
    """Each with days and a time of its own: their moments are those of each of them."""
    schedule = parse_schedule(DISTINCT)
    assert isinstance(schedule, Union)
    (part,) = schedule._parts
    assert isinstance(part, Zoned)
    assert isinstance(part.times, Clocks)
    members = [parse_schedule(text) for text in DISTINCT.split("; ")]
    assert schedule.next_after(START) == min(found for each in members if (found := each.next_after(START)) is not None)
    moments = {moment for each in members for moment in walked(each, END)}
    assert count_until(schedule, START, END)[0] == len(moments)


def walked(schedule: object, through: int) -> list[int]:
    """The moments from the start on."""
    found, moment = [], START
    while (moment := schedule.next_after(moment)) is not None and moment <= through:  # type: ignore[attr-defined]
        found.append(moment)
    return found


DATES = "; ".join(f"* * * {1 + n * 11 % 28} {1 + n * 5 % 12} ? {2026 + n // 16}" for n in range(64))
YEARLY = "; ".join(f"* * {1 + n * 11 % 28} {1 + n * 5 % 12} *" for n in range(40))


@pytest.mark.parametrize("excluded", [DATES, YEARLY])
@pytest.mark.parametrize("base", ["0 9 * * 1-5", "*/5 8-18 * * *; 30 6 * * mon; 0 7 1 * *", "every 1 hour"])
def test_a_list_of_holidays_is_left_out(base: str, excluded: str) -> None:
    """As many single dates, or dates of every year, as calendars have: none of their moments comes."""
    schedule, taken = parse_schedule(f"{base} except {excluded}"), parse_schedule(excluded)
    start = at("2026-01-01")
    moments = [moment for moment in next_moments(parse_schedule(base), start, 3_000) if not names(taken, moment)]
    assert next_moments(schedule, start, len(moments)) == moments
    assert count_until(schedule, start, moments[-1])[0] == len(moments)
    assert schedule.last_before(moments[-1]) == moments[-2]


def test_exclusions_that_leave_too_many_sets_of_days_are_refused() -> None:
    """What is left of a schedule is kept in pieces, of which there may be only so many: the error names the member."""
    base = "; ".join(f"{n} {n % 24} {1 + n % 28} * *" for n in range(40))
    with pytest.raises(InvalidSchedule, match="over 500 sets of days") as caught:
        parse_schedule(f"{base} except {'; '.join(f'* * * * 1-{2 + n % 11} {n % 7} {2026 + n}' for n in range(50))}")
    assert caught.value.value in base.split("; ")
    assert "several jobs" in str(caught.value.allowed)


@pytest.mark.parametrize("joint", [";", "\n"])
def test_a_text_has_so_many_members(joint: str) -> None:
    """One more is refused before any of them is read, and named."""
    assert parse_schedule(joint.join(["0 9 * * *"] * MOST_MEMBERS)).next_after(START) is not None
    for text in (joint.join(["never"] * 65), ["never"] * 65, "0 9 * * * except " + joint.join(["never"] * 65)):
        with pytest.raises(InvalidSchedule, match="it has 65 members; 'never' is one too many") as caught:
            parse_schedule(text)
        assert caught.value.allowed == "at most 64; or several jobs"
