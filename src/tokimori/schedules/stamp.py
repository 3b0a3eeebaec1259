"""Moments and lengths of time as people type them, and as they are printed."""

import re
from functools import lru_cache

from msgspec import Struct

from tokimori.clock import DAY, SECOND, Moment, format_moment, parse_moment
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


@lru_cache(maxsize=16)  # a request reads its moment several times
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


LENGTHS = "seconds, or numbers with the units w, d, h, m and s, such as 7d, 1h30m, 1.5h, 90s or PT1H30M"
_UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_SECONDS = re.compile(r"[+-]?\d{1,12}(\.\d{1,9})?\Z", re.ASCII)
_NUMBER = r"(\d{1,9}(?:\.\d{1,9})?)"
_DATE = rf"(?:{_NUMBER}w)?(?:{_NUMBER}d)?"
_TIME = rf"(?:{_NUMBER}h)?(?:{_NUMBER}m)?(?:{_NUMBER}s)?"
_PARTS = re.compile(rf"{_DATE}{_TIME}\Z", re.ASCII)
_ISO = re.compile(rf"p{_DATE}(?:t{_TIME})?\Z", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d\Z", re.ASCII)
_TO_THE_MINUTE = re.compile(r"(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d)([Zz]|[+-]\d\d:\d\d)?\Z", re.ASCII)
_ALLOWED_MOMENTS = "a time such as 2030-01-01T00:00:00Z, without an offset in the zone; a day such as 2030-01-01"


def seconds_in(text: str) -> float | None:
    """Return the seconds that such a text says; None if it says none. A month or a year has no length in seconds."""
    lower = text.lower()
    if _SECONDS.match(lower):
        return float(lower)
    found = _PARTS.match(lower) or _ISO.match(lower)
    if found is None or not any(found.groups()):
        return None
    return sum(float(number or 0) * unit for number, unit in zip(found.groups(), _UNITS.values(), strict=True))


def length_in(text: str) -> float | None:
    """Return the seconds from now that the text of a moment says; None: it is no length."""
    given = text.strip()
    return None if given.isdecimal() else seconds_in(given)


def iso_text(seconds: float) -> str:
    """Return a length of time in ISO 8601: P7D if it is a whole number of days, else PT90S."""
    days, rest = divmod(seconds, 86_400)
    return f"P{days:.0f}D" if days and not rest else f"PT{f'{seconds:f}'.rstrip('0').rstrip('.')}S"


def past_moment_text(field: str, text: str, now: Moment) -> str:
    """Return the text of a moment that is mostly past: a length says how long ago. Without offset it stays so."""
    return _moment_text(field, text, now, -1)


def future_moment_text(field: str, text: str, now: Moment) -> str:
    """Return the text of a moment that is mostly to come: a length says how long from now."""
    return _moment_text(field, text, now, 1)


def _moment_text(field: str, text: str, now: Moment, sign: int) -> str:
    """Return the text as every door takes it. Raises `InvalidInput`, which says what else a command line takes."""
    given = text.strip()
    allowed = f"{_ALLOWED_MOMENTS}; or {'how long ago: 7d, 1h30m' if sign < 0 else 'how long from now: 2h, 1d12h'}"
    if (seconds := length_in(given)) is not None:
        try:
            return format_moment(Moment(now + sign * round(seconds * SECOND)))
        except OverflowError:
            message = f"{field}: {text!r} leads out of the years 1 to 9999"
            raise InvalidInput(message, field=field, value=text, allowed=allowed) from None
    if _DAY.match(given):
        given = f"{given}T00:00:00"
    elif found := _TO_THE_MINUTE.match(given):
        given = f"{found[1]}:00{found[2] or ''}"
    try:
        parse_stamp(given, field=field)
    except InvalidInput as fault:
        message = fault.message.replace(repr(given), repr(text))
        raise InvalidInput(message, field=field, value=text, allowed=allowed) from None
    return given
