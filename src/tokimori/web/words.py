"""Moments and durations as people read them. Pure."""

import re
from datetime import datetime, timedelta
from typing import Final, NamedTuple, TypeVar

from markupsafe import Markup, escape

from tokimori.clock import SECOND, Moment, format_moment, parse_moment
from tokimori.logs.controls import visible
from tokimori.schedules.zones import on_clocks

_CLOCK: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{3})?[+-]\d\d:\d\d")


class Time(NamedTuple):
    """A moment for machines and for people in a time zone, with its day and with all of it, and how far away it is."""

    rfc3339: str
    text: str
    zone: str
    away: str
    full: str
    whole: str


def time_of(moment: Moment, zone: str, now: Moment) -> Time:
    """Return the moment as clocks in the zone show it."""
    return Time(
        rfc3339=format_moment(moment),
        text=clock_time(moment, zone, now),
        zone=zone_name(moment, zone),
        away=distance(moment, now),
        full=full_time(moment, zone),
        whole=clock_time(moment, zone, now, with_day=True),
    )


def reread(text: str, zone: str, now: Moment) -> str:
    """Return a text of the service with its moments as clocks in the zone show them."""

    def read(found: re.Match[str]) -> str:
        at = parse_moment(found[0].replace(" ", "T"))
        return f"{clock_time(at, zone, now)} {zone_name(at, zone)}"

    return _CLOCK.sub(read, text)


def lasted(started: Moment | None, ended: Moment | None, now: Moment, *, is_running: bool) -> str:
    """Return the length of an attempt up to its end or up to now; empty if its begin or its end is unknown."""
    if started is None:
        return ""
    if ended is None:
        return duration(now - started) if is_running else ""
    return duration(ended - started)


def clock_time(moment: Moment, zone: str, now: Moment, *, with_day: bool = False) -> str:
    """Return the time in the zone, with the day if it is not today or wanted, and the year if it is not this year."""
    local, today = _local(moment, zone), _local(now, zone)
    day = "" if local.date() == today.date() and not with_day else f"{local:%a} {local.day} {local:%b} "
    year = "" if local.year == today.year else f"{local.year} "
    return f"{day}{year}{local:%H:%M:%S}"


def day_name(moment: Moment, zone: str, now: Moment) -> str:
    """Return the day of the moment in the zone: `Today, Tue 24 Mar`, `Mon 23 Mar`, with the year if it is not this."""
    local, today = _local(moment, zone), _local(now, zone)
    name = f"{local:%a} {local.day} {local:%b}{'' if local.year == today.year else f' {local.year}'}"
    return f"Today, {name}" if local.date() == today.date() else name


def offset_at(moment: Moment, zone: str) -> int:
    """Return the microseconds by which clocks in the zone are ahead of UTC."""
    return round((_local(moment, zone).utcoffset() or timedelta()).total_seconds()) * SECOND


def full_time(moment: Moment, zone: str) -> str:
    """Return the day, time and offset in the zone, with the name of that time if it has one (`CET`)."""
    local = _local(moment, zone)
    letters = local.tzname() or ""
    precision = "milliseconds" if local.microsecond else "seconds"
    return f"{local:%a} {local.isoformat(' ', precision)}{f' {letters}' if letters.isalpha() else ''}"


def zone_name(moment: Moment, zone: str) -> str:
    """Return the name of the time in the zone at that moment: `CET`, or the offset if it has no name."""
    return _local(moment, zone).tzname() or zone


def distance(moment: Moment, now: Moment) -> str:
    """Return how far away the moment is: `in 5 min`, `3 h ago`."""
    away = round((moment - now) / SECOND)
    if away == 0:
        return "now"
    size = abs(away)
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if size >= length:
            text = f"{size // length} {unit}"
            break
    else:
        text = f"{size} s"
    return f"in {text}" if away > 0 else f"{text} ago"


def duration(microseconds: int) -> str:
    """Return a duration: `230 ms`, `4.2 s`, `41 s`, `3 min 05 s`, `2 h 03 min`."""
    seconds = microseconds / SECOND
    if seconds < 0.9995:
        return f"{max(0, round(seconds * 1000))} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def whole_length(microseconds: int) -> str:
    """Return a length that somebody has set, without zeros behind it: `45 min`, `48 h`."""
    return duration(microseconds).removesuffix(" 00 s").removesuffix(" 00 min")


def short(run_id: str) -> str:
    """Return the end of a run's id, by which people name it: the beginning is that of all runs of its minute."""
    return run_id[-8:]


def _local(moment: Moment, zone: str) -> datetime:
    return on_clocks(zone, moment)


_T = TypeVar("_T")
_UNSEEN: Final = re.compile("[\u061c\u200e\u200f\u2028\u2029\ufeff]")
_ACCENT: Final = "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
_PILE: Final = re.compile(f"({_ACCENT}{{3}}){_ACCENT}+")


def harmless(value: _T) -> _T | str:
    """Return a text as it is drawn: control characters and marks of direction are written out, piles of accents cut.

    Markup and typed texts stay as they are.
    """
    if not isinstance(value, str) or isinstance(value, Markup) or (value.isascii() and value.isprintable()):
        return value
    return _PILE.sub(r"\1", visible(_UNSEEN.sub("", value)))


def written(text: str) -> Markup:
    """Return a text as part of a picture."""
    return escape(harmless(text))
