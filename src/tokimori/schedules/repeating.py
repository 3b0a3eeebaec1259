"""ISO 8601 repeating intervals: `R5/start/period`, `R/start/end`, `R3/period/end`."""

import re
from dataclasses import dataclass, replace

from tokimori.clock import Moment
from tokimori.errors import InvalidSchedule
from tokimori.schedules.duration import Duration, parse_duration
from tokimori.schedules.grid import CalendarSteps, ExactSteps, Grid, MixedSteps, MonthEnd, Steps
from tokimori.schedules.stamp import Stamp, parse_stamp
from tokimori.schedules.zoned import Zoned, ZonedSchedule, ZoneRules
from tokimori.schedules.zones import stretch_at

Bounds = tuple[int | None, int | None]
"""The first and the last index of a grid; None: no bound."""

_REPEATS = re.compile(r"R(?:(\d{1,9})|-1)?\Z", re.ASCII)
_FORMS = "R[n]/start/period, R[n]/start/end or R[n]/period/end"


@dataclass(frozen=True, slots=True)
class Repeating(ZonedSchedule):
    """`repeats` more moments after the first, None = for ever. Two of `start`, `period` and `end` are given.

    The moments go on from the start, or back from the end where no start is given. Years, months, weeks and days are
    calendar units on the wall clock of the anchor's zone; hours, minutes and seconds are exact. Between a start and an
    end lies the exact time that passes.
    """

    repeats: int | None
    start: Stamp | None
    period: Duration | None
    end: Stamp | None
    rules: ZoneRules
    month_end: MonthEnd

    def __str__(self) -> str:
        repeats = "R" if self.repeats is None else f"R{self.repeats}"
        return "/".join([repeats, *(str(part) for part in (self.start, self.period, self.end) if part is not None)])


def parse_repeating(text: str, rules: ZoneRules, month_end: MonthEnd) -> Repeating:
    """Read a repeating interval. Raises `InvalidSchedule`, which names the part."""
    parts = text.split("/")
    if len(parts) != 3:
        message = f"schedule: {text!r} has {len(parts)} parts instead of 3"
        raise InvalidSchedule(message, field="schedule", value=text, allowed=_FORMS)
    repeats = _repeats(parts[0])
    if parts[1].startswith("P"):
        period, end = parse_duration(parts[1]), parse_stamp(parts[2], field="end")
        moments = stepping(end, period, (None if repeats is None else -repeats, 0), rules, month_end)
        return Repeating(repeats, None, period, end, rules, month_end, moments=moments)
    start = parse_stamp(parts[1], field="start")
    if "T" in parts[2] and parts[2][:1].isdigit():
        end = parse_stamp(parts[2], field="end")
        moments = _between(repeats, start, end, rules)
        return Repeating(repeats, start, None, end, rules, month_end, moments=moments)
    period = parse_duration(parts[2])
    moments = stepping(start, period, (0, repeats), rules, month_end)
    return Repeating(repeats, start, period, None, rules, month_end, moments=moments)


def counted_from(schedule: Repeating, last_run: Moment) -> Repeating:
    """Return the interval, counted from a run at that moment; unchanged where that was before its start.

    Raises `InvalidSchedule` where the interval was not given as a start and a period.
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
    return replace(schedule, moments=stepping(anchor, schedule.period, (1, None), schedule.rules, schedule.month_end))


def stepping(
    anchor: Stamp, period: Duration, bounds: Bounds, rules: ZoneRules, month_end: MonthEnd = MonthEnd.CLAMP
) -> Zoned:
    """Return the moments anchor + n × period for all n within the bounds."""
    zone = anchor.zone_in(rules.zone)
    if not (period.months or period.days):
        return _exactly(ExactSteps(anchor.moment_in(zone), period.exact), bounds)
    calendar = CalendarSteps(anchor.wall, period.months, period.days, month_end)
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
