"""Slots: the moments that a cron text names, in whole seconds since 1970, as PerfectSched reckons them. Pure."""

from datetime import datetime
from zoneinfo import ZoneInfo

from tokimori.clock import SECOND, Moment, from_datetime
from tokimori.errors import InvalidInput
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import Fold, Gap, Schedule
from tokimori.schedules.zones import check_zone
from tokimori.service.validation import moment_of, zone_of

Timestamp = float | datetime
"""Seconds since 1970, or an aware datetime."""
GAP, FOLD = Gap.SKIP, Fold.BOTH
"""A time that clocks skip does not come on that day, and one that they show twice comes twice."""
_ALLOWED = "seconds since 1970, or an aware datetime"


def cron_time(cron: str, timestamp: Timestamp, timezone: str | ZoneInfo = "UTC") -> int | None:
    """Return the first slot at or after this time, or None. Raises `InvalidSchedule` and `InvalidInput`."""
    return seconds_at(_schedule(cron, timezone).next_after(Moment(moment_at("timestamp", timestamp) - 1)))


def next_time(cron: str, timestamp: Timestamp, timezone: str | ZoneInfo = "UTC") -> int | None:
    """Return the first slot after this time, as `cron_time` does."""
    return seconds_at(_schedule(cron, timezone).next_after(moment_at("timestamp", timestamp)))


def moment_at(field: str, given: Timestamp) -> Moment:
    """Return the moment of a time as PerfectSched writes it. Raises `InvalidInput`."""
    if isinstance(given, datetime) and given.utcoffset() is not None:
        return from_datetime(given)
    if isinstance(given, int | float) and not isinstance(given, bool) and abs(given) < 10**12:
        return moment_of(field, round(given * SECOND), "UTC")
    raise InvalidInput(f"{field}: {given!r} is not a time", field=field, value=given, allowed=_ALLOWED)


def seconds_at(moment: Moment | None) -> int | None:
    """Return the time as PerfectSched writes it."""
    return None if moment is None else moment // SECOND


def _schedule(cron: str, timezone: str | ZoneInfo) -> Schedule:
    return parse_schedule(cron, zone=check_zone(zone_of(timezone)), gap=GAP, fold=FOLD)
