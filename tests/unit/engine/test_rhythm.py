"""The ticks at which a node looks for what is due."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokimori.clock import MINUTE, SECOND, Moment, parse_moment
from tokimori.engine.lookout import WHENEVER_DUE, Rhythm, newest_tick, next_look, next_tick


def at(text: str) -> Moment:
    """A time of one day."""
    return parse_moment(f"2030-05-24T{text}Z")


@pytest.mark.parametrize(
    ("rhythm", "ticks"),
    [
        # Koyomi, reference/koyomi.md: its documented example, and its own case of a first distance above the minimum
        (Rhythm(interval_minutes=1), ["09:02:55", "09:03:25", "09:04:00", "09:05:00", "09:06:00"]),
        (Rhythm(interval_minutes=1), ["09:02:10", "09:03:00", "09:04:00"]),
        (Rhythm(interval_minutes=1, minimum_interval_seconds=50), ["09:02:55", "09:03:45", "09:04:35", "09:05:25"]),
        (Rhythm(interval_minutes=1, minimum_interval_seconds=0), ["09:02:59", "09:03:00", "09:04:00"]),
        # Koyomi ticks at :03, :08, :13 when it starts at :03, and never sees minute 10; ours are at :05, :10, :15
        (Rhythm(interval_minutes=5), ["09:03:00", "09:05:00", "09:10:00", "09:15:00"]),
        (Rhythm(interval_minutes=5), ["09:04:50", "09:05:20", "09:10:00"]),
        (Rhythm(interval_minutes=90), ["09:04:50", "10:30:00", "12:00:00"]),
    ],
)
def test_ticks(rhythm: Rhythm, ticks: list[str]) -> None:
    """Aligned to whole multiples of the interval, and never closer to each other than the minimum."""
    for tick, following in pairwise(ticks):
        assert next_tick(at(tick), rhythm) == at(following)


@given(st.integers(0, 4 * 10**15), st.sampled_from([1, 2, 5, 15, 60, 720]), st.integers(0, 59))
def test_ticks_find_the_grid(start: int, interval: int, minimum: int) -> None:
    """Whenever the node starts, from its third tick on all ticks are on the grid if the minimum is below half of it."""
    rhythm = Rhythm(interval_minutes=interval, minimum_interval_seconds=minimum)
    tick = Moment(start)
    for n in range(5):
        following = next_tick(tick, rhythm)
        assert following - tick >= minimum * SECOND
        assert following - tick <= max(interval * MINUTE, minimum * SECOND)
        if n >= 2 and minimum <= 30:
            assert tick % (interval * MINUTE) == 0
        tick = following


MINUTELY = Rhythm(interval_minutes=1)


@pytest.mark.parametrize(
    ("tick", "now", "newest"),
    [
        ("09:02:55", "09:02:56", "09:02:55"),
        ("09:02:55", "09:03:24", "09:02:55"),
        ("09:02:55", "09:03:26", "09:03:25"),
        ("09:02:55", "09:04:01", "09:04:00"),
        ("09:02:55", "17:30:45", "17:30:00"),  # the machine slept
        ("09:02:55", "09:01:10", "09:01:00"),  # its clock was set back
    ],
)
def test_the_newest_tick(tick: str, now: str, newest: str) -> None:
    """What is due by the newest tick may be fired, also when the node comes to it late."""
    assert newest_tick(at(tick), at(now), MINUTELY) == at(newest)
    assert newest_tick(at(tick), at(now), WHENEVER_DUE) == at(now)


@pytest.mark.parametrize(
    ("due", "look"),
    [("09:02:50", "09:02:50"), ("09:03:10", "09:04:00"), ("09:04:00", "09:04:00"), ("09:07:30", "09:07:30")],
)
def test_the_next_look(due: str, look: str) -> None:
    """What comes due between two ticks waits for the next one; far things need no waking before their moment."""
    assert next_look(at("09:03:00"), at(due), MINUTELY) == at(look)
    assert next_look(at("09:03:00"), at(due), WHENEVER_DUE) == at(due)
