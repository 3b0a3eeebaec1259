"""Meaning of a schedule text: a sentence, the next moments, and warnings."""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from tokimori.clock import DAY, Moment
from tokimori.schedules.business_days import BusinessDays, Shift, on_business_days
from tokimori.schedules.combined import Except, Union
from tokimori.schedules.counting import jumps
from tokimori.schedules.cron import Cron, FieldTable
from tokimori.schedules.cron_fields import DAY as DAY_OF_MONTH
from tokimori.schedules.cron_fields import (
    HOUR,
    MINUTE,
    SECOND,
    WEEKDAY,
    Field,
    FieldKind,
    NearestWorkday,
    NthWeekday,
    print_field,
    star,
)
from tokimori.schedules.days import month_length
from tokimori.schedules.days_off import DaysOff
from tokimori.schedules.duration import Duration
from tokimori.schedules.grid import CalendarSteps, Grid
from tokimori.schedules.intervals import Every, Once, Repeating
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import Bounded, Fold, Gap, OnDemand, Schedule, next_moments
from tokimori.schedules.sentence import MONTHS, WEEKDAYS, bits_in, listed, sentence
from tokimori.schedules.zones import OVERLAP

YEAR = 366 * DAY
"""How far ahead clock changes are looked for; farther if the moments shown reach farther."""
FAR = 10 * YEAR
"""Clock changes farther ahead are reported only beside the moments shown, and beside the first `MOST_FAR` of these."""
MOST_FAR = 5
MOST_JUMPS = 6
_EVERY_STEP = re.compile(r"\*/(\d+)")
_SPREAD = re.compile(r"(?:^|[\s,])H(?:$|[\s,/(])", re.IGNORECASE)
_LEAP_YEAR, _COMMON_YEAR = 2028, 2027


class Explanation(Struct, frozen=True, kw_only=True):
    """A text as typed, what it means in the zone, its first moments after the one asked about, and warnings."""

    text: str
    sentence: str
    time_zone: str
    moments: tuple[Moment, ...]
    warnings: tuple[str, ...]


def explain(
    text: str,
    *,
    zone: str,
    after: Moment,
    n: int,
    gap: Gap = Gap.SHIFT,
    fold: Fold = Fold.FIRST,
    days_off: DaysOff | None = None,
    shift: Shift | None = None,
) -> Explanation:
    """Explain a schedule text as a job added at `after` would have it. Raises `InvalidSchedule` as parsing does."""
    schedule = parse_schedule(text, zone=zone, anchor=after, gap=gap, fold=fold)
    if days_off is not None:
        schedule = on_business_days(schedule, days_off, shift, zone)
    return explained(text, schedule, zone=zone, after=after, n=n, of_job=False)


