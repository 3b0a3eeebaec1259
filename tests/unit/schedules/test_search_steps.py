"""What a search costs: at most 5,000 steps for any expression; a step looks at a year, a month or a zone's stretch."""

import random
import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws import examples
from tests.unit.schedules import walk
from tests.unit.schedules.test_cron_vectors import at
from tests.unit.schedules.texts import crons, modes, single, zones
from tokimori.clock import Moment
from tokimori.errors import InvalidSchedule
from tokimori.schedules.business_days import Shift, on_business_days
from tokimori.schedules.counting import count_until
from tokimori.schedules.days import Days
from tokimori.schedules.days_off import parse_days_off
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import Fold, Gap, Schedule
from tokimori.schedules.zones import stretch_at

MOST = 5_000
STEPS = {function.__code__ for function in (Days._month, Days._has_year, stretch_at)}
moments = st.integers(-60_000_000_000_000_000, 250_000_000_000_000_000).map(Moment)

ADVERSARIES = [
    ("*/30 2 * 3 0#2", "America/New_York"),  # always in a gap
    ("*/30 2 8-14 3 */7", "America/New_York"),
    ("0 0 29 2 */7", "UTC"),  # a 29 February that is a Sunday
    ("0 0 29 2 */7", "Africa/Cairo"),
    ("0 0 L-28 2 */6", "UTC"),
    ("0 0 0 29 2 * 2196", "UTC"),
    ("59 59 23 31 12 ? 2199", "Pacific/Apia"),
    ("0 0 31W 12 *", "UTC"),
    ("every 1 second except * * * 1-11 *", "UTC"),
    ("every 61 seconds except 0-58 * * * * *", "UTC"),
    ("every 1 second except every 2 seconds; R99/1970-01-01T00:00:01Z/PT2S", "UTC"),
    ("R/0001-06-01T00:00:00/P1M except * * 1 6 *", "America/Santiago"),
    ("R/2026-01-31T00:00:00/P9000Y", "UTC"),
    ("0 0 * * * except R399/2026-01-01T00:00:00Z/P1D", "UTC"),
    ("30 2 * * * except R350/2026-01-01T02:30:00/P1D", "Europe/Paris"),
    ("every 2 hours except R199/2026-01-01T00:00:00Z/PT4H; R199/2026-01-01T02:00:00Z/PT4H", "Europe/Paris"),
]


def steps(search: Callable[[], object]) -> int:
    """How many steps a search takes."""
    counted = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal counted
        counted += event == "call" and frame.f_code in STEPS

    sys.setprofile(count)
    try:
        search()
    finally:
        sys.setprofile(None)
    return counted


def check(schedule: Schedule, start: Moment) -> None:
    """Both directions."""
    assert steps(lambda: schedule.next_after(start)) <= MOST
    assert steps(lambda: schedule.last_before(start)) <= MOST


def test_steps_are_counted() -> None:
    """The count is none of an empty search, and grows with the years that one looks through."""
    schedule = parse_schedule("0 0 29 2 */7")
    assert steps(lambda: None) == 0
    assert steps(lambda: schedule.next_after(at("2031-01-01"))) < steps(lambda: schedule.next_after(at("2026-01-01")))


@pytest.mark.parametrize(("text", "zone"), ADVERSARIES)
@pytest.mark.parametrize("start", ["0002-01-01", "1969-12-31", "2026-01-01", "2199-12-31", "9990-01-01"])
def test_the_worst_expressions_are_searched_in_bounds(text: str, zone: str, start: str) -> None:
    """Dates that hardly ever come, times that clocks always skip, exclusions that leave next to nothing."""
    for gap in Gap:
        for fold in Fold:
            check(parse_schedule(text, zone=zone, gap=gap, fold=fold), at(start))


@pytest.mark.parametrize(
    ("text", "zone", "moment"),
    [
        ("0 0 0 29 2 * 2196", "Europe/Helsinki", "2196-02-28 22:00"),
        ("R1/2200-01-01T00:00:00/P45D; R1000/PT3M/2200-03-02T00:30:00Z", "Pacific/Easter", "2200-03-02 00:30"),
    ],
)
def test_thousands_of_years_with_one_moment_are_counted_in_bounds(text: str, zone: str, moment: str) -> None:
    """The years behind the last moment are not walked, whatever is excluded there."""
    schedule, last = parse_schedule(text, zone=zone), at(moment)
    assert schedule.next_after(Moment(last - 1)) == last
    assert steps(lambda: count_until(schedule, Moment(last - 1), at("8700-01-01"))[0]) <= MOST
    assert count_until(schedule, Moment(last - 1), at("8700-01-01"))[0] >= 1


def test_a_last_moment_with_days_off_is_found_in_bounds_from_far_years() -> None:
    """The clock changes of thousands of years may all put a skipped time on a business day: one by one they don't."""
    schedule = parse_schedule("0 30 1 1 3 * 2026", zone="America/Juneau")
    business = on_business_days(schedule, parse_days_off([], ["wed"]), None, "America/Juneau")
    assert steps(lambda: business.last_before(at("9990-01-01"))) <= MOST
    assert business.last_before(at("9990-01-01")) == at("2026-03-01 10:30")


@pytest.mark.parametrize("start", ["2006-03-10", "2020-01-30", "2026-01-01"])
def test_a_time_that_never_comes_again_is_searched_once_with_days_off(start: str) -> None:
    """Day by day it was searched through all years anew, where something is excluded from it."""
    text = "0 0 L-28 2 */6\n*/30 2 * 3 0#2\n59 59 23 31 12 ? 2199 except 26-52,19,49 * 7-10,29-21,2 * 7"
    schedule = parse_schedule(f"{text}\nR1/PT10S/2026-03-15T00:59:59.999999", zone="US/Pacific")
    but_sat = parse_days_off(["06-15", "07-20", "08-17"], ["sun", "mon", "tue", "wed", "thu", "fri"])
    check(on_business_days(schedule, but_sat, Shift.NEXT, "US/Pacific"), at(start))


def test_counting_with_days_off_holds_no_year_in_memory() -> None:
    """A day of seconds is 10,800 bytes; bits for all seconds of two years were 8 MB, and as slow as that."""
    schedule = on_business_days(parse_schedule("* * * * * *"), parse_days_off([], ["sun"]), Shift.NEXT, "UTC")
    tracemalloc.start()
    try:
        assert count_until(schedule, at("2026-01-07 09:00"), at("2028-01-05"))[0] > 365 * 86_400
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


@settings(deadline=None, max_examples=examples(200))
@given(single, st.one_of(st.none(), crons), zones, modes, moments)
def test_any_expression_is_searched_in_bounds(
    text: str, excluded: str | None, zone: str, mode: tuple[Gap, Fold], start: Moment
) -> None:
    """Any notation, with an exclusion or without, from anywhere in the calendar."""
    gap, fold = mode
    try:
        schedule = parse_schedule(f"{text} except {excluded}" if excluded else text, zone=zone, gap=gap, fold=fold)
    except InvalidSchedule:
        return
    check(schedule, start)


def test_random_expressions_are_searched_in_bounds() -> None:
    """1,000 cron expressions in zones whose clocks jump oddly."""
    rng = random.Random(5_000)
    for _ in range(1_000):
        text = walk.random_expression(rng, seconds=rng.random() < 0.2)
        try:
            schedule = parse_schedule(text, zone=rng.choice(walk.ODD_ZONES), gap=rng.choice(list(Gap)))
        except InvalidSchedule:
            continue
        check(schedule, Moment(rng.randrange(4_000_000_000) * 1_000_000))
