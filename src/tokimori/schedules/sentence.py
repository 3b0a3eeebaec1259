"""A schedule as a sentence in English: one function for each notation."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from tokimori.clock import DAY, HOUR, MINUTE, SECOND, Moment, format_moment
from tokimori.errors import Bug
from tokimori.schedules.business_days import BusinessDays
from tokimori.schedules.combined import Except, Union
from tokimori.schedules.cron import Cron, CronFields, FieldTable
from tokimori.schedules.cron_fields import (
    Field,
    LastDay,
    LastWeekday,
    LastWorkday,
    NearestWorkday,
    NthWeekday,
    SpecialDay,
)
from tokimori.schedules.days import ALL_MONTHS, FIRST_YEAR, LAST_YEAR
from tokimori.schedules.duration import Duration
from tokimori.schedules.fluent import Weekly
from tokimori.schedules.intervals import Every, Once, Repeating
from tokimori.schedules.schedule import Bounded, OnDemand, Reboot, Schedule

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_NTH = ("first", "second", "third", "fourth", "fifth")
_MOST_CLOCK_TIMES = 6
_ALL_MINUTES, _ALL_HOURS, _ALL_DAYS, _ALL_WEEKDAYS = (1 << 60) - 1, (1 << 24) - 1, (1 << 32) - 2, (1 << 7) - 1
_ALL_YEARS = (1 << LAST_YEAR - FIRST_YEAR + 1) - 1


def sentence(schedule: Schedule) -> str:
    """Return the schedule's meaning. Wall-clock times are those of its zone, which the sentence does not repeat."""
    text = _phrase(schedule.base) + _bounds(schedule) if isinstance(schedule, Bounded) else _phrase(schedule)
    return f"{text[0].upper()}{text[1:]}."


def _bounds(schedule: Bounded) -> str:
    bounds = (("from", schedule.first), ("until", schedule.last))
    return "; " + " ".join(f"{word} {format_moment(moment)}" for word, moment in bounds if moment is not None)


def _phrase(schedule: Schedule) -> str:
    match schedule:
        case Cron():
            return _cron(schedule.fields)
        case FieldTable():
            return _cron(schedule.cron.fields)
        case Weekly():
            return _weekly(schedule)
        case Every():
            return _every(schedule)
        case Repeating():
            return _repeating(schedule)
        case Once():
            return f"once, at {schedule.at}"
        case Union():
            return "; and ".join(map(_phrase, schedule.members))
        case Except():
            return f"{_phrase(schedule.base)}; except {_phrase(schedule.excluded)}"
        case BusinessDays():
            where = f"on days off, at the same time on the {schedule.shift} business day"
            return f"{_phrase(schedule.base)}; {'not on days off' if schedule.shift is None else where}"
        case Reboot():
            return "once after each start of a host that runs a node"
        case OnDemand():
            return "never by itself, only when somebody asks for it"
        case _:
            raise Bug(f"there is no sentence for a {type(schedule).__name__}")


# Cron


def _cron(fields: CronFields) -> str:
    clauses = [_times(fields), _days(fields.day, fields.weekday), _months(fields.month), _years(fields.year)]
    if clauses[0].startswith("at ") and ":" in clauses[0] and not any(clauses[1:]):
        clauses[1] = "every day"
    return ", ".join(clause for clause in clauses if clause)


def _times(fields: CronFields) -> str:
    seconds, minutes, hours = (bits_in(field.bits) for field in (fields.second, fields.minute, fields.hour))
    if len(seconds) * len(minutes) * len(hours) <= _MOST_CLOCK_TIMES:
        times = (
            hour * HOUR + minute * MINUTE + second * SECOND
            for hour in hours
            for minute in minutes
            for second in seconds
        )
        return f"at {listed([clock_time(time) for time in times])}"
    if seconds == [0]:
        return _of_minutes(fields.minute.bits, fields.hour.bits)
    of_seconds = _steps("second", seconds, 60)
    if fields.minute.bits != _ALL_MINUTES:
        return f"{of_seconds} of {_counted('minute', minutes)}{_of_hours(fields.hour.bits) or ' of every hour'}"
    every_minute = "" if of_seconds.startswith("every") else " of every minute"
    return f"{of_seconds}{every_minute}{_of_hours(fields.hour.bits)}"


def _of_minutes(minutes: int, hours: int) -> str:
    text = _steps("minute", bits_in(minutes), 60)
    step = _step(bits_in(hours), 24)
    if step > 1 and minutes.bit_count() == 1:
        return f"every {step} hours, {text}"
    if hours == _ALL_HOURS:
        return text if text.startswith("every") else f"{text} of every hour"
    return text + _of_hours(hours)


def _of_hours(hours: int) -> str:
    found = bits_in(hours)
    if hours == _ALL_HOURS:
        return ""
    if found[-1] - found[0] + 1 == len(found):
        return f" from {found[0]:02}:00 to {found[-1]:02}:59"
    return f" of the hours {_runs(found, str)}"


def _steps(unit: str, values: Sequence[int], size: int) -> str:
    step = _step(values, size)
    if step:
        return f"every {unit}" if step == 1 else f"every {step} {unit}s"
    return f"at {_counted(unit, values)}"


def _step(values: Sequence[int], size: int) -> int:
    """Return the distance of values that go round evenly from 0 on; 0 if they do not."""
    return next((step for step in range(1, size) if size % step == 0 and [*range(0, size, step)] == values), 0)


def _days(day: Field, weekday: Field) -> str:
    by_day, by_weekday = _by_day(day), _by_weekday(weekday)
    if not (by_day and by_weekday):
        return by_day or by_weekday
    if day.star or weekday.star:
        return f"{by_day}, if that is {by_weekday.removeprefix('on ')}"
    return f"{by_day} or {by_weekday}"


