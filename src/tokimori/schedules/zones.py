"""Time zones, as stretches of time within which the offset from UTC stays the same."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from struct import unpack_from
from typing import IO, NamedTuple
from zoneinfo import ZoneInfo

import tzdata  # type: ignore[import-untyped]

from tokimori.clock import DAY, HOUR, MINUTE, SECOND, Moment, to_datetime
from tokimori.errors import InvalidInput
from tokimori.spelling import nearest

FOREVER = 1 << 62
"""Later than every moment that a schedule can name (microseconds)."""

_FIRST_SECOND = -62_100_000_000  # in the year 2, so that no zone leaves what datetime can hold
_LAST_YEAR = 9998
_EPOCH = date(1970, 1, 1).toordinal()
_LAST_DAY = date(_LAST_YEAR, 12, 31).toordinal()
_LAST_SECOND = 253_370_000_000  # in the year 9998
_PROBE = 4 * 86_400  # seconds; no rule of tzdata that holds for ever changes the offset twice within so few
_FIXED_OFFSET = re.compile(r"([+-])(\d\d):(\d\d)\Z", re.ASCII)

OVERLAP = 2 * DAY
"""Longer than any fold lasts, and more than any two offsets differ."""


class Stretch(NamedTuple):
    """The moments `start <= t < end`, in which wall clocks show t + `offset`; before them it was t + `before`.

    If `before` < `offset`, wall clocks jump forward at `start` (a gap); if it is larger, back (a fold). All are
    microseconds. The first stretch of a zone starts before, and the last one ends after, anything that is asked for.
    """

    start: int
    end: int
    offset: int
    before: int


class _ZoneFile(NamedTuple):
    """The stretches that a zone's file lists, in order; from `until` on its rule for all later years holds."""

    starts: tuple[int, ...]
    stretches: tuple[Stretch, ...]
    until: int


