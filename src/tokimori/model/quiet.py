"""Quiet hours, in which notifications wait: `22:00-07:00`, `sat,sun 00:00-24:00`. Pure."""

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import lru_cache

from tokimori.clock import MINUTE, Moment, from_datetime, to_datetime
from tokimori.errors import InvalidInput
from tokimori.schedules.zones import zone_info

MOST = 20
"""So many stretches of quiet hours a notifier may have."""
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MINUTES = 24 * 60
_WEEK = 7 * _MINUTES
_HOURS = re.compile(r"(?:([a-z]{3}(?:[,-][a-z]{3}){0,12}) +)?(\d\d):([0-5]\d)-(\d\d):([0-5]\d)\Z", re.ASCII)
_ALLOWED = "hours such as 22:00-07:00, perhaps with the days on which they begin: sat,sun 00:00-24:00"


def check_quiet(quiet: Sequence[str]) -> None:
    """Check that these are quiet hours, and leave a minute of the week. Raises `InvalidInput`."""
    if len(quiet) > MOST:
        message = f"notifier.quiet: {len(quiet)} are too many"
        raise InvalidInput(message, field="notifier.quiet", value=len(quiet), allowed=f"at most {MOST}")
    if _week_of(tuple(quiet)).bit_count() == _WEEK:
        message = "notifier.quiet: they leave no minute of the week, so nobody would ever be told"
        raise InvalidInput(message, field="notifier.quiet", value=list(quiet), allowed="hours that leave some")


def quiet_until(quiet: Sequence[str], zone: str, now: Moment) -> Moment | None:
    """Return the end of the quiet hours that contain this moment, on the clocks of the zone; None if none do.

    Raises `InvalidInput` for what another version has taken, and this one can't read.
    """
    if not quiet:
        return None
    week = _week_of(tuple(quiet))
    wall = to_datetime(now).astimezone(zone_info(zone))
    minute = (wall.weekday() * 24 + wall.hour) * 60 + wall.minute
    ahead = week >> minute | (week & (1 << minute) - 1) << _WEEK - minute
    if not ahead & 1:
        return None
    left = (~ahead & ahead + 1).bit_length() - 1
    end = wall.replace(second=0, microsecond=0, tzinfo=None) + timedelta(minutes=left)
    found = from_datetime(end.replace(tzinfo=zone_info(zone)))
    return found if found > now else Moment(now + MINUTE)  # clocks were set back


@lru_cache(maxsize=64)
def _week_of(quiet: tuple[str, ...]) -> int:
    """Return the minutes of the week as bits, from Monday on. Raises `InvalidInput`."""
    week = 0
    for text in quiet:
        for first, length in _stretches(text):
            bits = (1 << length) - 1 << first
            week |= bits & (1 << _WEEK) - 1 | bits >> _WEEK
    return week


def _stretches(text: str) -> Iterator[tuple[int, int]]:
    """Yield the first minute of the week and the number of minutes of each. Raises `InvalidInput`."""
    found = _HOURS.match(text.strip().casefold())
    if found is None:
        raise _no_hours(text)
    first, last = int(found[2]) * 60 + int(found[3]), int(found[4]) * 60 + int(found[5])
    if first >= _MINUTES or last > _MINUTES or first == last:
        raise _no_hours(text)
    length = last - first if last > first else last + _MINUTES - first
    for day in _days(text, found[1]):
        yield day * _MINUTES + first, length


def _days(text: str, said: str | None) -> Iterator[int]:
    """Check the arguments. Raises `InvalidInput`."""
    if said is None:
        yield from range(7)
        return
    for part in said.split(","):
        names = part.split("-")
        if len(names) > 2 or not all(name in _DAYS for name in names):
            raise _no_hours(text)
        first, last = _DAYS.index(names[0]), _DAYS.index(names[-1])
        yield from (day % 7 for day in range(first, last + 1 if last >= first else last + 8))


def _no_hours(text: str) -> InvalidInput:
    message = f"notifier.quiet: {text!r} are no quiet hours"
    return InvalidInput(message, field="notifier.quiet", value=text, allowed=_ALLOWED)
