"""Intervals and single moments: ISO 8601 (`R5/start/period`, `R3/period/end`), `every 10 seconds`, `at T`."""

import re
from dataclasses import dataclass, replace

from tokimori.clock import DAY, HOUR, MINUTE, SECOND, Moment
from tokimori.errors import InvalidSchedule
from tokimori.schedules.duration import Duration, parse_duration
from tokimori.schedules.grid import (
    FIRST_WALL,
    LAST_WALL,
    CalendarSteps,
    ExactSteps,
    Grid,
    MixedSteps,
    Steps,
    single,
)
from tokimori.schedules.stamp import Stamp, parse_stamp
from tokimori.schedules.zoned import Zoned, ZonedSchedule, ZoneRules
from tokimori.schedules.zones import stretch_at
from tokimori.spelling import amount

Bounds = tuple[int | None, int | None]
"""The first and the last index of a grid; None: no bound."""

_REPEATS = re.compile(r"R(?:(\d{1,9})|-1)?\Z", re.ASCII)
_FORMS = "R[n]/start/period, R[n]/start/end or R[n]/period/end"


@dataclass(frozen=True, slots=True)
class Repeating(ZonedSchedule):
    """`repeats` more moments after the first, None = for ever. Two of `start`, `period` and `end` are given.

    The moments go on from the start, or back from the end if no start is given. Years, months, weeks and days are
    calendar units on the wall clock of the anchor's zone; hours, minutes and seconds are exact. Between a start and an
    end lies the exact time that passes.
    """

    repeats: int | None
    start: Stamp | None
    period: Duration | None
    end: Stamp | None
    rules: ZoneRules

    def __str__(self) -> str:
        repeats = "R" if self.repeats is None else f"R{self.repeats}"
        return "/".join([repeats, *(str(part) for part in (self.start, self.period, self.end) if part is not None)])


def parse_repeating(text: str, rules: ZoneRules) -> Repeating:
    """Read a repeating interval. Raises `InvalidSchedule`, which names the part."""
    parts = text.split("/")
    if len(parts) != 3:
        message = f"schedule: {text!r} has {amount(len(parts), 'part')} instead of 3"
        raise InvalidSchedule(message, field="schedule", value=text, allowed=_FORMS)
    repeats = _repeats(parts[0])
    if parts[1].startswith("P"):
        period, end = parse_duration(parts[1]), parse_stamp(parts[2], field="end")
        moments = stepping(end, period, (None if repeats is None else -repeats, 0), rules)
        return Repeating(repeats, None, period, end, rules, moments=moments)
    start = parse_stamp(parts[1], field="start")
    if "T" in parts[2] and parts[2][:1].isdigit():
        end = parse_stamp(parts[2], field="end")
        moments = _between(repeats, start, end, rules)
        return Repeating(repeats, start, None, end, rules, moments=moments)
    period = parse_duration(parts[2])
    moments = stepping(start, period, (0, repeats), rules)
    return Repeating(repeats, start, period, None, rules, moments=moments)


def counted_from(schedule: Repeating, last_run: Moment) -> Repeating:
    """Return the interval, counted from a run at that moment; unchanged if that was before its start.

    Raises `InvalidSchedule` if the interval was not given as a start and a period.
    """
    if schedule.start is None or schedule.period is None:
        message = f"anchored_on: {schedule} has no start and period"
        allowed = "R/start/period"
        raise InvalidSchedule(message, field="anchored_on", value="last run", allowed=allowed)
    zone = schedule.start.zone_in(schedule.rules.zone)
    if last_run < schedule.start.moment_in(schedule.rules.zone):
        return schedule
    anchor = Stamp(last_run, "Z")
    if schedule.period.months or schedule.period.days:
        anchor = Stamp(last_run + stretch_at(zone, last_run).offset, schedule.start.offset)
    return replace(schedule, moments=stepping(anchor, schedule.period, (1, None), schedule.rules))


