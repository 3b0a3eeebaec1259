"""Schedules of Kubernetes CronJobs, in our own rules. Pure."""

import re

from tokimori.errors import InvalidInput
from tokimori.schedules.cron import MACROS
from tokimori.schedules.cron_fields import DAY, HOUR, MINUTE, MONTH, WEEKDAY, FieldKind
from tokimori.spelling import amount

_KINDS = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)
_TERM = re.compile(r"(?:[*?]|([a-z]{3}|\d{1,2})(?:-([a-z]{3}|\d{1,2}))?)(?:/(\d{1,4}))?\Z", re.ASCII | re.IGNORECASE)


def read_schedule(text: str) -> str:
    """Return the schedule in our own rules. Raises `InvalidInput` if Kubernetes would refuse it."""
    words = text.split()
    if "TZ" in text:
        raise InvalidInput(
            "TZ and CRON_TZ are not allowed in it", field="schedule", value=text, allowed="timeZone beside it"
        )
    if text.startswith("@"):
        if words[0] == "@every" or text in MACROS:
            return " ".join(words)
        allowed = f"{', '.join(MACROS)}, @every 1h30m"
        raise InvalidInput(f"{text!r} is unknown", field="schedule", value=text, allowed=allowed)
    if len(words) != len(_KINDS):
        message = f"{text!r} has {amount(len(words), 'field')}"
        raise InvalidInput(message, field="schedule", value=text, allowed="5 fields")
    return " ".join(_field(kind, word) for kind, word in zip(_KINDS, words, strict=True))


def _field(kind: FieldKind, text: str) -> str:
    """Return the field in our own rules: a bare `*` among its terms means any value, and `*` with a step is a range."""
    terms = [_term(kind, term) for term in text.split(",")]
    return "*" if "*" in terms else ",".join(terms)


def _term(kind: FieldKind, text: str) -> str:
    found = _TERM.match(text)
    high = 6 if kind is WEEKDAY else kind.high
    allowed = f"{kind.name}: {kind.low}-{high}, with * ? , - and /"
    first, last, step = found.groups() if found else (None, None, "0")
    if step is not None and int(step) == 0:
        raise InvalidInput(f"{kind.name}: {text!r} is not allowed", field="schedule", value=text, allowed=allowed)
    if first is None:
        if step in (None, "1"):
            return "*"
        return f"{kind.low}-{high}/{step}" if kind in (DAY, WEEKDAY) else f"*/{step}"
    numbers = [_number(kind, each) for each in (first, last) if each is not None]
    if not all(kind.low <= number <= high for number in numbers) or numbers != sorted(numbers):
        raise InvalidInput(f"{kind.name}: {text!r} is not allowed", field="schedule", value=text, allowed=allowed)
    return text


def _number(kind: FieldKind, text: str) -> int:
    if text.isdigit():
        return int(text)
    return kind.low + kind.names.index(text.lower()) if text.lower() in kind.names else -1
