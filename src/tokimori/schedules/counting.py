"""Number of moments in a span, in steps that can be left off: by formula, by the minutes of days, or by walking."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

from tokimori.clock import DAY, Moment, format_moment
from tokimori.schedules.business_days import BusinessDays
from tokimori.schedules.combined import Except, Union
from tokimori.schedules.cron import Cron
from tokimori.schedules.grid import Grid
from tokimori.schedules.minutes import Minutes, is_countable, plain_days, terms_of
from tokimori.schedules.schedule import Bounded, Schedule, each_moment
from tokimori.schedules.sentence import clock_time, listed
from tokimori.schedules.wallclock import Clocks, WallClock
from tokimori.schedules.zoned import Zoned, ZonedSchedule
from tokimori.schedules.zones import Stretch, fixed_offset, stretches_between

_FEW = 4
"""Number of moments walked first: if they are as many days apart, all are."""
_LONG = 100 * DAY
"""Span that is counted by one formula."""

Steps = Iterator[tuple[int, Moment]]
"""How many moments there are in each piece of a span, and through when it goes."""


def count_until(
    schedule: Schedule, after: Moment, through: Moment, is_late: Callable[[], bool] = lambda: False
) -> tuple[int, Moment]:
    """Count the moments t with after < t <= through; return their number, and through when they are counted.

    That is earlier where it is late: the next call goes on behind it. Something is counted always.
    """
    number, at = 0, after
    if after < through:
        for counted, at in _counted(schedule, after, through):  # noqa: B007
            number += counted
            if is_late():
                break
    return number, at


def _counted(schedule: Schedule, after: Moment, through: Moment) -> Steps:
    if isinstance(schedule, Bounded):
        yield from _bounded(schedule, after, through)
        return
    dense, at = _dense(schedule), after
    while at < through:
        start, number = at, 0
        for number, at in enumerate(islice(each_moment(schedule, start, through), _FEW), 1):  # noqa: B007
            yield 1, at
        if number < _FEW:
            yield 0, through
            return
        if dense is not None and at - start < _FEW * DAY and at < through:
            stop = Moment(min(at + _LONG, through))
            yield from dense(at, stop)
            at = stop


def _bounded(bounded: Bounded, after: Moment, through: Moment) -> Steps:
    """Count those of the base within the bounds, less those that are left out."""
    low = after if bounded.first is None else max(after, Moment(bounded.first - 1))
    high = through if bounded.last is None else min(through, bounded.last)
    for number, at in _counted(bounded.base, low, high) if low < high else ():
        out = bounded.without[bisect_right(bounded.without, low) : bisect_right(bounded.without, at)]
        yield number - sum(bounded.base.next_after(Moment(each - 1)) == each for each in out), at
        low = at
    yield 0, through


def _dense(schedule: Schedule) -> Callable[[Moment, Moment], Steps] | None:
    """Return how moments are counted that are not far apart; None: one by one."""
    match schedule:
        case BusinessDays(base=base, zone=zone, shift=shift):
            if shift is None and (line := _one_line(base)) is not None:
                return partial(_without_days_off, line, schedule)
        case Union() | Except() | ZonedSchedule():
            if (line := _one_line(schedule)) is not None:
                return lambda after, through: iter([(line.count(after, through), through)])
            base, zone = schedule, _zone_of(schedule)
        case _:
            return None
    terms = terms_of(base)
    if not is_countable(terms, zone):
        return None
    return partial(_by_minutes, schedule, Minutes(terms, zone), zone)


def _one_line(schedule: Schedule) -> Zoned | None:
    """Return the moments of a schedule that is one cron line, or one interval."""
    terms = terms_of(schedule)
    part = terms[0].parts[0] if len(terms) == 1 and not terms[0].taken else None
    return part if part is not None and isinstance(part.times, WallClock | Grid) else None


def _zone_of(schedule: Schedule) -> str:
    """Return the zone by whose clocks the schedule goes; UTC if it goes by none."""
    parts = [part for term in terms_of(schedule) for part in (*term.parts, *term.taken)]
    clocks = [part.zone for part in parts if isinstance(part.times, WallClock | Clocks)]
    return next(iter((*clocks, *(part.zone for part in parts if fixed_offset(part.zone) is None))), "UTC")


def _without_days_off(zoned: Zoned, schedule: BusinessDays, after: Moment, through: Moment) -> Steps:
    """Count all, less those of each row of days off."""
    days, total = schedule.days, zoned.count(after, through)
    for stretch in stretches_between(schedule.zone, after + 1, through + 1):
        first, last = max(stretch.start, after + 1), min(stretch.end - 1, through)
        day, last_day = (first + stretch.offset) // DAY, (last + stretch.offset) // DAY
        while (off := schedule.days_off.next_off(day, last_day)) is not None:
            day = days.next_business(off)
            start, end = off * DAY - stretch.offset, day * DAY - stretch.offset
            total -= zoned.count(Moment(max(first, start) - 1), Moment(min(last, end - 1)))
    yield total, through


def _by_minutes(schedule: Schedule, minutes: Minutes, zone: str, after: Moment, through: Moment) -> Steps:
    """Count day by day, and walk what is near a change of the clocks."""
    days, at = schedule if isinstance(schedule, BusinessDays) else None, after
    for plain in plain_days(zone, after, through):
        low, high = plain.moment(plain.first - 1), plain.moment(plain.stop - 1)
        yield from _walked(schedule, at, low)
        own = minutes.of(plain.day, plain.offset)
        times = own if days is None else days.moved_to(plain.day, own)
        if times is None:
            yield from _walked(schedule, low, high)
        else:
            yield plain.count(times), high
        at = high
    yield from _walked(schedule, at, through)


def _walked(schedule: Schedule, after: Moment, through: Moment) -> Steps:
    if after < through:
        yield from ((1, moment) for moment in each_moment(schedule, after, through))
        yield 0, through


_MOST_NAMED = 3
_MOST_LOOKS = 100
"""Number of times that are left out and passed, from each end of what clocks skip or repeat."""


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
