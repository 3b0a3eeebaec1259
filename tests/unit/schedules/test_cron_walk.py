"""Cron against the truth: a walk over every minute (or second) around the transitions of odd zones."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws import examples, one_in
from tests.unit.schedules import walk
from tests.unit.schedules.texts import crons
from tokimori.clock import DAY, MINUTE, SECOND, Moment
from tokimori.errors import InvalidSchedule
from tokimori.schedules.counting import count_until
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import Fold, Gap, Schedule, each_moment, next_moments
from tokimori.schedules.zones import zone_info

MODES = [(gap, fold) for gap in Gap for fold in Fold]
fives = crons.filter(lambda text: len(text.split()) == 5)


def check_window(text: str, zone: str, window: list[walk.Wall], gap: Gap, fold: Fold) -> None:
    """The moments within the window are the truth: forward, backward and counted."""
    schedule = parse_schedule(text, zone=zone, gap=gap, fold=fold)
    expected = [Moment(utc * SECOND) for utc in walk.truth(text, window, gap, fold)]
    about = f"{text!r} in {zone} from {datetime.fromtimestamp(window[0].utc, UTC)}, {gap} {fold}"
    start, stop = Moment(window[0].utc * SECOND), Moment(window[-1].utc * SECOND)
    found = next_moments(schedule, start, len(expected))
    assert found == expected, about
    following = schedule.next_after(found[-1] if found else start)
    assert following is None or following > stop, about
    assert count_until(schedule, start, stop)[0] == len(expected), about
    back, at = [], schedule.last_before(Moment(stop + 1))
    while at is not None and at > start:
        back.append(at)
        at = schedule.last_before(at)
    assert back[::-1] == expected, about


def check_transition(zone: str, transition: int, rng: random.Random, *, days: int, expressions: int) -> None:
    """Random expressions within days of a transition, minute by minute; one in ten within 3 hours, second by second."""
    minutes = walk.walls(zone, transition // 60 * 60 - days * 86_400, transition + days * 86_400, 60)
    seconds = walk.walls(zone, transition - 10_800, transition + 10_800, 1)
    for n in range(expressions):
        fine = n % 10 == 9
        window = seconds if fine else minutes[rng.randrange(len(minutes) - 1) :]
        gap, fold = rng.choice(MODES)
        text = walk.random_expression(rng, seconds=fine)
        try:
            check_window(text, zone, window, gap, fold)
        except InvalidSchedule as fault:
            assert fault.field == "day of month", text


@pytest.mark.parametrize("expressions", [3, pytest.param(25, marks=pytest.mark.prove)])
@pytest.mark.parametrize("zone", one_in(4, walk.ODD_ZONES))
def test_it_equals_a_walk_over_every_minute_around_a_transition(zone: str, expressions: int) -> None:
    """Random (expression, zone, start) have the moments of the walk, whatever the rules for gaps and folds."""
    rng = random.Random(zone)
    transitions = walk.transitions(zone)
    check_transition(zone, rng.choice(transitions), rng, days=4, expressions=expressions)


@pytest.mark.parametrize("one_of", [7, pytest.param(1, marks=pytest.mark.prove)])
@pytest.mark.parametrize("zone", [*walk.ODD_ZONES, "Europe/Istanbul"])  # once wrong in 1991
def test_a_time_that_is_shown_twice_comes_once_or_twice_as_told(zone: str, one_of: int) -> None:
    """At each fold since 1973 (every seventh one), from any moment around it, forward, backward and counted."""
    info = zone_info(zone)
    for transition, size in list(folds(zone))[::one_of]:
        second = Moment(transition * SECOND + size // 2 // MINUTE * MINUTE)
        shown = datetime.fromtimestamp(second // SECOND, info)
        text = f"{shown.second} {shown.minute} {shown.hour} {shown.day} {shown.month} *"
        check_around(parse_schedule(text, zone=zone, fold=Fold.BOTH), [Moment(second - size), second], size)
        check_around(parse_schedule(text, zone=zone, fold=Fold.FIRST), [Moment(second - size)], size)


@settings(deadline=None, max_examples=examples(60))
@given(st.sampled_from(["Europe/Istanbul", *walk.ODD_ZONES]), fives, st.sampled_from(Fold), st.data())
def test_with_gap_later_moments_are_those_that_python_reckons(
    zone: str, text: str, fold: Fold, data: st.DataObject
) -> None:
    """Around any change since 1973: each matching time of the calendar as `zoneinfo` places it, in order and once."""
    info = zone_info(zone)
    start = data.draw(st.sampled_from([at for at in walk.transitions(zone) if at % 60 == 0]))
    low, high = start - 3 * 3600, start + 26 * 3600
    matches, fixed = walk.matcher(text)
    first = datetime.fromtimestamp(low, info).replace(tzinfo=None, second=0) - timedelta(days=2)
    walls = [wall for n in range(6 * 1440) if matches(wall := first + timedelta(minutes=n))]
    placed = [(wall.replace(tzinfo=info).timestamp(), wall.replace(tzinfo=info, fold=1).timestamp()) for wall in walls]
    again = [second for early, second in placed if second > early and not (fixed and fold is Fold.FIRST)]
    expected = sorted(
        {Moment(int(at) * SECOND) for at in (*(early for early, _ in placed), *again) if low < at <= high}
    )
    schedule = parse_schedule(text, zone=zone, gap=Gap.LATER, fold=fold)
    begin, end = Moment(low * SECOND), Moment(high * SECOND)
    assert list(each_moment(schedule, begin, end)) == expected
    at = Moment(data.draw(st.integers(begin, end)))
    before, behind = [each for each in expected if each < at], [each for each in expected if each > at]
    counts = count_until(schedule, begin, at)[0], count_until(schedule, at, end)[0]
    assert counts == (sum(each <= at for each in expected), len(behind))
    assert schedule.next_after(at) == behind[0] if behind else True
    assert schedule.last_before(at) == before[-1] if before else True


def folds(zone: str) -> Iterator[tuple[int, int]]:
    """When the zone's clocks went back, in seconds of UTC, and by how much, in microseconds."""
    info = zone_info(zone)
    for transition in walk.transitions(zone):
        before, after = (datetime.fromtimestamp(second, info).utcoffset() for second in (transition - 1, transition))
        assert before is not None
        assert after is not None
        if before > after:
            yield transition, (before - after) // timedelta(microseconds=1)


