"""Moments of a timer of systemd: its `[Timer]` section, as schedules of ours. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tokimori.errors import InvalidFile, InvalidInput, InvalidSchedule
from tokimori.schedules.fluent import every
from tokimori.schedules.parse import parse_schedule
from tokimori.translators.moving import Warnings, told
from tokimori.translators.on_calendar import ALLOWED as ON_CALENDAR
from tokimori.translators.on_calendar import Calendar, read_calendar
from tokimori.translators.time_span import ALLOWED, microseconds_of
from tokimori.translators.unit_file import Assignment, Unit

_SECOND: Final = 1_000_000
_AFTER_START: Final = ("OnBootSec", "OnStartupSec", "OnActiveSec")
_AFTER_A_RUN: Final = ("OnUnitActiveSec", "OnUnitInactiveSec")
_READ: Final = frozenset(
    (*_AFTER_START, *_AFTER_A_RUN, "OnCalendar", "Persistent", "RandomizedDelaySec", "Unit", "RemainAfterElapse")
)
_TOLD: Final = {
    "AccuracySec": "runs come on time here, and are not put together",
    "FixedRandomDelay": "each run has a delay of its own here",
    "RandomizedOffsetSec": "left out: `jitter` delays runs here",
    "WakeSystem": "left out: nothing here wakes a machine",
    "OnClockChange": "left out: no run comes because the clock was set",
    "OnTimezoneChange": "left out: no run comes because the zone was changed",
    "DeferReactivation": "left out",
}


class Timing(NamedTuple):
    """Schedule of a job of a timer; `suffix` is what its id has more than the timer's name.

    `is_relative`: the interval counts from the last run.
    """

    suffix: str
    schedule: str
    time_zone: str
    is_relative: bool
    is_persistent: bool
    jitter: float
    warnings: tuple[str, ...]


def timings_of(timer: Unit, time_zone: str) -> Iterator[Timing]:
    """Yield its jobs' schedules: one by calendar or by interval, and one for the machine's start. Raises
    `InvalidFile`.
    """
    warnings = Warnings()
    _tell(timer, warnings)
    calendars = timer.all("Timer", "OnCalendar")
    intervals = [each for key in _AFTER_A_RUN for each in timer.all("Timer", key)]
    starts = [each for key in _AFTER_START for each in timer.all("Timer", key)]
    jitter = sum(_length(each) for each in timer.all("Timer", "RandomizedDelaySec")[-1:]) / _SECOND
    persistent = any(each.flag() for each in timer.all("Timer", "Persistent")[-1:])
    if len(intervals) > 1 or (intervals and calendars):
        raise intervals[-1].refused("it is not the only line of its kind", "one of OnCalendar and OnUnitActiveSec")
    if not (calendars or intervals or starts):
        raise InvalidFile(
            "the timer has no time", field=timer.name, allowed="OnCalendar=, OnUnitActiveSec=, OnBootSec="
        )
    if calendars:
        schedule, zone = _united(calendars)
        yield Timing("", schedule, zone or time_zone, False, persistent, jitter, warnings.all())
    if intervals:
        schedule = _interval(intervals[0], starts, warnings)
        yield Timing("", schedule, time_zone, True, False, jitter, warnings.all())
    elif starts:
        told_of_start = _start(starts)
        suffix = "-boot" if calendars else ""
        yield Timing(suffix, "@reboot", time_zone, False, False, 0, (*warnings.all(), *told_of_start))


def _tell(timer: Unit, warnings: Warnings) -> None:
    for key in timer.keys("Timer"):
        for each in timer.all("Timer", key):
            if key in _TOLD:
                warnings.add(key, each.value, _TOLD[key])
            elif key not in _READ:
                warnings.add(key, each.value, f"left out ({each.place}): it is not known here")


def _united(lines: Sequence[Assignment]) -> tuple[str, str | None]:
    """Return the schedule of all calendar expressions, and their zone. Raises `InvalidFile`."""
    found = [_calendar(line) for line in lines]
    zones = {each.zone for each in found}
    if len(zones) > 1:
        raise lines[-1].refused("it has another zone than the lines before", "one zone for all lines")
    left_out = [each.left_out for each in found if each.left_out is not None]
    if left_out and len(found) > 1:
        raise lines[-1].refused(
            "a weekday together with a day of the month can't stand beside other lines", "a timer for each"
        )
    schedule = "; ".join(dict.fromkeys(each.cron for each in found))
    return f"{schedule} except {left_out[0]}" if left_out else schedule, found[0].zone


def _calendar(line: Assignment) -> Calendar:
    try:
        calendar = read_calendar(line.value)
        parse_schedule(calendar.cron)
    except InvalidSchedule as fault:
        raise line.refused(fault.message, fault.allowed or ON_CALENDAR) from None
    except InvalidInput as fault:
        raise InvalidFile(told(fault), field=line.place, value=line.value, allowed=fault.allowed) from None
    return calendar


def _interval(line: Assignment, starts: Sequence[Assignment], warnings: Warnings) -> str:
    length = _length(line)
    if length % _SECOND or not length:
        raise line.refused("it is not a whole number of seconds", "1s and more")
    seconds = length // _SECOND
    if line.key == "OnUnitInactiveSec":
        warnings.add(line.key, line.value, "it counts from the beginning of the last run here, not from its end")
    for each in starts:
        warnings.add(each.key, each.value, "left out: the first run comes one interval after the import")
    if seconds % 3600 == 0:
        return str(every(seconds // 3600).hours)
    return str(every(seconds // 60).minutes if seconds % 60 == 0 else every(seconds).seconds)


def _start(lines: Sequence[Assignment]) -> tuple[str, ...]:
    """Return the times after a start, which become none: the run comes when a node has started after it."""
    warnings = Warnings()
    for line in lines:
        _length(line)
        warnings.add(line.key, line.value, "the run comes as soon as a node starts after the machine has")
    return warnings.all()


def _length(line: Assignment) -> int:
    length = microseconds_of(line.value)
    if length is None:
        raise line.refused("it is no length of time", ALLOWED)
    return length
