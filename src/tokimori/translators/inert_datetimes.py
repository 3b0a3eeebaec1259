"""Dates, lengths of time and zones in pickles that were read as data. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from tokimori.errors import InvalidInput
from tokimori.schedules.zones import check_zone
from tokimori.translators.inert_pickle import Record
from tokimori.translators.moving import refusal

_ZONES = (
    "pytz._p",
    "zoneinfo.ZoneInfo._unpickle",
    "zoneinfo._zoneinfo.ZoneInfo._unpickle",
    "backports.zoneinfo.ZoneInfo._unpickle",
)
_UTC = ("pytz._UTC", "pytz._utc", "dateutil.tz.tz.tzutc", "zoneinfo.UTC")


@dataclass(frozen=True, slots=True)
class ZonedTime:
    """A time on the clock, and the name of its zone; None: it had none."""

    wall: datetime
    zone: str | None

    def text(self) -> str:
        """As our schedules read it, in the zone of the job."""
        return self.wall.isoformat()


def read_datetime(name: str, value: object) -> ZonedTime:
    """Return a `datetime.datetime`. Raises `InvalidInput`."""
    if isinstance(value, Record) and value.name == "datetime.datetime" and value.arguments:
        packed, *zone = value.arguments
        wall = _unpacked(packed)
        if wall is not None and len(zone) <= 1:
            return ZonedTime(wall, read_zone(name, zone[0]) if zone else None)
    raise refusal(name, value, "a datetime")


def _unpacked(packed: object) -> datetime | None:
    """Return the ten bytes in which Python writes a time; protocols below 3 write bytes as a text."""
    if isinstance(packed, Record) and packed.name in ("_codecs.encode", "codecs.encode"):
        text = packed.arguments[0]
        packed = text.encode("latin-1", "replace") if isinstance(text, str) else None
    if not isinstance(packed, bytes) or len(packed) != 10:
        return None
    year, month, day, hour, minute, second = packed[0] * 256 + packed[1], packed[2] & 0x7F, *packed[3:7]
    try:
        return datetime(year, month, day, hour, minute, second, int.from_bytes(packed[7:], "big"))
    except ValueError:
        return None


def read_timedelta(name: str, value: object) -> timedelta:
    """Return a `datetime.timedelta`. Raises `InvalidInput`."""
    if isinstance(value, Record) and value.name == "datetime.timedelta" and len(value.arguments) == 3:
        days, seconds, microseconds = value.arguments
        if all(isinstance(each, int) for each in value.arguments):
            try:
                return timedelta(days, seconds, microseconds)  # type: ignore[arg-type]
            except (OverflowError, ValueError):
                pass
    raise refusal(name, value, "a timedelta")


def read_zone(name: str, value: object) -> str:
    """Return the name of a time zone: of pytz, of zoneinfo, or of UTC. Raises `InvalidInput`."""
    match value:
        case Record(name=found, arguments=(str() as zone, *_)) if found in _ZONES:
            return _known(name, zone)
        case Record(name=found) if found in _UTC:
            return "UTC"
        case Record(name="datetime.timezone", arguments=(Record() as offset, *_)):
            if read_timedelta(name, offset) == timedelta():
                return "UTC"
        case _:
            pass
    raise refusal(name, value, "a zone by name, as zoneinfo and pytz have")


def _known(name: str, zone: str) -> str:
    try:
        return check_zone(zone, field=name)
    except InvalidInput as fault:
        raise refusal(name, zone, str(fault.allowed)) from None
