"""Moments and lengths of time as the page shows them."""

import re
from typing import Final, NamedTuple

from tokimori.clock import Moment, format_moment, parse_moment
from tokimori.web.words import clock_time, distance, duration, full_time, zone_name

_CLOCK: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{3})?[+-]\d\d:\d\d")


class Time(NamedTuple):
    """A moment for machines and for people in a time zone, whole, and how far away it is."""

    rfc3339: str
    text: str
    zone: str
    away: str
    full: str


def time_of(moment: Moment, zone: str, now: Moment) -> Time:
    """Return the moment as clocks in the zone show it."""
    return Time(
        rfc3339=format_moment(moment),
        text=clock_time(moment, zone, now),
        zone=zone_name(moment, zone),
        away=distance(moment, now),
        full=full_time(moment, zone),
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
