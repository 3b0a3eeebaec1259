"""Cron expressions of other systems, rewritten where our own rules would read the same text differently."""

import re
from enum import StrEnum

from tokimori.errors import InvalidSchedule

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
