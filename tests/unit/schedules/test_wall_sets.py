"""Sets of wall-clock times: the same times, however they are kept."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.laws import examples
from tests.unit.schedules.test_cron_vectors import at
from tests.unit.schedules.texts import crons
from tokimori.clock import DAY, Moment
from tokimori.errors import InvalidSchedule
from tokimori.schedules.combined import Union
from tokimori.schedules.cron import Cron
from tokimori.schedules.parse import MOST_MEMBERS, parse_schedule
from tokimori.schedules.wall_sets import Overlapping, Pieces, times_of
from tokimori.schedules.wallclock import WallClock
from tokimori.schedules.zoned import Zoned

DISTINCT = "; ".join(f"{n % 60} {n % 24} {1 + n % 28} {1 + n % 12} {n % 7}" for n in range(300))
START = at("2026-03-01 12:00")
END = Moment(START + 30 * DAY)


def clock_of(text: str) -> WallClock:
    """The times of a cron expression."""
    cron = parse_schedule(text)
    assert isinstance(cron, Cron)
    assert isinstance(cron.moments.times, WallClock)
    return cron.moments.times


@settings(deadline=None, max_examples=examples(100))
@given(st.lists(crons, min_size=2, max_size=5), st.integers(0, 40_000 * DAY), st.integers(1, 40 * DAY))
def test_times_that_overlap_are_those_of_pieces_that_do_not(texts: list[str], low: int, length: int) -> None:
    """Searched forward and backward, and counted."""
    clocks = tuple(map(clock_of, texts))
    pieces, overlapping = times_of(clocks), Overlapping(clocks)
    assume(isinstance(pieces, Pieces))
    assert overlapping.at_or_after(low) == pieces.at_or_after(low)
    assert overlapping.at_or_before(low) == pieces.at_or_before(low)
    assert overlapping.count(low, low + length) == pieces.count(low, low + length)
    assert overlapping.count(low, low) == 0


def test_times_of_one_day_are_one_clock() -> None:
    """Lines that differ in the hour and minute alone, as a crontab has them, are as cheap as one of them."""
    text = "\n".join(f"{minute} {hour} * * *" for hour in range(5) for minute in range(60))
    schedule = parse_schedule(text)
    assert isinstance(schedule, Union)
    (part,) = schedule._parts
    assert isinstance(part, Zoned)
    assert part.times == Pieces((clock_of("* 0-4 * * *"),))


def test_members_that_overlap_in_many_ways_are_united_all_the_same() -> None:
    """Each with days and a time of its own: their moments are those of each of them."""
    schedule = parse_schedule(DISTINCT)
    assert isinstance(schedule, Union)
    (part,) = schedule._parts
    assert isinstance(part, Zoned)
    assert isinstance(part.times, Overlapping)
    members = [parse_schedule(text) for text in DISTINCT.split("; ")]
    assert schedule.next_after(START) == min(found for each in members if (found := each.next_after(START)) is not None)
    moments = {moment for each in members for moment in walked(each, END)}
    assert schedule.count(START, END) == len(moments)


def walked(schedule: object, through: int) -> list[int]:
    """The moments from the start on."""
    found, moment = [], START
    while (moment := schedule.next_after(moment)) is not None and moment <= through:  # type: ignore[attr-defined]
        found.append(moment)
    return found


def test_exclusions_that_overlap_in_many_ways_are_refused() -> None:
    """What is left of a schedule is kept in pieces, of which there may be only so many; an error says what to do."""
    with pytest.raises(InvalidSchedule, match="overlap in too many ways") as caught:
        parse_schedule(f"* * * * * except {DISTINCT}")
    assert "several jobs" in str(caught.value.allowed)


@pytest.mark.parametrize("joint", [";", "\n"])
def test_a_text_has_so_many_members(joint: str) -> None:
    """One more is refused before any of them is read."""
    assert parse_schedule(joint.join(["0 9 * * *"] * MOST_MEMBERS)).next_after(START) is not None
    with pytest.raises(InvalidSchedule, match="it has 301 members") as caught:
        parse_schedule(joint.join(["never"] * (MOST_MEMBERS + 1)))
    assert caught.value.allowed == "at most 300; or several jobs"
