"""Time spans of systemd (`1h 30min`). Pure."""

import re

_UNITS = {
    1: "us usec µs μs",
    1_000: "ms msec",
    1_000_000: "s sec second seconds",
    60_000_000: "m min minute minutes",
    3_600_000_000: "h hr hour hours",
    86_400_000_000: "d day days",
    604_800_000_000: "w week weeks",
    2_629_800_000_000: "M month months",
    31_557_600_000_000: "y year years",
}
_MICROSECONDS = {word: length for length, words in _UNITS.items() for word in words.split()}
_PART = re.compile(r"\s*(\d{1,12})(?:\.(\d{1,6}))?\s*([A-Za-zµμ]*)", re.ASCII)
ALLOWED = "a length of time such as 90, 15min or 1h 30min"


def microseconds_of(text: str) -> int | None:
    """Return the length of a time span; a number without a unit is seconds. None: the text is none."""
    total, at = 0, 0
    text = text.strip()
    while at < len(text):
        found = _PART.match(text, at)
        unit = None if found is None else _MICROSECONDS.get(found[3] or "s")
        if found is None or unit is None:
            return None
        total += int(found[1]) * unit + int((found[2] or "0").ljust(6, "0")) * unit // 1_000_000
        at = found.end()
    return total if text else None
