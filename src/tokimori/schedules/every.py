"""`every 10 seconds`: a fixed distance, counted from when the job was added."""

import re
from dataclasses import dataclass

from tokimori.clock import HOUR, MINUTE, SECOND, Moment
from tokimori.errors import InvalidSchedule
from tokimori.schedules.duration import Duration
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
_ALLOWED = "every N seconds, minutes, hours, days or weeks, with N from 1 on"


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
    """Every `n` units (`second` … `week`) from the anchor on."""
    one = _UNITS[unit]
    period = Duration(0, n * one.days, n * one.exact)
    offset = stretch_at(rules.zone, anchor).offset if period.days else 0
    start = Stamp(anchor + offset, None if period.days else "Z")
    return Every(n, unit, anchor, rules, moments=stepping(start, period, (1, None), rules))


def parse_every(text: str, anchor: Moment, rules: ZoneRules) -> Every:
    """Read `every N units`. Raises `InvalidSchedule`."""
    found = _EVERY.match(text)
    if found is None:
        raise InvalidSchedule(f"every: {text!r} is no interval", field="every", value=text, allowed=_ALLOWED)
    unit = found[2].lower().removesuffix("s")
    n = int(found[1] or 1)
    if unit not in _UNITS or n < 1:
        raise InvalidSchedule(f"every: {text!r} is no interval", field="every", value=text, allowed=_ALLOWED)
    return every(n, unit, anchor, rules)
