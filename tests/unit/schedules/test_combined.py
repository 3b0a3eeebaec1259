"""Unions and exclusions."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws import examples
from tests.unit.schedules.test_cron_vectors import at
from tests.unit.schedules.texts import crons, edges, modes, single, zones
from tokimori.clock import DAY, Moment
from tokimori.errors import InvalidSchedule
from tokimori.schedules.combined import Difference, Union, names
from tokimori.schedules.counting import count_until
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import Fold, Gap, Schedule, next_moments

moments = st.one_of(*[st.integers(800_000_000_000_000, 2_000_000_000_000_000).map(Moment)] * 3, edges)
law = settings(deadline=None, max_examples=examples(200))


def merged(schedules: list[Schedule], start: Moment, n: int) -> list[Moment]:
    """The first n moments of any of the schedules, by looking at all of them."""
    return sorted({moment for schedule in schedules for moment in next_moments(schedule, start, n)})[:n]


@law
@given(st.lists(single, min_size=2, max_size=4), zones, modes, moments)
def test_a_union_has_the_moments_of_all(members: list[str], zone: str, mode: tuple[Gap, Fold], start: Moment) -> None:
    """In order and each once, counted as walked."""
    gap, fold = mode
    try:
        schedules = [parse_schedule(text, zone=zone, gap=gap, fold=fold) for text in members]
        schedule = parse_schedule("; ".join(members), zone=zone, gap=gap, fold=fold)
    except InvalidSchedule:
        return
    expected = merged(schedules, start, 30)
    assert next_moments(schedule, start, 30) == expected
    if expected:
        assert count_until(schedule, start, expected[-1])[0] == len(expected)
        assert schedule.last_before(Moment(expected[-1] + 1)) == expected[-1]


@law
@given(crons, crons, st.sampled_from(["UTC", "Asia/Tokyo"]), moments)
def test_an_exclusion_takes_its_moments_away(base: str, excluded: str, zone: str, start: Moment) -> None:
    """Where clocks never jump, what is left are the moments of the one that the other does not name."""
    text = f"{base} except {excluded}"
    all_of, taken = parse_schedule(base, zone=zone), parse_schedule(excluded, zone=zone)
    candidates = next_moments(all_of, start, 300)
    expected = [moment for moment in candidates if not names(taken, moment)]
    if not expected:
        return
    left = parse_schedule(text, zone=zone)
    assert next_moments(left, start, len(expected)) == expected
    assert count_until(left, start, candidates[-1])[0] == len(expected)
    assert left.last_before(Moment(expected[-1] + 1)) == expected[-1]


def test_a_union_of_seconds_is_counted_without_a_walk() -> None:
    """A year of every second, every other one of which comes from the second member too."""
    schedule = parse_schedule("* * * * * *; */2 * * * * *; 0 9 * * 1", zone="Europe/Paris")
    start = at("2026-01-01")
    assert count_until(schedule, start, Moment(start + 365 * DAY))[0] == 365 * 86_400


YEAR = 31_536_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("* * * * * *; every 1 second", YEAR),
        ("*/2 * * * * *; every 3 seconds", YEAR * 4 // 6),
        ("* * * * * *; * 0-59 0-23 * * *; every 7 seconds", YEAR),
        ("every 1 second except every 2 seconds", YEAR // 2),
        ("* * * * * * except every 2 seconds; every 3 seconds", YEAR // 3),
        ("*/2 * * * * *; every 1 second except every 4 seconds", YEAR * 3 // 4),
        ("every 2 seconds; every 3 seconds; 0 9 * * 1-5", YEAR * 4 // 6),
    ],
)
def test_dense_members_of_several_kinds_are_counted_in_bounds(text: str, expected: int) -> None:
    """A year of seconds, in a zone whose clocks jump, by looking at each day once."""
    schedule = parse_schedule(text, zone="Europe/Paris")
    start = at("2026-01-01")
    assert count_until(schedule, start, Moment(start + 365 * DAY))[0] == expected


dense = st.sampled_from(
    [
        *("* * * * * *", "*/7 * * * * *", "* * 0-12 * * *", "* * 1,2,3 * * *", "* * * 1-15 * *", "every 3 seconds"),
        *(
            "every 1 second",
            "every 7 seconds",
            "R5000/2026-03-28T23:00:00Z/PT3S",
            "* 0-59 2 * * *",
            "at 2026-03-29T03:00:00",
        ),
        *("R/2026-03-29T02:30:00/P1D", "R/2026-10-25T00:00:00Z/PT1.5S", "every day"),
    ]
)


@settings(deadline=None, max_examples=examples(40))
@given(
    st.lists(dense, min_size=1, max_size=3),
    st.one_of(st.none(), dense),
    modes,
    st.sampled_from(["2026-03-28T23:00:00+00:00", "2026-10-24T23:30:00+00:00"]),
    st.integers(0, 9_000),
    st.integers(1, 900),
)
def test_dense_members_are_counted_as_they_are_walked(  # noqa: PLR0917
    members: list[str], excluded: str | None, mode: tuple[Gap, Fold], day: str, first: int, seconds: int
) -> None:
    """Around the hours that clocks skip and show twice, whatever their kinds."""
    gap, fold = mode
    text = "; ".join(members) + (f" except {excluded}" if excluded else "")
    try:
        schedule = parse_schedule(text, zone="Europe/Paris", gap=gap, fold=fold)
    except InvalidSchedule:
        return
    start = Moment(at(day) + first * 1_000_000 + 1)
    stop, walked, moment = Moment(start + seconds * 1_000_000), 0, start
    while (found := schedule.next_after(moment)) is not None and found <= stop:
        walked, moment = walked + 1, found
    assert count_until(schedule, start, stop)[0] == walked


def test_holidays_are_left_out() -> None:
    """At nine on working days, but not at Christmas nor on one day of one year."""
    text = "0 9 * * 1-5 except * * 25 12 *; 0 * * 30 11 * 2026"
    with pytest.raises(InvalidSchedule):
        parse_schedule("0 9 * * 1-5 except 0 9 * * *")
    schedule = parse_schedule("0 9 * * 1-5 except * * 25 12 *; * * * 30 11 * 2026", zone="Europe/Paris")
    assert next_moments(schedule, at("2026-11-27 12:00"), 1) == [at("2026-12-01 09:00+01:00")]
    assert next_moments(schedule, at("2026-12-24 12:00"), 1) == [at("2026-12-28 09:00+01:00")]
    assert parse_schedule(str(schedule), zone="Europe/Paris") == schedule
    assert count_until(schedule, at("2026-01-01"), at("2027-01-01"))[0] == 261 - 2
    assert str(parse_schedule(text)) == "0 9 * * 1-5 except * * 25 12 *; 0 * * 30 11 * 2026"


def test_an_interval_passes_a_long_exclusion_quickly() -> None:
    """Every second but not in December: the search does not walk 2.7 million moments."""
    schedule = parse_schedule("every 1 second except * * * * 12 *", anchor=at("2026-01-01"))
    assert schedule.next_after(at("2026-12-01")) == at("2027-01-01")
    assert schedule.last_before(at("2027-01-01")) == at("2026-11-30 23:59:59")
    assert count_until(schedule, at("2026-11-30 23:59:00"), at("2026-12-01 00:00:10"))[0] == 59


def test_a_long_interval_that_is_excluded_is_not_the_end() -> None:
    """Four hundred seconds in a row are left out, and afterwards it goes on."""
    schedule = parse_schedule("* * * * * * except R399/2026-06-01T00:00:00Z/PT0.5S; R399/2026-06-01T00:00:00Z/PT1S")
    assert schedule.next_after(at("2026-05-31 23:59:59")) == at("2026-06-01 00:06:40")
    assert schedule.last_before(at("2026-06-01 00:06:40")) == at("2026-05-31 23:59:59")


def test_moments_between_excluded_seconds_stay() -> None:
    """Every 1.5 seconds on a day whose whole seconds are excluded: the halves remain."""
    schedule = parse_schedule("R/2026-01-01T00:00:00Z/PT1.5S except * * * * * *")
    found = next_moments(schedule, at("2026-01-01"), 2)
    assert found == [at("2026-01-01 00:00:01.500000"), at("2026-01-01 00:00:04.500000")]


def test_equal_members_are_one() -> None:
    """A union of one schedule is that schedule, whatever stands around it."""
    assert parse_schedule("@daily;\n0 0 * * *;") == parse_schedule("0 0 * * *")
    assert parse_schedule(["@daily"]) == parse_schedule("@daily")


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("0 9 * * 1; 0 25 * * *", "hour"),
        ("0 9 * * *; @reboot", "schedule"),
        ("on demand; 0 9 * * *", "schedule"),
        (";", "schedule"),
        ("0 9 * * * except", "schedule"),
        ("except 0 9 * * *", "schedule"),
        ("0 9 * * * except 0 9 1 * * except 0 9 2 * *", "schedule"),
        ("0 9 * * * except * * * * *", "schedule"),
    ],
)
def test_one_bad_member_spoils_the_whole(text: str, field: str) -> None:
    """The error is that of the member."""
    with pytest.raises(InvalidSchedule) as caught:
        parse_schedule(text)
    assert caught.value.field == field
    assert caught.value.allowed


@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris", "Australia/Lord_Howe"])
def test_a_minutely_interval_passes_a_day_of_excluded_hours(zone: str) -> None:
    """1,380 minutes in a row are left out, which is more than a search would walk."""
    schedule = parse_schedule("every 1 minutes except * 0-22 * * *", zone=zone)
    start = at("2026-03-10 23:30", zone)
    assert schedule.next_after(start) == at("2026-03-10 23:31", zone)
    assert schedule.next_after(at("2026-03-10 23:59", zone)) == at("2026-03-11 23:00", zone)
    assert schedule.last_before(at("2026-03-11 23:00", zone)) == at("2026-03-10 23:59", zone)
    assert count_until(schedule, start, at("2026-03-12 12:00", zone))[0] == 29 + 60


def test_clocks_of_odd_seconds_hide_no_moment() -> None:
    """In 1971 Monrovia was 44 min 30 s behind: no minute of the interval is at second 0 there, where clocks exclude."""
    schedule = parse_schedule("every 1 minutes except * 0-22 * * *", zone="Africa/Monrovia")
    start = at("1971-01-01 00:00")
    assert schedule.next_after(start) == Moment(start + 60_000_000)


class Asked:
    """A schedule that counts how often it is asked."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule, self.times = schedule, 0

    def next_after(self, moment: Moment) -> Moment | None:
        """The next moment of the schedule."""
        self.times += 1
        return self.schedule.next_after(moment)

    def last_before(self, moment: Moment) -> Moment | None:
        """The last moment of the schedule."""
        self.times += 1
        return self.schedule.last_before(moment)


def test_a_member_is_asked_again_only_when_a_check_has_passed_its_moment() -> None:
    """A rare member is asked once from each end, however many moments of a dense one are excluded there."""
    dense = parse_schedule("R/2026-01-01T00:00:00Z/PT1S")
    rare, excluded = Asked(parse_schedule("0 9 1 1 *")), parse_schedule("R399/2026-06-01T00:00:00Z/PT1S")
    Difference(Union((), (dense, rare)), excluded, None, folds=False).check()
    assert 0 < rare.times <= 8
