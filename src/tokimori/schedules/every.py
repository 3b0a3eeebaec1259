"""`every 10 seconds`: a fixed distance, counted from when the job was added."""

import re
from dataclasses import dataclass

from tokimori.clock import DAY, HOUR, MINUTE, SECOND, Moment
from tokimori.errors import InvalidSchedule
from tokimori.schedules.duration import Duration
from tokimori.schedules.grid import FIRST_WALL, LAST_WALL
from tokimori.schedules.repeating import stepping
from tokimori.schedules.stamp import Stamp
from tokimori.schedules.zoned import ZonedSchedule, ZoneRules
from tokimori.schedules.zones import stretch_at

_EVERY = re.compile(r"every\s+(?:(\d{1,9})\s+)?([a-z]+)\Z", re.ASCII | re.IGNORECASE)
_UNITS = {
    "second": Duration(0, 0, SECOND),
    "minute": Duration(0, 0, MINUTE),
    "hour": Duration(0, 0, HOUR),
    "day": Duration(0, 1, 0),
    "week": Duration(0, 7, 0),
}
_GO_DURATION = re.compile(r"(?:(\d{1,6})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?\Z", re.ASCII)
_ALLOWED = "every N seconds, minutes, hours, days or weeks; N is 1 or more"


@dataclass(frozen=True, slots=True)
class Every(ZonedSchedule):
    """Every `n` units: the first moment is one interval after the anchor, the others lie on that grid.

    Seconds, minutes and hours are exact; days and weeks keep the time that the zone's wall clock showed at the anchor.
    """

    n: int
    unit: str
    anchor: Moment
    rules: ZoneRules

    def __str__(self) -> str:
        return f"every {self.unit}" if self.n == 1 else f"every {self.n} {self.unit}s"


def every(n: int, unit: str, anchor: Moment, rules: ZoneRules) -> Every:
    """Return every `n` units (`second` … `week`) from an anchor on. Raises `InvalidSchedule` for one beyond the
    calendar.
    """
    if not FIRST_WALL + 2 * DAY < anchor < LAST_WALL - 2 * DAY:
        message = "anchor: the moment from which an interval counts is too far away"
        raise InvalidSchedule(message, field="anchor", value=anchor, allowed="years 1 to 9998")
    one = _UNITS[unit]
    period = Duration(0, n * one.days, n * one.exact)
    offset = stretch_at(rules.zone, anchor).offset if period.days else 0
    start = Stamp(anchor + offset, None if period.days else "Z")
    return Every(n, unit, anchor, rules, moments=stepping(start, period, (1, None), rules))


def parse_every(text: str, anchor: Moment, rules: ZoneRules) -> Every:
    """Read `every N units`. Raises `InvalidSchedule`."""
    found = _EVERY.match(text)
    if found is None:
        raise InvalidSchedule(f"every: {text!r} is not an interval", field="every", value=text, allowed=_ALLOWED)
    unit = found[2].lower().removesuffix("s")
    n = int(found[1] or 1)
    if unit not in _UNITS or n < 1:
        raise InvalidSchedule(f"every: {text!r} is not an interval", field="every", value=text, allowed=_ALLOWED)
    return every(n, unit, anchor, rules)


def parse_every_duration(text: str, anchor: Moment, rules: ZoneRules) -> Every:
    """Read `90s` or `1h30m` of `@every`, whole seconds as in Go's cron. Raises `InvalidSchedule`."""
    found = _GO_DURATION.match(text.strip())
    hours, minutes, seconds = (int(part or 0) for part in found.groups()) if found else (0, 0, 0)
    total = hours * 3600 + minutes * 60 + seconds
    if total == 0:
        allowed = "whole hours, minutes and seconds such as 90s or 1h30m"
        raise InvalidSchedule(f"every: {text!r} is not an interval", field="every", value=text, allowed=allowed)
    if total % 3600 == 0:
        return every(total // 3600, "hour", anchor, rules)
    return every(total // 60, "minute", anchor, rules) if total % 60 == 0 else every(total, "second", anchor, rules)
