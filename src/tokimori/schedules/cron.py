"""Cron expressions, the rows of dates and times that other schedulers have, and the dialects of cron."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import repeat
from types import MappingProxyType
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
from tokimori.schedules.days import ALL_MONTHS, WEEKS, Days
from tokimori.schedules.wallclock import WallClock, minutes_of_day
from tokimori.schedules.zoned import ZonedSchedule, ZoneRules
from tokimori.spelling import amount

MACROS = {
    "@minutely": "* * * * *",
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
NEVER = "never comes"
"""Said of a date that no calendar has."""
_YEAR = re.compile(r"(?<![\d#])\d{4}(?!\d)", re.ASCII)
_KINDS = (SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY, YEAR)
_AT_ONCE, _EVERY_DAY, _EVERY_YEAR = Field(1, star=False), star(DAY), star(YEAR)


class CronFields(NamedTuple):
    """The fields of an expression, in their order."""

    second: Field
    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field
    year: Field


class _MonthDays(NamedTuple):
    """The days that both fields name. If both are restricted, either may match (Vixie); otherwise both must."""

    day: Field
    weekday: Field

    def mask(self, length: int, first: int) -> int:
        """Return the days of a month of that length whose 1st has that weekday."""
        day, weekday = self
        by_day, by_weekday = day.bits, weekday.bits * WEEKS >> first << 1
        for special in day.special:
            by_day |= 1 << special.day(length, first)
        for special in weekday.special:
            by_weekday |= 1 << special.day(length, first)
        both = by_day & by_weekday if day.star or weekday.star else by_day | by_weekday
        return both & (2 << length) - 2


@dataclass(frozen=True, slots=True)
class Cron(ZonedSchedule):
    """A cron expression in a zone.

    A time is fixed, and so subject to the rules for gaps and folds, if neither its minute nor its hour begins with
    `*`: the rule of Debian's cron. Others mean every moment at which the wall clock of the zone matches, and those to
    which gap = later moves what it skips.
    """

    fields: CronFields
    rules: ZoneRules

    def texts(self) -> list[str]:
        """Return all seven fields as texts."""
        return [print_field(kind, value) for kind, value in zip(_KINDS, self.fields, strict=True)]

    def __str__(self) -> str:
        texts = self.texts()
        if texts[-1] != "*":
            return " ".join(texts)
        return " ".join(texts[1:-1] if texts[0] == "0" else texts[:-1])


def parse_cron(text: str, rules: ZoneRules, spread: str) -> Cron:
    """Read an expression or a macro. Raises `InvalidSchedule` with the field, also for a date that never comes."""
    texts = MACROS.get(text.lower(), text).split()
    if not 5 <= len(texts) <= 7:
        allowed = "5 fields; 6 with seconds first; 7 with a year last"
        raise InvalidSchedule(
            f"schedule: {text!r} has {amount(len(texts), 'field')}", field="schedule", value=text, allowed=allowed
        )
    _check_order(text, texts)
    fields = _fields(texts, spread)
    days = _days(fields)
    if days.is_empty():
        allowed = "a day that the calendar has"
        raise InvalidSchedule(
            f"day of month: {text!r} {NEVER}",
            field="day of month",
            value=texts[-3 if len(texts) < 7 else 3],
            allowed=allowed,
        )
    times = WallClock(days, minutes_of_day(fields.hour.bits, fields.minute.bits), fields.second.bits)
    fixed = not (fields.minute.star or fields.hour.star)
    return Cron(fields, rules, moments=rules.moments(times, fixed=fixed))


def _check_order(text: str, texts: list[str]) -> None:
    """Refuse six fields that end with a year, as AWS has them. Raises `InvalidSchedule`."""
    if len(texts) != 6:
        return
    if _YEAR.search(texts[5]) is not None:
        field, value = "day of week", texts[5]
    elif "?" in (value := texts[4]):
        field = "month"
    elif "?" in (value := texts[2]):
        field = "hour"
    else:
        return
    minute, hour, day, month, *_ = texts
    plain = all(part.isdecimal() for part in (minute, hour, day, month, texts[5]))
    once = f", or `at {texts[5]}-{month:0>2}-{day:0>2}T{hour:0>2}:{minute:0>2}:00` for one moment"
    raise InvalidSchedule(
        f"{field}: {value!r} is not allowed: the first of six fields is the second here; in AWS the sixth is the year",
        field=field,
        value=value,
        allowed=f"seven fields for a year: `0 {text}`{once if plain else ''}",
    )


def _fields(texts: list[str], spread: str) -> CronFields:
    if len(texts) == 5:
        minute, hour, day, month, weekday = map(parse_field, _KINDS[1:6], texts, repeat(spread))
        return CronFields(_AT_ONCE, minute, hour, day, month, weekday, _EVERY_YEAR)
    if len(texts) == 6:
        texts = [*texts, "*"]
    return CronFields(*map(parse_field, _KINDS, texts, repeat(spread)))


def _days(fields: CronFields) -> Days:
    day, weekday = fields.day, fields.weekday
    weekly = (
        day == _EVERY_DAY and fields.month.bits == ALL_MONTHS and fields.year == _EVERY_YEAR and not weekday.special
    )
    years = -1 if fields.year == _EVERY_YEAR else fields.year.bits
    return Days(_MonthDays(day, weekday), fields.month.bits, years, weekday.bits if weekly else 0)


_FIELD = r"(\*|\d{1,5})"
_ROW = re.compile(rf"{_FIELD}/{_FIELD}/{_FIELD} {_FIELD}:{_FIELD} \({_FIELD}\)\Z", re.ASCII)
_ALLOWED = "YYYY/mm/dd HH:MM (w), each a number or *, with w from 1 = Monday to 7 = Sunday"
_RANGES: Mapping[str, str] = MappingProxyType(
    {
        "minute": "0-59 or *",
        "hour": "0-23 or *",
        "day of month": "1-31 or *, and a day that the month has",
        "month": "1-12 or *",
        "day of week": "1 (Monday) to 7 (Sunday) or *",
    }
)


@dataclass(frozen=True, slots=True)
class FieldTable(ZonedSchedule):
    """One row of a field table: a cron expression of plain numbers in another notation. Rows are united."""

    cron: Cron

    def __str__(self) -> str:
        _second, minute, hour, day, month, weekday, year = self.cron.texts()
        return f"{year}/{month}/{day} {hour}:{minute} ({'7' if weekday == '0' else weekday})"


def is_row(text: str) -> bool:
    """Return whether the text has the shape of a row, valid or not."""
    if "(" not in text:
        return False
    words = text.split()
    return len(words) == 3 and ":" in words[1] and words[2].startswith("(")


def parse_row(text: str, rules: ZoneRules) -> FieldTable:
    """Read a row. Raises `InvalidSchedule`, also for weekday 0, which in Koyomi's code never matches."""
    found = _ROW.match(text)
    if found is None:
        raise InvalidSchedule(
            f"schedule: {text!r} is not a row of a field table", field="schedule", value=text, allowed=_ALLOWED
        )
    year, month, day, hour, minute, weekday = found.groups()
    if weekday == "0":
        allowed = _RANGES["day of week"]
        raise InvalidSchedule("day of week: 0 never matches", field="day of week", value=weekday, allowed=allowed)
    try:
        cron = parse_cron(f"0 {minute} {hour} {day} {month} {weekday} {year}", rules, "")
    except InvalidSchedule as fault:  # of the expression, which nobody has typed
        why = f"{text!r} never comes" if NEVER in fault.message else f"{fault.value!r} is not allowed in {text!r}"
        allowed = _RANGES.get(fault.field or "", _ALLOWED)
        raise InvalidSchedule(f"{fault.field}: {why}", field=fault.field, value=fault.value, allowed=allowed) from None
    return FieldTable(cron, moments=cron.moments)


