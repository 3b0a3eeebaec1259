"""ISO 8601 durations: `P1Y2M10DT2H30M`."""

import re

from msgspec import Struct

from tokimori.clock import HOUR, MINUTE, SECOND
from tokimori.errors import InvalidSchedule

_DURATION = re.compile(
    r"P(?=.)(?:(\d{1,6})Y)?(?:(\d{1,6})M)?(?:(\d{1,6})W)?(?:(\d{1,6})D)?"
    r"(?:T(?=.)(?:([\d.,]{1,20})H)?(?:([\d.,]{1,20})M)?(?:([\d.,]{1,20})S)?)?\Z",
    re.ASCII,
)
_AMOUNT = re.compile(r"(\d{1,12})(?:[.,](\d{1,9}))?\Z", re.ASCII)
_ALLOWED = "an ISO 8601 duration above zero such as PT10S, P1D or P1Y2M10DT2H30M15.5S"


class Duration(Struct, frozen=True):
    """A length of time: calendar months and days, whose length varies, and exact microseconds."""

    months: int
    days: int
    exact: int

    def __str__(self) -> str:
        years, months = divmod(self.months, 12)
        hours, rest = divmod(self.exact, HOUR)
        minutes, rest = divmod(rest, MINUTE)
        seconds = f"{rest // SECOND}.{rest % SECOND:06}".rstrip("0").rstrip(".")
        weeks, days = divmod(self.days, 7) if self.days % 7 == 0 else (0, self.days)
        date = _parts((str(years), "Y"), (str(months), "M"), (str(weeks), "W"), (str(days), "D"))
        time = _parts((str(hours), "H"), (str(minutes), "M"), (seconds, "S"))
        return f"P{date}T{time}" if time else f"P{date}"


def parse_duration(text: str, *, field: str = "period", above_zero: bool = True) -> Duration:
    """Read a duration. Hours, minutes and seconds may have fractions; digits beyond the microsecond are cut.

    Raises `InvalidSchedule`, for a length of zero too, unless that may be.
    """
    found = _DURATION.match(text)
    if found is None:
        raise _invalid(text, field)
    years, months, weeks, days, hours, minutes, seconds = found.groups()
    exact = sum(
        _exact(amount, unit, text, field) for amount, unit in ((hours, HOUR), (minutes, MINUTE), (seconds, SECOND))
    )
    duration = Duration(int(years or 0) * 12 + int(months or 0), int(weeks or 0) * 7 + int(days or 0), exact)
    if above_zero and duration == Duration(0, 0, 0):
        raise _invalid(text, field)
    return duration


def _exact(amount: str | None, unit: int, text: str, field: str) -> int:
    """Return the microseconds of `1.5` units."""
    if amount is None:
        return 0
    found = _AMOUNT.match(amount)
    if found is None:
        raise _invalid(text, field)
    fraction = found[2] or "0"
    parts: int = 10 ** len(fraction)
    return int(found[1]) * unit + int(fraction) * unit // parts


def _parts(*parts: tuple[str, str]) -> str:
    return "".join(amount + unit for amount, unit in parts if amount != "0")


def _invalid(text: str, field: str) -> InvalidSchedule:
    return InvalidSchedule(f"{field}: {text!r} is not a duration", field=field, value=text, allowed=_ALLOWED)
