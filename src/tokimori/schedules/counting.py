"""Number of moments in a span, in steps that can be left off: by formula, by the minutes of days, or by walking."""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

from tokimori.clock import DAY, Moment
from tokimori.schedules.business_days import BusinessDays
from tokimori.schedules.combined import Except, Union
from tokimori.schedules.grid import Grid
from tokimori.schedules.minutes import Minutes, is_countable, plain_days, terms_of
from tokimori.schedules.schedule import Bounded, Schedule, each_moment
from tokimori.schedules.wallclock import Clocks, WallClock
from tokimori.schedules.zoned import Zoned, ZonedSchedule
from tokimori.schedules.zones import fixed_offset, stretches_between

_FEW = 4
"""So many moments are walked first: where they are as many days apart, all are."""
_LONG = 100 * DAY
"""So much is counted by one formula."""

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
    """Return the zone by whose clocks the schedule goes; UTC where it goes by none."""
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