def explained(text: str, schedule: Schedule, *, zone: str, after: Moment, n: int, of_job: bool = True) -> Explanation:
    """Explain a schedule that was read from `text`. `of_job`: as that of a job, with the job's anchor and its id."""
    moments = next_moments(schedule, after, n)
    warnings = [
        *(warning for leaf in _leaves(schedule) for warning in _of_leaf(leaf, of_job=of_job)),
        *(
            ["H stands for a number that depends on the job's id; the moments shown are only an example"]
            if not of_job and _SPREAD.search(text)
            else []
        ),
        *_of_numbers(text),
        *_of_future(schedule, moments, after, n),
        *_of_jumps(schedule, moments, after),
    ]
    return Explanation(
        text=text,
        sentence=sentence(schedule),
        time_zone=zone,
        moments=tuple(moments),
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _leaves(schedule: Schedule) -> Iterator[Schedule]:
    """Yield the schedules of which it is made, without its exclusions."""
    match schedule:
        case Union():
            for member in schedule.members:
                yield from _leaves(member)
        case Except() | BusinessDays() | Bounded():
            yield from _leaves(schedule.base)
        case _:
            yield schedule


def _of_leaf(leaf: Schedule, *, of_job: bool) -> Iterator[str]:
    match leaf:
        case Cron():
            yield from _of_cron(leaf)
        case FieldTable():
            yield from _of_days(leaf.cron)
        case Every():
            if not of_job:
                yield f"{leaf} counts from the moment at which the job is added; shown as if that were now"
            if leaf.unit == "hour" and leaf.n % 24 == 0:
                yield from _of_exact_days(Duration(0, 0, leaf.n * DAY // 24), leaf.rules.zone)
        case Repeating():
            yield from _of_repeating(leaf)
        case _:
            pass


# The whole


def _of_numbers(text: str) -> Iterator[str]:
    """Yield a warning about a weekday by number beside `?`, as Quartz and AWS have it, who count from Sunday as 1."""
    for member in re.split(r"[;\n]", text):
        fields = member.split()
        if "?" in fields and 5 <= len(fields) <= 7 and (weekday := fields[min(len(fields) - 1, 5)])[0] in "1234567":
            yield f"weekday {weekday}: Sunday is 0 or 7, in Quartz and AWS, which write ?, 1; names are the same"


def _of_future(schedule: Schedule, moments: Sequence[Moment], after: Moment, n: int) -> Iterator[str]:
    if isinstance(schedule, OnDemand):
        return
    if not moments:
        yield "it never runs again: its last moment is past"
    elif len(moments) < n and not isinstance(schedule, Once):
        yield f"it ends after {'this moment' if len(moments) == 1 else f'these {len(moments)} moments'}"
    if moments and moments[0] - after > YEAR:
        yield "the next moment is more than a year away"


def _of_jumps(schedule: Schedule, moments: Sequence[Moment], after: Moment) -> Iterator[str]:
    spans = _spans(moments, after)
    if isinstance(schedule, Bounded):
        spans = [_within(schedule, span) for span in spans]
        schedule = schedule.base
    all_jumps = {jump for low, high in spans if low < high for jump in jumps(schedule, low, high)}
    found = sorted(jump for jump in all_jumps if not (isinstance(schedule, BusinessDays) and schedule.is_off(jump.at)))
    yield from (jump.warning for jump in found[:MOST_JUMPS])
    if len(found) > MOST_JUMPS:
        yield f"and so on: {len(found) - MOST_JUMPS} more clock changes skip or repeat some of its times"


def _spans(moments: Sequence[Moment], after: Moment) -> list[tuple[Moment, Moment]]:
    """Return the spans to search for clock changes: up to the last moment shown; in far years beside a few moments."""
    if not moments:
        return []
    horizon = Moment(after + FAR)
    far = [moment for moment in moments if moment > horizon][:MOST_FAR]
    return [
        (after, min(Moment(max(after + YEAR, moments[-1])), horizon)),
        *((Moment(max(moment - OVERLAP, horizon)), Moment(moment + OVERLAP)) for moment in far),
    ]


def _within(bounded: Bounded, span: tuple[Moment, Moment]) -> tuple[Moment, Moment]:
    after, through = span
    first, last = bounded.first, bounded.last
    return after if first is None else max(after, first), through if last is None else min(through, last)


# Cron


def _of_cron(cron: Cron) -> Iterator[str]:
    fields = cron.fields
    if fields.second.bits != 1:
        seconds = bits_in(fields.second.bits)
        often = f"second {seconds[0]}" if len(seconds) == 1 else f"{len(seconds)} seconds of a minute"
        yield f"with more than 5 fields the first one means seconds: it runs at {often}"
    if fields.minute.bits == star(MINUTE).bits and fields.hour.bits != star(HOUR).bits:
        yield "with * as the minute it runs every minute of these hours; write 0 to run once an hour"
    for kind, value in ((SECOND, fields.second), (MINUTE, fields.minute), (HOUR, fields.hour)):
        yield from _of_step(kind, value)
    yield from _of_step(DAY_OF_MONTH, fields.day)
    yield from _of_days(cron)


def _of_step(kind: FieldKind, value: Field) -> Iterator[str]:
    """Warn of a step such as `*/7`, which starts again with each hour."""
    text = print_field(kind, value) if value.star else "*"
    found = _EVERY_STEP.fullmatch(text)
    if found is None:
        return
    values = [bit + kind.zero for bit in bits_in(value.bits)]
    step, last, size = int(found[1]), values[-1], kind.high - kind.low + 1
    if kind is DAY_OF_MONTH:
        if step > 1:
            yield f"{text} starts again with each month: day {last} is followed by day 1"
    elif size % step:
        distance = size - last + values[0]
        below = {SECOND: "minute", MINUTE: "hour", HOUR: "day"}[kind]
        yield (
            f"{text} starts again with each {below}, and {step} does not divide {size}: "
            f"after {kind.name} {last} the next is {distance} {kind.name}{'' if distance == 1 else 's'} later"
        )


def _of_days(cron: Cron) -> Iterator[str]:
    day, weekday = cron.fields.day, cron.fields.weekday
    if not (_is_all(DAY_OF_MONTH, day) or _is_all(WEEKDAY, weekday)):
        if day.star or weekday.star:
            starred = print_field(DAY_OF_MONTH, day) if day.star else print_field(WEEKDAY, weekday)
            yield f"{starred} begins with *, so a day must match both day of month and day of week, as in Vixie's cron"
        else:
            yield "day of month and day of week are both restricted: it runs on days that match either, as in cron"
    else:
        yield from _of_short_months(cron)
    for special in (*day.special, *weekday.special):
        match special:
            case NthWeekday(number, 5):
                yield f"not every month has a fifth {WEEKDAYS[number]}"
            case NearestWorkday(near) if near > 28:
                yield f"not every month has a day {near}"
            case _:
                pass


def _is_all(kind: FieldKind, value: Field) -> bool:
    return value.bits == star(kind).bits


def _of_short_months(cron: Cron) -> Iterator[str]:
    """Yield a sentence if some of the months do not have a day that is named."""
    day, month = cron.fields.day, cron.fields.month
    if day.special or not day.bits:
        return
    days, months = bits_in(day.bits), bits_in(month.bits)
    without = [number for number in months if month_length(_COMMON_YEAR, number) < days[0]]
    if without == months:
        yield "29 February comes only in leap years"
    elif without:
        names = listed([MONTHS[number - 1] for number in without], "or")
        has = "has" if len(without) == 1 else "have"
        yield f"it does not run in {names}, which {has} no day {days[0]}; L is the last day of any month"


# Intervals


def _of_repeating(repeating: Repeating) -> Iterator[str]:
    repeats = repeating.repeats
    if repeats:
        yield f"R{repeats} is {repeats} repeats after the first: {repeats + 1} moments in all"
    if repeating.period is not None:
        yield from _of_exact_days(repeating.period, repeating.rules.zone)
    times = repeating.moments.times
    if not (isinstance(times, Grid) and isinstance(times.steps, CalendarSteps) and times.steps.months):
        return
    number = repeating.start or repeating.end
    day = int(str(number)[8:10])
    if day > 28:
        yield f"in months without a day {day} it runs on the month's last day"


def _of_exact_days(period: Duration, zone: str) -> Iterator[str]:
    if zone != "UTC" and period.exact and period.exact % DAY == 0 and not (period.months or period.days):
        hours = period.exact * 24 // DAY
        yield f"{hours} hours are exact: when clocks jump, the time of day changes; with days (every day, P1D) it stays"