def _by_day(day: Field) -> str:
    if day.bits == _ALL_DAYS:
        return ""
    numbers = [f"{_counted('day', bits_in(day.bits))} of the month"] if day.bits else []
    return f"on {listed([*numbers, *map(_special, day.special)])}"


def _by_weekday(weekday: Field) -> str:
    if weekday.bits == _ALL_WEEKDAYS:
        return ""
    week = [*bits_in(weekday.bits & ~1), *([7] if weekday.bits & 1 else [])]  # begun on Monday, as people list them
    names = [_runs(week, lambda number: WEEKDAYS[number % 7], "through")] if week else []
    text = listed([*names, *map(_special, weekday.special)])
    return text if text.count(" ") == 2 and "through" in text else f"on {text}"


def _special(day: SpecialDay) -> str:
    match day:
        case LastDay(0):
            return "the last day of the month"
        case LastDay(before):
            return f"the day {before} day{'' if before == 1 else 's'} before the last of the month"
        case LastWorkday(0):
            return "the last working day (Monday to Friday) of the month"
        case LastWorkday(before):
            near = f"{before} day{'' if before == 1 else 's'} before the last of the month"
            return f"the working day (Monday to Friday) nearest to {near}"
        case NearestWorkday(near):
            return f"the working day (Monday to Friday) nearest to day {near} of the month"
        case NthWeekday(weekday, nth):
            return f"the {_NTH[nth - 1]} {WEEKDAYS[weekday]} of the month"
        case LastWeekday(weekday):
            return f"the last {WEEKDAYS[weekday]} of the month"


def _months(month: Field) -> str:
    if month.bits == ALL_MONTHS:
        return ""
    return f"in {_runs(bits_in(month.bits), lambda number: MONTHS[number - 1], 'through')}"


def _years(year: Field) -> str:
    if year.bits == _ALL_YEARS:
        return ""
    return f"in {_runs([bit + FIRST_YEAR for bit in bits_in(year.bits)], str)}"


def _weekly(weekly: Weekly) -> str:
    time = clock_time(weekly.minute * MINUTE)
    if len(weekly.weekdays) == 7:
        return f"at {time}, every day"
    return f"at {time}, {_by_weekday(Field(sum(1 << day for day in weekly.weekdays), star=False))}"


# Intervals


def _every(schedule: Every) -> str:
    text = f"every {schedule.unit}" if schedule.n == 1 else f"every {schedule.n} {schedule.unit}s"
    return f"{text}, counted from when the job is added"


def _repeating(schedule: Repeating) -> str:
    times = "" if schedule.repeats is None else f", {schedule.repeats + 1} times in all"
    if schedule.period is None:
        assert schedule.start is not None and schedule.end is not None  # noqa: S101 two of three are given
        first, second = (stamp.moment_in(schedule.rules.zone) for stamp in (schedule.start, schedule.end))
        return f"{_period(Duration(0, 0, second - first))}, from {schedule.start} on{times}"
    if schedule.start is None:
        return f"{_period(schedule.period)}, up to {schedule.end}{times}"
    return (
        f"once, at {schedule.start}"
        if schedule.repeats == 0
        else f"{_period(schedule.period)}, from {schedule.start} on{times}"
    )


def _period(period: Duration) -> str:
    years, months = divmod(period.months, 12)
    weeks, days = divmod(period.days, 7) if period.days % 7 == 0 else (0, period.days)
    hours, rest = divmod(period.exact, HOUR)
    minutes, rest = divmod(rest, MINUTE)
    seconds = f"{rest // SECOND}.{rest % SECOND:06}".rstrip("0").rstrip(".")
    units = ("year", years), ("month", months), ("week", weeks), ("day", days), ("hour", hours), ("minute", minutes)
    parts = [(str(number), unit) for unit, number in units if number] + ([(seconds, "second")] if rest else [])
    if len(parts) == 1 and parts[0][0] == "1":
        return f"every {parts[0][1]}"
    return "every " + listed([f"{number} {unit}{'' if number == '1' else 's'}" for number, unit in parts])


# Words


def bits_in(bits: int) -> list[int]:
    """Return the numbers of the bits that are set."""
    return [number for number in range(bits.bit_length()) if bits >> number & 1]


def listed(texts: Sequence[str], word: str = "and") -> str:
    """Return `a, b and c`."""
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} {word} {texts[-1]}"


def clock_time(time: int) -> str:
    """Return `02:30` of microseconds since midnight or since 1970; with seconds if there are any."""
    text = format_moment(Moment(time % DAY))[11:].rstrip("Z")
    return text.removesuffix(":00")


def _counted(unit: str, values: Sequence[int]) -> str:
    return f"{unit}{'' if len(values) == 1 else 's'} {_runs(values, str)}"


def _runs(values: Sequence[int], name: Callable[[int], str], through: str = "to") -> str:
    """Return the names of the values; three and more in a row as `first to last`, at one distance as `a, b, … z`."""
    steps = {later - earlier for earlier, later in pairwise(values)}
    if len(values) > _MOST_CLOCK_TIMES and len(steps) == 1 and steps != {1}:
        return f"{name(values[0])}, {name(values[1])}, … {name(values[-1])}"
    rows: list[list[int]] = []
    for value in values:
        if rows and value == rows[-1][-1] + 1:
            rows[-1].append(value)
        else:
            rows.append([value])
    texts: list[str] = []
    for row in rows:
        texts += [f"{name(row[0])} {through} {name(row[-1])}"] if len(row) > 2 else map(name, row)
    return listed(texts)
