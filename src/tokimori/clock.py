"""Moments, and the clocks from which they come."""

import re
import time
from datetime import UTC, datetime, timedelta
from typing import NewType, Protocol

from tokimori.errors import InvalidInput

Moment = NewType("Moment", int)
"""A point in time: whole microseconds since 1970-01-01T00:00:00Z, without leap seconds."""

MICROSECOND = 1
MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_WITHOUT_ZONE = _EPOCH.replace(tzinfo=None)  # to write the offset costs as much as all the rest
_MICROSECOND = timedelta(microseconds=1)
_RFC_3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:([Zz])|([+-])(\d\d):(\d\d))\Z", re.ASCII
)


_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)


class Clock(Protocol):
    """Source of time. Handed in, so that tests decide what time it is."""

    def now(self) -> Moment:
        """Return the wall clock, UTC. It may jump."""
        ...

    def monotonic(self) -> float:
        """Return seconds since some fixed point; they never go back."""
        ...


class SystemClock:
    """This machine's clocks. The monotonic one goes on while the machine sleeps (CLOCK_BOOTTIME)."""

    def now(self) -> Moment:
        """Return the machine's wall clock."""
        return Moment(time.time_ns() // 1000)

    def monotonic(self) -> float:
        """Return seconds since boot, suspension included; without it on systems that only have clients."""
        return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)


def to_datetime(moment: Moment) -> datetime:
    """Return the moment as an aware datetime in UTC."""
    return _EPOCH + timedelta(microseconds=moment)


def from_datetime(value: datetime) -> Moment:
    """Return the moment of an aware datetime."""
    return Moment((value - _EPOCH) // _MICROSECOND)


FIRST = from_datetime(datetime.min.replace(tzinfo=UTC))
LAST = from_datetime(datetime.max.replace(tzinfo=UTC))
"""The first moment that there is, and the last."""


def format_moment(moment: Moment) -> str:
    """Return RFC 3339 in UTC, with a fraction only if there is one: `2030-01-01T00:00:00Z`."""
    return f"{(_EPOCH_WITHOUT_ZONE + timedelta(microseconds=moment)).isoformat()}Z"


def parse_moment(text: str, *, field: str = "time") -> Moment:
    """Read RFC 3339 with an offset; digits beyond the microsecond are cut. Raises `InvalidInput`."""
    allowed = "a date and time with offset, such as 2030-01-01T00:00:00Z"
    found = _RFC_3339.match(text.strip())
    if found is None:
        raise InvalidInput(f"{field}: {text!r} is not a valid time", field=field, value=text, allowed=allowed)
    year, month, day, hour, minute, second, fraction, zulu, sign, offset_hours, offset_minutes = found.groups()
    try:
        local = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second), tzinfo=UTC)
        offset = timedelta() if zulu else _offset(int(offset_hours), int(offset_minutes))
        moment = from_datetime(local - offset if sign == "+" else local + offset)
    except (ValueError, OverflowError) as fault:
        raise InvalidInput(f"{field}: {text!r}: {fault}", field=field, value=text, allowed=allowed) from None
    return Moment(moment + int((fraction or "0").ljust(6, "0")[:6]))


def _offset(hours: int, minutes: int) -> timedelta:
    if hours > 23 or minutes > 59:
        raise ValueError("an offset must be in 00:00..23:59")
    return timedelta(hours=hours, minutes=minutes)
