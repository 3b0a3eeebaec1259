"""A date and time as somebody types it: with an offset, or without one, and then in the zone of the job."""

import re

from msgspec import Struct

from tokimori.clock import DAY, Moment, format_moment, parse_moment
from tokimori.errors import InvalidInput, InvalidSchedule
from tokimori.schedules.grid import FIRST_WALL, LAST_WALL, moment_of

_OFFSET = re.compile(r"(?:[Zz]|([+-])(\d\d):(\d\d))\Z", re.ASCII)
_ALLOWED = "a date and time such as 2030-01-01T00:00:00Z, or without offset in the zone of the job"


class Stamp(Struct, frozen=True):
    """A wall-clock time (microseconds) and its offset: `Z`, `+02:00`, or None for the zone of the job."""

    wall: int
    offset: str | None

    def zone_in(self, zone: str) -> str:
        """Return the zone whose wall clock is meant: the job's, unless the text has an offset."""
        if self.offset is None:
            return zone
        return "UTC" if self.offset == "Z" else self.offset

    def moment_in(self, zone: str) -> int:
        """Return the moment that is meant, for a job of that zone."""
        return moment_of(self.wall, self.zone_in(zone))

    def __str__(self) -> str:
        return format_moment(Moment(self.wall)).removesuffix("Z") + (self.offset or "")


def parse_stamp(text: str, *, field: str) -> Stamp:
    """Read RFC 3339, with or without an offset. Raises `InvalidSchedule`."""
    found = _OFFSET.search(text)
    wall = text if found is None else text[: found.start()]
    try:
        moment = parse_moment(wall + "Z", field=field)
    except InvalidInput as fault:
        message = fault.message.replace(repr(wall + "Z"), repr(text))
        raise InvalidSchedule(message, field=field, value=text, allowed=_ALLOWED) from None
    if not FIRST_WALL + 2 * DAY < moment < LAST_WALL - 2 * DAY:
        raise InvalidSchedule(f"{field}: {text!r} is too far away", field=field, value=text, allowed="years 1 to 9998")
    if found is None:
        return Stamp(moment, None)
    if found[1] is None:
        return Stamp(moment, "Z")
    if int(found[2]) > 23 or int(found[3]) > 59:
        raise InvalidSchedule(f"{field}: {text!r} has an impossible offset", field=field, value=text, allowed=_ALLOWED)
    return Stamp(moment, "Z" if found[0][1:] == "00:00" else found[0])