def check_around(schedule: Schedule, expected: list[Moment], size: int) -> None:
    """From anywhere around them these are the moments: forward, backward and counted."""
    low, high = expected[0] - 3 * size, expected[0] + 4 * size
    for start in range(low, high, size // 6):
        at, about = Moment(start), (schedule, start, expected)
        later, earlier = schedule.next_after(at), schedule.last_before(at)
        assert ([later] if later and later < high else []) == [each for each in expected if each > at][:1], about
        assert ([earlier] if earlier and earlier > low else []) == [each for each in expected if each < at][-1:], about
        assert count_until(schedule, at, Moment(high))[0] == sum(each > at for each in expected), about


@pytest.mark.parametrize("expressions", [10, pytest.param(100, marks=pytest.mark.prove)])
def test_it_equals_a_walk_over_days_for_distant_answers(expressions: int) -> None:
    """Over 20 years of days, the days of random expressions are those of the walk, forward and counted."""
    rng = random.Random(60)
    epoch, first = datetime(1970, 1, 1), datetime(2019, 1, 1)
    days = [first + timedelta(days=n) for n in range(20 * 366)]
    start = Moment((first - epoch) // timedelta(microseconds=1) - 1)
    for _ in range(expressions):
        text = "0 0 " + walk.random_expression(rng).split(maxsplit=2)[2]
        matches, _ = walk.matcher(text)
        expected = [Moment((day - epoch) // timedelta(microseconds=1)) for day in days if matches(day)]
        try:
            schedule = parse_schedule(text)
        except InvalidSchedule:
            assert not expected, text
            continue
        assert next_moments(schedule, start, len(expected)) == expected, text
        assert count_until(schedule, start, Moment(start + len(days) * DAY))[0] == len(expected), text