_STEP_FROM = re.compile(r"(?<![-\w*])(\w+)/\d+")  # a/s, but neither */s nor a-b/s
_WEEKDAY_NUMBER = re.compile(r"(?<![#/\d])(\d+)")  # neither the n of w#n nor a step


class Dialect(StrEnum):
    """The rules that a text follows.

    `vixie`: ours, as in Vixie and Debian cron. `chrono`: PerfectSched's gem, where `a/s` is just `a`, and where `*/s`
    restricts a day or weekday. `quartz`: 1 = Sunday … 7 = Saturday, and `L` as a weekday is Saturday.
    """

    VIXIE = "vixie"
    CHRONO = "chrono"
    QUARTZ = "quartz"


def rewrite(text: str, dialect: Dialect) -> str:
    """Return the expression in our own rules. Raises `InvalidSchedule`; other faults show when the result is parsed."""
    match dialect:
        case Dialect.VIXIE:
            return text
        case Dialect.CHRONO:
            return _from_chrono(text)
        case Dialect.QUARTZ:
            return _from_quartz(text)


def _from_chrono(text: str) -> str:
    fields = [_STEP_FROM.sub(r"\1", part) for part in text.split()]
    if len(fields) == 5:
        fields[2] = re.sub(r"^\*(?=/|,)", "1-31", fields[2])
        fields[4] = re.sub(r"^\*(?=/|,)", "0-6", fields[4])
    return " ".join(fields)


def _from_quartz(text: str) -> str:
    fields = text.split()
    if len(fields) not in (6, 7):
        allowed = "6 fields with seconds first, or 7 with a year last"
        raise InvalidSchedule(
            f"schedule: {text!r} is not a Quartz expression", field="schedule", value=text, allowed=allowed
        )
    terms = ("7" if term.upper() == "L" else term for term in fields[5].split(","))
    fields[5] = _WEEKDAY_NUMBER.sub(_our_weekday, ",".join(terms))
    return " ".join(fields)


def _our_weekday(found: re.Match[str]) -> str:
    number = int(found[1])
    if not 1 <= number <= 7:
        message = f"day of week: {found[1]!r} is not allowed"
        raise InvalidSchedule(message, field="day of week", value=found[1], allowed="1 = Sunday to 7 = Saturday")
    return str(number - 1)
