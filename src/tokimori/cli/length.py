"""Lengths of time as people write them on a command line: `90`, `7d`, `1h30m`, `PT1H30M`."""

import re
from typing import Any

import click

ALLOWED = "seconds, or numbers with the units w, d, h, m and s, such as 7d, 1h30m, 90s or PT1H30M"
_UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_SECONDS = re.compile(r"[+-]?\d{1,12}(\.\d{1,9})?\Z", re.ASCII)
_DATE = r"(?:(\d{1,9})w)?(?:(\d{1,9})d)?"
_TIME = r"(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9}(?:\.\d{1,9})?)s)?"
_PARTS = re.compile(rf"{_DATE}{_TIME}\Z", re.ASCII)
_ISO = re.compile(rf"p{_DATE}(?:t{_TIME})?\Z", re.ASCII)


class Length(click.ParamType[float]):
    """The type of an option that takes a length of time; its value is seconds."""

    name = "length"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The seconds."""
        if isinstance(value, int | float):
            return value
        seconds = seconds_in(value)
        if seconds is None:
            self.fail(f"{value!r} is not a length of time; allowed: {ALLOWED}", param, ctx)
        return seconds


def seconds_in(text: str) -> float | None:
    """The seconds that such a text says; None where it says none. A month or a year has no length in seconds."""
    lower = text.lower()
    if _SECONDS.match(lower):
        return float(lower)
    found = _PARTS.match(lower) or _ISO.match(lower)
    if found is None or not any(found.groups()):
        return None
    return sum(float(number or 0) * unit for number, unit in zip(found.groups(), _UNITS.values(), strict=True))