def stepping(anchor: Stamp, period: Duration, bounds: Bounds, rules: ZoneRules) -> Zoned:
    """Return the moments anchor + n × period for all n within the bounds."""
    zone = anchor.zone_in(rules.zone)
    if not (period.months or period.days):
        return _exactly(ExactSteps(anchor.moment_in(zone), period.exact), bounds)
    calendar = CalendarSteps(anchor.wall, period.months, period.days)
    if period.exact:
        return _exactly(MixedSteps(calendar, period.exact, zone), bounds)
    return rules.moments(Grid(calendar, *bounds), zone)


def _between(repeats: int | None, start: Stamp, end: Stamp, rules: ZoneRules) -> Zoned:
    first, second = start.moment_in(rules.zone), end.moment_in(rules.zone)
    if second <= first:
        message = f"end: {end} is not after the start"
        raise InvalidSchedule(message, field="end", value=str(end), allowed=f"later than {start}")
    return _exactly(ExactSteps(first, second - first), (0, repeats))


def _exactly(steps: Steps, bounds: Bounds) -> Zoned:
    """Return the moments of steps that are counted in UTC."""
    return Zoned(Grid(steps, *bounds), "UTC", shift=False, once=False)


def _repeats(text: str) -> int | None:
    found = _REPEATS.match(text)
    if found is None:
        message = f"repeats: {text!r} is not allowed"
        raise InvalidSchedule(message, field="repeats", value=text, allowed="R, or R0 to R999999999")
    return None if found[1] is None else int(found[1])


_EVERY = re.compile(r"every\s+(?:(\d{1,9})\s+)?([a-z]+)\Z", re.ASCII | re.IGNORECASE)
_UNITS = {
    "second": Duration(0, 0, SECOND),
    "minute": Duration(0, 0, MINUTE),
    "hour": Duration(0, 0, HOUR),
    "day": Duration(0, 1, 0),
    "week": Duration(0, 7, 0),
}
_GO_DURATION = re.compile(r"(?:(\d{1,6})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?\Z", re.ASCII)
_ALLOWED = "every N seconds, minutes, hours, days or weeks, N is 1 or more; or every 90s, every 1h30m"


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
    """Return every `n` units (`second` … `week`) from an anchor on. Raises `InvalidSchedule` beyond the calendar."""
    if not FIRST_WALL + 2 * DAY < anchor < LAST_WALL - 2 * DAY:
        message = "anchor: the moment from which an interval counts is too far away"
        raise InvalidSchedule(message, field="anchor", value=anchor, allowed="years 1 to 9998")
    one = _UNITS[unit]
    period = Duration(0, n * one.days, n * one.exact)
    offset = stretch_at(rules.zone, anchor).offset if period.days else 0
    start = Stamp(anchor + offset, None if period.days else "Z")
    return Every(n, unit, anchor, rules, moments=stepping(start, period, (1, None), rules))


def parse_every(text: str, anchor: Moment, rules: ZoneRules) -> Every:
    """Read `every N units`, and `every 90s` as `@every` does. Raises `InvalidSchedule`."""
    rest = text.partition(" ")[2].strip()
    if rest and _GO_DURATION.match(rest):
        return parse_every_duration(rest, anchor, rules)
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


@dataclass(frozen=True, slots=True)
class Once(ZonedSchedule):
    """One moment. Typed without an offset, it is a wall-clock time in the zone of the rules."""

    at: Stamp
    rules: ZoneRules

    def __str__(self) -> str:
        return f"at {self.at}"


def parse_once(text: str, rules: ZoneRules) -> Once:
    """Read `at T`. Raises `InvalidSchedule`, also for a time that the zone skips if the rules say gap = skip."""
    at = parse_stamp(text[2:].strip(), field="at")
    moments = rules.moments(single(at.wall), at.zone_in(rules.zone))
    if moments.next_after(Moment(at.wall - 10**12)) is None:
        message = f"at: {at} does not exist in {rules.zone}"
        allowed = "a time that the clocks show, or gap = shift or later"
        raise InvalidSchedule(message, field="at", value=str(at), allowed=allowed)
    return Once(at, rules, moments=moments)
