"""Koyomi's field table: `2015/*/* 9:05 (*)`, that is year/month/day hour:minute (weekday), each a number or `*`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tokimori.errors import InvalidSchedule
from tokimori.schedules.cron import NEVER, Cron, parse_cron
from tokimori.schedules.zoned import ZonedSchedule, ZoneRules

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