def stretch_at(zone: str, moment: int) -> Stretch:
    """Return the stretch of the zone with the moment; `zone` is an IANA name or a fixed offset such as `+02:00`."""
    known = _zone_file(zone)
    if moment < known.until:
        return known.stretches[bisect_right(known.starts, moment) - 1]
    for stretch in _of_year(zone, _year_of(moment // SECOND)):
        if moment < stretch.end:
            return stretch
    raise AssertionError("the stretches of a year cover it")


def rule_from(zone: str) -> int:
    """Return the moment from which the zone follows a rule, the same in all years of a kind; `FOREVER`: never."""
    return _zone_file(zone).until


def stretches_between(zone: str, low: int, high: int) -> Iterator[Stretch]:
    """Yield the stretches of the zone that cover low <= t < high, in order."""
    stretch = stretch_at(zone, low)
    while stretch.end < min(high, FOREVER):
        yield stretch
        stretch = stretch_at(zone, stretch.end)
    yield stretch


def check_zone(name: object, *, field: str = "time_zone") -> str:
    """Return the name, if it is one of the IANA time zones, spelt exactly so. Raises `InvalidInput`."""
    names = _names()
    if isinstance(name, str) and name in names:
        return name
    folded = str(name).strip().casefold()
    near = next((known for known in sorted(names) if known.casefold() == folded), None)
    allowed = near or "an IANA name such as UTC or Europe/Paris"
    message = f"{field}: there is no time zone {name!r}{_zone_hint(str(name))}"
    raise InvalidInput(message, field=field, value=name, allowed=allowed)


@lru_cache(maxsize=64)
def _zone_hint(name: str) -> str:
    """Return a hint at a zone of a similar name, or city. Cached: it takes milliseconds, with each job."""
    cities = _cities()
    meant = nearest(name, _names()) or cities.get(nearest(name.rpartition("/")[2], cities) or "")
    return "" if meant is None else f"; did you mean {meant}?"


def tzdata_version() -> str:
    """Return the version of the time zone data that this program uses, such as `2025b`. A later version sorts later.

    It is that of the Python package tzdata, the only source of `zone_info`.
    """
    version: str = tzdata.IANA_VERSION
    return version


@lru_cache(maxsize=1024)
def zone_info(name: str) -> ZoneInfo:
    """Return the zone as the package tzdata has it. Raises `InvalidInput` for an unknown name.

    `ZoneInfo(name)` would read the system's zone files first. They are often of another version than the package, with
    which they share no number that could be recorded, and of another one on every node: two nodes would disagree about
    when a job is due. So the system's files are never read; new rules come with `pip install --upgrade tzdata`.
    """
    with _file_of(name) as file:
        return ZoneInfo.from_file(file, key=name)


def on_clocks(zone: str, moment: Moment) -> datetime:
    """Return the moment as clocks of the zone show it; in UTC if they show a year before 1 or after 9999.

    So, too, if nothing is known of the zone here: a machine with newer rules may have added a job in it, and
    whatever else a list shows is no less true.
    """
    if zone not in _names():
        return to_datetime(moment)
    try:
        return to_datetime(moment).astimezone(zone_info(zone))
    except OverflowError:
        return to_datetime(moment)


def clock_text(moment: Moment, zone: str) -> str:
    """Return the moment on the clocks of a zone, with its offset."""
    precision = "milliseconds" if moment % 1_000_000 else "seconds"
    return on_clocks(zone, moment).isoformat(" ", precision)


def _file_of(name: str) -> IO[bytes]:
    return files("tzdata").joinpath("zoneinfo", *check_zone(name).split("/")).open("rb")


@lru_cache(maxsize=1)
def _names() -> frozenset[str]:
    """Return all names of the tzdata package: looked up, never tried as a path. `Factory` is its name for "not set"."""
    return frozenset(files("tzdata").joinpath("zones").read_text().split()) - {"Factory"}


@lru_cache(maxsize=1)
def _cities() -> Mapping[str, str]:
    """Return names of zones by their last parts; of several the first by the alphabet."""
    return {known.rpartition("/")[2]: known for known in sorted(_names(), reverse=True)}


class _Change(NamedTuple):
    """A moment at which the offset of a zone changes."""

    at: int
    before: int
    offset: int


@lru_cache(maxsize=1024)
def _zone_file(zone: str) -> _ZoneFile:
    """Return the entries of the zone's file, the year of its last one and the next one's first change included."""
    fixed = fixed_offset(zone)
    if fixed is not None:
        return _ZoneFile((-FOREVER,), (Stretch(-FOREVER, FOREVER, fixed, fixed),), FOREVER)
    info = zone_info(zone)
    seconds = _listed(zone)
    last_year = _last_listed(zone)
    first_second = _second_of(last_year)
    seconds = [*(second for second in seconds if second < first_second), *_found_in(info, last_year)]
    changes = [change for second in seconds if (change := _change(info, second)).before != change.offset]
    following = _yearly(zone, last_year + 1)[:1]
    first = _offset(info, _FIRST_SECOND * SECOND)
    stretches = tuple(_stretches([_Change(-FOREVER, first, first), *changes, *following]))
    if not following:
        stretches = (*stretches, _endless(changes[-1] if changes else _Change(-FOREVER, first, first)))
    return _ZoneFile(tuple(stretch.start for stretch in stretches), stretches, stretches[-1].end)


def _stretches(changes: Sequence[_Change]) -> Iterator[Stretch]:
    """Yield the stretches between the changes."""
    for change, following in pairwise(changes):
        yield Stretch(change.at, following.at, change.offset, change.before)


def _endless(change: _Change) -> Stretch:
    return Stretch(change.at, FOREVER, change.offset, change.before)


@lru_cache(maxsize=8192)
def _of_year(zone: str, year: int) -> tuple[Stretch, ...]:
    """Return the stretches that cover a year for which the zone's rule holds."""
    changes = [change for at in (year - 1, year, year + 1) for change in _yearly(zone, at)]
    stretches = tuple(_stretches(changes))
    return stretches if year < _LAST_YEAR else (*stretches, _endless(changes[-1]))


def _yearly(zone: str, year: int) -> tuple[_Change, ...]:
    """Return the changes of a year for which the rule holds: years of one length and first weekday share them."""
    if year > _LAST_YEAR:
        return ()
    start = _second_of(year)
    length = _second_of(year + 1) - start
    changes = _of_kind(zone, length, start // 86_400 % 7)
    return tuple(change._replace(at=change.at + start * SECOND) for change in changes)


@lru_cache(maxsize=8192)
def _of_kind(zone: str, length: int, weekday: int) -> tuple[_Change, ...]:
    """Return the changes of such a year of the rule, counted from its start."""
    info, year = zone_info(zone), _last_listed(zone) + 1
    while (start := _second_of(year)) // 86_400 % 7 != weekday or _second_of(year + 1) - start != length:
        year += 1
    found = [_change(info, second) for second in _found_in(info, year)]
    return tuple(change._replace(at=change.at - start * SECOND) for change in found)


def _found_in(info: ZoneInfo, year: int) -> Iterator[int]:
    """Yield the seconds of a year at which the offset changes."""
    stop = _second_of(year + 1) - 1
    low = _second_of(year) - 1
    offset = _offset(info, low * SECOND)
    while low < stop:
        high = min(low + _PROBE, stop)
        if (there := _offset(info, high * SECOND)) != offset:
            yield _change_within(info, low, high)
        low, offset = high, there


def _change(info: ZoneInfo, second: int) -> _Change:
    return _Change(second * SECOND, _offset(info, second * SECOND - 1), _offset(info, second * SECOND))


def _change_within(info: ZoneInfo, low: int, high: int) -> int:
    """Return the second within low < t <= high at which the offset of `low` ends, by halving."""
    offset = _offset(info, low * SECOND)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(info, middle * SECOND) == offset:
            low = middle
        else:
            high = middle
    return high


@lru_cache(maxsize=1024)
def _last_listed(zone: str) -> int:
    """Return the year of the last change that the zone's file lists."""
    return max((_year_of(second) for second in _listed(zone)[-1:]), default=1970)


def _listed(zone: str) -> Sequence[int]:
    """Return the seconds that the zone's file lists (RFC 8536): those of the second part, behind an older form."""
    with _file_of(zone) as file:
        data = file.read()
    utc, standard, leaps, times, types, letters = unpack_from(">6l", data, 20)
    start = 44 + times * 5 + types * 6 + letters + leaps * 8 + standard + utc
    number: int = unpack_from(">6l", data, start + 20)[3]
    return unpack_from(f">{number}q", data, start + 44)


def _second_of(year: int) -> int:
    """Return the second at which the year starts in UTC."""
    return (date(year, 1, 1).toordinal() - _EPOCH) * 86_400


def _year_of(second: int) -> int:
    day = second // 86_400 + _EPOCH
    return date.fromordinal(day).year if day <= _LAST_DAY else _LAST_YEAR


def _offset(info: ZoneInfo, moment: int) -> int:
    second = moment // SECOND
    if not _FIRST_SECOND <= second <= _LAST_SECOND:
        second = _FIRST_SECOND if second < 0 else _LAST_SECOND
    offset = datetime.fromtimestamp(second, info).utcoffset()
    assert offset is not None  # noqa: S101 an aware datetime has one
    return offset.days * DAY + offset.seconds * SECOND


def fixed_offset(zone: str) -> int | None:
    """Return how far clocks of UTC or a fixed offset are ahead; None for a zone by name."""
    if zone == "UTC":
        return 0
    found = _FIXED_OFFSET.match(zone) if zone[0] in "+-" else None
    if found is None:
        return None
    offset = int(found[2]) * HOUR + int(found[3]) * MINUTE
    return -offset if found[1] == "-" else offset
