"""Time zones, as stretches of time within which the offset from UTC stays the same."""

import re
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple
from zoneinfo import ZoneInfo

import tzdata  # type: ignore[import-untyped]

from tokimori.clock import DAY, HOUR, MINUTE, SECOND
from tokimori.errors import InvalidInput

FOREVER = 1 << 62
"""Later than every moment that a schedule can name (microseconds)."""

_BUCKET = 4 * DAY  # with its overlap less than 6.9 days: tzdata has no two changes of an offset within so few
_FIRST_SECOND = -62_100_000_000  # in the year 2, so that no zone leaves what datetime can hold
_LAST_SECOND = 253_370_000_000  # in the year 9998
_FIXED_OFFSET = re.compile(r"([+-])(\d\d):(\d\d)\Z", re.ASCII)

OVERLAP = 2 * DAY
"""Longer than any fold lasts, and more than any two offsets differ."""


class Stretch(NamedTuple):
    """The moments `start <= t < end`, in which wall clocks show t + `offset`; before them it was t + `before`.

    Where `before` < `offset`, wall clocks jump forward at `start` (a gap); where it is larger, back (a fold). All are
    microseconds. A stretch may be cut where nothing changes; its parts overlap, so that each part tells of a change
    within `OVERLAP` before any of the moments for which `stretch_at` answers with it.
    """

    start: int
    end: int
    offset: int
    before: int


def stretch_at(zone: str, moment: int) -> Stretch:
    """The stretch of the zone that holds the moment; `zone` is an IANA name or a fixed offset such as `+02:00`."""
    for stretch in _stretches(zone, moment // _BUCKET):
        if moment < stretch.end:
            return stretch
    raise AssertionError("the stretches of a bucket cover it")


def stretches_between(zone: str, low: int, high: int) -> Iterator[Stretch]:
    """The stretches of the zone that cover low <= t < high, in order, put together where nothing changes."""
    start, end, offset, before = stretch_at(zone, low)
    while end < min(high, FOREVER):
        following = stretch_at(zone, end)
        if following.offset != offset:
            yield Stretch(start, end, offset, before)
            start, _, offset, before = following
        end = following.end
    yield Stretch(start, end, offset, before)


def check_zone(name: object, *, field: str = "time_zone") -> str:
    """The name, if it is one of the IANA time zones, spelt exactly so. Raises `InvalidInput`."""
    names = _names()
    if isinstance(name, str) and name in names:
        return name
    folded = str(name).strip().casefold()
    near = next((known for known in sorted(names) if known.casefold() == folded), None)
    allowed = near or "an IANA name such as UTC or Europe/Paris"
    raise InvalidInput(f"{field}: there is no time zone {name!r}", field=field, value=name, allowed=allowed)


def tzdata_version() -> str:
    """The version of the time zone data by which this program reckons, such as `2025b`: a later one sorts later.

    It is that of the Python package tzdata, the only source of `zone_info`.
    """
    version: str = tzdata.IANA_VERSION
    return version


@lru_cache(maxsize=1024)
def zone_info(name: str) -> ZoneInfo:
    """The zone as the package tzdata has it. Raises `InvalidInput` for an unknown name.

    `ZoneInfo(name)` would read the system's zone files first. They are often of another version than the package, with
    which they share no number that could be recorded, and of another one on every node: two nodes would disagree about
    when a job is due. So the system's files are never read; new rules come with `pip install --upgrade tzdata`.
    """
    with files("tzdata").joinpath("zoneinfo", *check_zone(name).split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


@lru_cache(maxsize=1)
def _names() -> frozenset[str]:
    """All names of the tzdata package: looked up, never tried as a path. `Factory` is its name for "not set"."""
    return frozenset(files("tzdata").joinpath("zones").read_text().split()) - {"Factory"}


@lru_cache(maxsize=8192)
def _stretches(zone: str, bucket: int) -> tuple[Stretch, ...]:
    """The stretches that cover the bucket and the overlap before it; one for all time where the offset is fixed.

    They have at most one change, and none at their start, which is no whole second.
    """
    fixed = _fixed_offset(zone)
    if fixed is not None:
        return (Stretch(-FOREVER, FOREVER, fixed, fixed),)
    info = zone_info(zone)
    start, stop = bucket * _BUCKET - OVERLAP - 1, (bucket + 1) * _BUCKET
    before, after = _offset(info, start), _offset(info, stop - 1)
    if before == after:
        return (Stretch(start, stop, before, before),)
    change = _change_within(info, start, stop - 1)
    return (Stretch(start, change, before, before), Stretch(change, stop, after, before))


def _change_within(info: ZoneInfo, low: int, high: int) -> int:
    """The whole second within low < t <= high at which the offset of `low` ends, by halving."""
    offset = _offset(info, low)
    low, high = low // SECOND, high // SECOND
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(info, middle * SECOND) == offset:
            low = middle
        else:
            high = middle
    return high * SECOND


def _offset(info: ZoneInfo, moment: int) -> int:
    second = moment // SECOND
    if not _FIRST_SECOND <= second <= _LAST_SECOND:
        second = _FIRST_SECOND if second < 0 else _LAST_SECOND
    offset = datetime.fromtimestamp(second, info).utcoffset()
    assert offset is not None  # noqa: S101 an aware datetime has one
    return offset.days * DAY + offset.seconds * SECOND


def _fixed_offset(zone: str) -> int | None:
    if zone == "UTC":
        return 0
    found = _FIXED_OFFSET.match(zone) if zone[0] in "+-" else None
    if found is None:
        return None
    offset = int(found[2]) * HOUR + int(found[3]) * MINUTE
    return -offset if found[1] == "-" else offset
