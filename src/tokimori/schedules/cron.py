"""Cron expressions of 5 fields, of 6 with seconds first, and of 7 with a year last."""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from tokimori.errors import InvalidSchedule
from tokimori.schedules.cron_fields import (
    DAY,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
    WEEKDAY,
    YEAR,
    Field,
    parse_field,
    print_field,
    star,
)
from tokimori.schedules.days import ALL_MONTHS, LENGTHS, Days
from tokimori.schedules.wallclock import WallClock, minutes_of_day
from tokimori.schedules.zoned import ZonedSchedule, ZoneRules

MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_KINDS = (SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY, YEAR)
_EVERY_DAY = ((1 << 32) - 2, True, ())
_WEEKS = sum(1 << 7 * week for week in range(6))  # repeats the bits of a week


class CronFields(NamedTuple):
    """The fields of an expression, in their order."""

    second: Field
    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field
    year: Field


@dataclass(frozen=True, slots=True)
class Cron(ZonedSchedule):
    """A cron expression in a zone.

    A time is fixed, and so subject to the rules for gaps and folds, where neither its minute nor its hour begins with
    `*`: the rule of Debian's cron. Others mean every moment at which the wall clock of the zone matches.
    """

    fields: CronFields
    rules: ZoneRules

    def texts(self) -> list[str]:
        """All seven fields as texts."""
        return [print_field(kind, value) for kind, value in zip(_KINDS, self.fields, strict=True)]

    def __str__(self) -> str:
        texts = self.texts()
        if texts[-1] != "*":
            return " ".join(texts)
        return " ".join(texts[1:-1] if texts[0] == "0" else texts[:-1])


def parse_cron(text: str, rules: ZoneRules, spread: str) -> Cron:
    """Read an expression or a macro. Raises `InvalidSchedule` naming the field, also for dates that never come."""
    texts = MACROS.get(text, text).split()
    match len(texts):
        case 5:
            texts = ["0", *texts, "*"]
        case 6:
            texts = [*texts, "*"]
        case 7:
            pass
        case number:
            allowed = "5 fields; 6 with seconds first; 7 with a year last"
            raise InvalidSchedule(
                f"schedule: {text!r} has {number} fields", field="schedule", value=text, allowed=allowed
            )
    fields = CronFields(*[parse_field(kind, part, spread) for kind, part in zip(_KINDS, texts, strict=True)])
    days = _days(fields.day, fields.month, fields.weekday, fields.year)
    if days is None:
        allowed = "a day that the calendar has"
        raise InvalidSchedule(
            f"day of month: {text!r} never comes", field="day of month", value=texts[3], allowed=allowed
        )
    times = WallClock(days, minutes_of_day(fields.hour.bits, fields.minute.bits), fields.second.bits)
    fixed = not (fields.minute.star or fields.hour.star)
    return Cron(fields, rules, moments=rules.moments(times, fixed=fixed))


@lru_cache(maxsize=4096)
def _days(day: Field, month: Field, weekday: Field, year: Field) -> Days | None:
    """The days that the fields name; None where there is none."""
    weekly = day == _EVERY_DAY and month.bits == ALL_MONTHS and year == star(YEAR) and not weekday.special
    years = -1 if year == star(YEAR) else year.bits
    days = Days(_masks(day, weekday), month.bits, years, weekday.bits if weekly else 0)
    return None if days.is_empty() else days


@lru_cache(maxsize=4096)
def _masks(day: Field, weekday: Field) -> tuple[int, ...]:
    """The days of each of the 28 kinds of months. Both fields restricted: either may match (Vixie); else both must."""
    either = not (day.star or weekday.star)
    weeks = [weekday.bits * _WEEKS >> first << 1 for first in range(7)]
    masks = []
    for length in LENGTHS:
        valid = (2 << length) - 2
        for first in range(7):
            by_day, by_weekday = day.bits, weeks[first]
            if day.special or weekday.special:
                by_day |= _special_bits(day, length, first)
                by_weekday |= _special_bits(weekday, length, first)
            masks.append((by_day | by_weekday if either else by_day & by_weekday) & valid)
    return tuple(masks)


def _special_bits(value: Field, length: int, first: int) -> int:
    bits = 0
    for special in value.special:
        bits |= 1 << max(special.day(length, first), 0)
    return bits
