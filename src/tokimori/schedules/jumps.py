"""Words about a schedule's times when clocks jump."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tokimori.clock import DAY, Moment, format_moment
from tokimori.schedules.business_days import BusinessDays
from tokimori.schedules.combined import Except, Union
from tokimori.schedules.cron import Cron
from tokimori.schedules.schedule import Bounded, Schedule
from tokimori.schedules.sentence import clock_time, listed
from tokimori.schedules.zoned import Zoned, ZonedSchedule
from tokimori.schedules.zones import Stretch, stretches_between

_MOST_NAMED = 3
_MOST_LOOKS = 100
"""So many times that are left out are passed, from each end of what clocks skip or repeat."""


class Jump(NamedTuple):
    """A moment at which clocks skip or repeat times of the schedule, and what happens to these."""

    at: Moment
    warning: str


class _ClockPart(NamedTuple):
    """Times of a schedule, except those of `without`. `fixed`: the job's rules for gaps and folds apply to them."""

    moments: Zoned
    fixed: bool
    without: tuple[Zoned, ...]


def jumps(schedule: Schedule, after: Moment, through: Moment) -> Iterator[Jump]:
    """Yield the jumps t that matter, with after < t <= through; in order of time within each part of the schedule."""
    for part in _parts(schedule, ()):
        for stretch in _changes(part.moments.zone, after, through):
            warning = _at_gap(part, stretch) if stretch.before < stretch.offset else _at_fold(part, stretch)
            if warning:
                yield Jump(Moment(stretch.start), warning)


def _parts(schedule: Schedule, without: tuple[Zoned, ...]) -> Iterator[_ClockPart]:
    match schedule:
        case Union():
            for member in schedule.members:
                yield from _parts(member, without)
        case Except():
            yield from _parts(schedule.base, (*without, *(part.moments for part in _parts(schedule.excluded, ()))))
        case BusinessDays() | Bounded():
            yield from _parts(schedule.base, without)
        case ZonedSchedule():
            fixed = not (isinstance(schedule, Cron) and (schedule.fields.minute.star or schedule.fields.hour.star))
            yield _ClockPart(schedule.moments, fixed, without)
        case _:
            pass


def _changes(zone: str, after: Moment, through: Moment) -> Iterator[Stretch]:
    for stretch in stretches_between(zone, after, through + 1):
        if stretch.start > after and stretch.before != stretch.offset:
            yield stretch


def _at_gap(part: _ClockPart, stretch: Stretch) -> str | None:
    start, end = stretch.start + stretch.before, stretch.start + stretch.offset
    lost = () if _goes_on(part, start, end) else _times(part, start, end)
    if not lost:
        return None
    verb = "does" if len(lost) == 1 else "do"
    if not (part.moments.shift or part.moments.later):
        return f"{_named(lost)} {verb} not exist on {_date(lost[0])}; nothing runs then"
    shown = [time + end - start for time in lost] if part.moments.later else [end]
    once = " once" if len(lost) > len(shown) or any(map(part.moments.times.has, shown)) else ""
    day = "" if _date(shown[-1]) == _date(lost[0]) else f" on {_date(shown[-1])}"
    return f"{_named(lost)} {verb} not exist on {_date(lost[0])}; runs{once} at {_named(shown)}{day}"


def _at_fold(part: _ClockPart, stretch: Stretch) -> str | None:
    start, end = stretch.start + stretch.offset, stretch.start + stretch.before
    twice = () if _goes_on(part, start, end) else _times(part, start, end)
    if not twice:
        return None
    verb = "comes" if len(twice) == 1 else "come"
    what = "runs once, the first time" if part.moments.once else "runs both times"
    return f"{_named(twice)} {verb} twice on {_date(twice[0])}; {what}"


def _times(part: _ClockPart, start: int, end: int) -> Sequence[int]:
    """Return the wall-clock times with start <= t < end; of more than are named the first ones and the last."""
    times: list[int] = []
    at, looks = part.moments.times.at_or_after(start), 0
    while at is not None and at < end and looks < _MOST_LOOKS and len(times) < _MOST_NAMED:
        if not _left_out(part, at):
            times.append(at)
        at, looks = part.moments.times.at_or_after(at + 1), looks + 1
    at, looks = part.moments.times.at_or_before(end - 1), 0
    while times and at is not None and at > times[-1] and looks < _MOST_LOOKS:
        if not _left_out(part, at):
            return [*times, at]
        at, looks = part.moments.times.at_or_before(at - 1), looks + 1
    return times


def _left_out(part: _ClockPart, at: int) -> bool:
    return any(zoned.times.has(at) for zoned in part.without if zoned.zone == part.moments.zone)


def _goes_on(part: _ClockPart, start: int, end: int) -> bool:
    """Return whether no warning is needed, as wildcards run right before the jump and right after it."""
    length = end - start
    times = part.moments.times
    return not part.fixed and times.count(start - length, start) > 0 and times.count(end, end + length) > 0


def _named(times: Sequence[int]) -> str:
    if len(times) <= _MOST_NAMED:
        return listed([clock_time(time) for time in times])
    return f"{clock_time(times[0])} to {clock_time(times[-1])}"


def _date(wall: int) -> str:
    return format_moment(Moment(wall // DAY * DAY))[:10]
