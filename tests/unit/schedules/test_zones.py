"""Zones as stretches without a change of offset."""

import random
from datetime import UTC, datetime
from importlib.resources import files
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from tests.unit.schedules import walk
from tokimori.clock import DAY, HOUR, MINUTE, SECOND
from tokimori.errors import InvalidInput
from tokimori.schedules.zones import FOREVER, check_zone, stretch_at, stretches_between, zone_info

ALL_ZONES = sorted(set(files("tzdata").joinpath("zones").read_text().split()) - {"Factory"})
TRICKS = [
    *("", " ", "localtime", "Factory", "posixrules", "Europe", "Europe/", "europe/paris", "Europe/Paris ", "+02:00"),
    *("../zoneinfo/UTC", "/usr/share/zoneinfo/UTC", "right/UTC", "posix/UTC", "UTC\0", "CET-1CEST", "Europe/../UTC"),
]


def offset_of(zone: ZoneInfo, moment: int) -> int:
    """What zoneinfo says."""
    offset = datetime.fromtimestamp(moment // SECOND, zone).utcoffset()
    assert offset is not None
    return int(offset.total_seconds()) * SECOND


def test_every_zone_has_the_offsets_of_zoneinfo() -> None:
    """In each zone of tzdata, at random moments since 1970 and at both ends of their stretches."""
    rng = random.Random(598)
    start, stop = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (1970, 2100))
    for name in ALL_ZONES:
        info = zone_info(name)
        for _ in range(4):
            moment = rng.randrange(start, stop) * SECOND
            stretch = stretch_at(name, moment)
            assert stretch.start <= moment < stretch.end, name
            assert stretch.offset == offset_of(info, moment), name
            assert stretch.before != stretch.offset or stretch.start == -FOREVER, name
            if stretch.end < FOREVER:
                assert offset_of(info, stretch.end - 1) == stretch.offset, name
            if stretch.start > -FOREVER:
                assert offset_of(info, stretch.start - 1) == stretch.before, name
                assert offset_of(info, stretch.start) == stretch.offset, name


def test_every_zone_has_the_offsets_of_zoneinfo_in_all_years() -> None:
    """From the year 2 to 9998, though only what its file lists is looked for, and one year of each kind."""
    rng = random.Random(9998)
    start, stop = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (2, 9998))
    for name in ALL_ZONES:
        info = zone_info(name)
        for _ in range(40):
            moment = rng.randrange(start, stop) * SECOND
            assert stretch_at(name, moment).offset == offset_of(info, moment), (name, moment)


@pytest.mark.parametrize("zone", ["Europe/Paris", "America/New_York", "Africa/Cairo", "Africa/Casablanca"])
def test_far_years_are_reached_at_once(zone: str) -> None:
    """A stretch of the year 9998 is found without those before it, and has its neighbours."""
    moment = int(datetime(9998, 7, 1, tzinfo=UTC).timestamp()) * SECOND
    stretch = stretch_at(zone, moment)
    assert stretch.start <= moment < stretch.end
    assert stretch.start == -FOREVER or stretch_at(zone, stretch.start - 1).end == stretch.start
    assert stretch.end == FOREVER or stretch_at(zone, stretch.end).start == stretch.end


@pytest.mark.parametrize("zone", [*walk.ODD_ZONES, "America/Boa_Vista"])  # the last had a summer time of a week
def test_no_change_of_an_offset_is_missed(zone: str) -> None:
    """The stretches change where a walk over days finds a change, and nowhere else."""
    first, stop = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) * SECOND for year in (1973, 2037))
    stretches = list(stretches_between(zone, first, stop))
    assert [stretch.start // SECOND for stretch in stretches[1:]] == walk.transitions(zone)
    assert all(earlier.end == later.start for earlier, later in pairwise(stretches))
    assert all(later.before == earlier.offset != later.offset for earlier, later in pairwise(stretches))


def test_a_fixed_offset_is_one_stretch() -> None:
    """UTC and offsets never change."""
    assert stretch_at("UTC", 0) == (-FOREVER, FOREVER, 0, 0)
    assert stretch_at("+05:45", 0).offset == 5 * HOUR + 45 * MINUTE
    assert stretch_at("-03:30", 2**58).offset == -(3 * HOUR + 30 * MINUTE)


def test_moments_beyond_the_calendar_have_an_offset() -> None:
    """Nobody needs to know where datetime ends."""
    assert stretch_at("Asia/Tokyo", 2**60).offset == 9 * HOUR
    assert abs(stretch_at("Asia/Tokyo", -(2**60)).offset) < DAY


@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris", "US/Pacific", "Etc/GMT+3", "America/Argentina/Salta"])
def test_a_zone_of_iana_is_accepted(zone: str) -> None:
    """Links and areas of three parts too."""
    assert check_zone(zone) == zone


@pytest.mark.parametrize("zone", TRICKS)
def test_anything_else_is_no_zone(zone: str) -> None:
    """Neither paths, nor files beside the zones, nor the machine's own zone, nor another spelling."""
    with pytest.raises(InvalidInput) as caught:
        check_zone(zone, field="zone")
    assert (caught.value.field, caught.value.value) == ("zone", zone)


def test_another_spelling_is_answered_with_the_right_one() -> None:
    """The error says what was probably meant."""
    with pytest.raises(InvalidInput) as caught:
        check_zone("europe/paris")
    assert caught.value.allowed == "Europe/Paris"
