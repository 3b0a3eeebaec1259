"""`at 2030-01-01T00:00:00Z`: one moment."""

from dataclasses import dataclass

from tokimori.clock import Moment
from tokimori.errors import InvalidSchedule
from tokimori.schedules.grid import single
from tokimori.schedules.stamp import Stamp, parse_stamp
from tokimori.schedules.zoned import ZonedSchedule, ZoneRules


@dataclass(frozen=True, slots=True)
class Once(ZonedSchedule):
    """One moment. Typed without an offset, it is a wall-clock time in the zone of the rules."""

    at: Stamp
    rules: ZoneRules

    def __str__(self) -> str:
        return f"at {self.at}"


def parse_once(text: str, rules: ZoneRules) -> Once:
    """Read `at T`. Raises `InvalidSchedule`, also for a time that the zone skips where the rules say gap = skip."""
    at = parse_stamp(text[2:].strip(), field="at")
    moments = rules.moments(single(at.wall), at.zone_in(rules.zone))
    if moments.next_after(Moment(at.wall - 10**12)) is None:
        message = f"at: {at} does not exist in {rules.zone}"
        allowed = "a time that the clocks show, or gap = shift or later"
        raise InvalidSchedule(message, field="at", value=str(at), allowed=allowed)
    return Once(at, rules, moments=moments)
