"""Schedules as people say them: `on friday at 10:00PM`, `every day at 09:00`, and a builder in Python for such texts.

every(10).seconds                    every 10 seconds
on().friday.at("10:00PM")            on friday at 10:00PM
every().friday.at("22:00")           on friday at 10:00PM
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tokimori.errors import InvalidSchedule
from tokimori.schedules.cron import parse_cron
from tokimori.schedules.zoned import ZonedSchedule, ZoneRules

_WEEKDAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_TEXT = re.compile(r"(?:on|every)\s+([a-z]+(?:\s*,\s*[a-z]+)*)\s+at\s+(.+)\Z", re.ASCII | re.IGNORECASE)
_TIME = re.compile(r"(\d{1,2}):(\d\d)(AM|PM)?\Z", re.ASCII | re.IGNORECASE)
_ALLOWED = "on WEEKDAY[, WEEKDAY …] at TIME, or every day at TIME"
_ALLOWED_TIMES = "00:00 to 23:59, or 1:00AM to 12:59PM"


@dataclass(frozen=True, slots=True)
class Weekly(ZonedSchedule):
    """One time of day (minutes since midnight) on days of the week (0 = Sunday; all seven = every day)."""

    weekdays: tuple[int, ...]
    minute: int
    rules: ZoneRules

    def __str__(self) -> str:
        if len(self.weekdays) == 7:
            return f"every day at {print_time(self.minute)}"
        return f"on {', '.join(_WEEKDAYS[weekday] for weekday in self.weekdays)} at {print_time(self.minute)}"


class Phrase(str):
    """A schedule text under construction. It is a string, and can be given to `add` as soon as it is complete.

    `said` are other terms of the job, if `schedule.py` of a task says them.
    """

    said: Mapping[str, object] = MappingProxyType({})

    def at(self, time: str) -> "Phrase":
        """Return the same schedule at a time of day. Raises `InvalidSchedule`."""
        return Phrase(f"{self} at {print_time(parse_time(time))}").terms(**self.said)

    def terms(self, **terms: object) -> "Phrase":
        """Return the same schedule with a job's terms, as `add` takes them: `every(10).seconds.terms(timeout=60)`."""
        other = Phrase(self)
        other.said = MappingProxyType({**self.said, **terms})
        return other

    def retry(self, attempts: int, **policy: object) -> "Phrase":
        """Return the same schedule for a job that is tried this often in all: `every(10).seconds.retry(3, delay=1)`."""
        return self.terms(retry={"attempts": attempts, **policy})


class On:
    """`on().friday.at("10:00PM")`."""

    @property
    def sunday(self) -> Phrase:
        """Return every Sunday."""
        return Phrase("on sunday")

    @property
    def monday(self) -> Phrase:
        """Return every Monday."""
        return Phrase("on monday")

    @property
    def tuesday(self) -> Phrase:
        """Return every Tuesday."""
        return Phrase("on tuesday")

    @property
    def wednesday(self) -> Phrase:
        """Return every Wednesday."""
        return Phrase("on wednesday")

    @property
    def thursday(self) -> Phrase:
        """Return every Thursday."""
        return Phrase("on thursday")

    @property
    def friday(self) -> Phrase:
        """Return every Friday."""
        return Phrase("on friday")

    @property
    def saturday(self) -> Phrase:
        """Return every Saturday."""
        return Phrase("on saturday")


class Every(On):
    """`every(10).seconds`, `every().day.at("09:00")`, `every().friday.at("10:00PM")`."""

    def __init__(self, n: int) -> None:
        self._n = n

    def _units(self, unit: str) -> Phrase:
        return Phrase(f"every {unit}" if self._n == 1 else f"every {self._n} {unit}s")

    @property
    def seconds(self) -> Phrase:
        """Return every n seconds."""
        return self._units("second")

    @property
    def minutes(self) -> Phrase:
        """Return every n minutes."""
        return self._units("minute")

    @property
    def hours(self) -> Phrase:
        """Return every n hours."""
        return self._units("hour")

    @property
    def days(self) -> Phrase:
        """Return every n days."""
        return self._units("day")

    @property
    def weeks(self) -> Phrase:
        """Return every n weeks."""
        return self._units("week")

    second, minute, hour, day, week = seconds, minutes, hours, days, weeks


def on() -> On:
    """Begin a schedule with a day of the week."""
    return On()


def every(n: int = 1) -> Every:
    """Begin a schedule with an interval, or with a day of the week. Raises `InvalidSchedule` for n below 1."""
    if not isinstance(n, int) or n < 1:  # type: ignore[redundant-expr]  # no checker may have seen the call
        raise InvalidSchedule(f"every: {n!r} is not above zero", field="every", value=n, allowed="1 or more")
    return Every(n)


def is_phrase(text: str) -> bool:
    """Return whether the text has the shape of such a schedule."""
    return _TEXT.match(text) is not None


def parse_phrase(text: str, rules: ZoneRules) -> Weekly:
    """Read `on WEEKDAY[, …] at TIME` or `every day at TIME`. Raises `InvalidSchedule`."""
    found = _TEXT.match(text)
    if found is None:
        raise InvalidSchedule(f"schedule: {text!r} is not a schedule", field="schedule", value=text, allowed=_ALLOWED)
    names = [name.strip().lower() for name in found[1].split(",")]
    weekdays = range(7) if names == ["day"] else sorted({_weekday(name) for name in names})
    minute = parse_time(found[2])
    days = ",".join(map(str, weekdays)) if len(weekdays) < 7 else "*"
    cron = parse_cron(f"{minute % 60} {minute // 60} * * {days}", rules, "")
    return Weekly(tuple(weekdays), minute, rules, moments=cron.moments)


def parse_time(text: str) -> int:
    """Read a time as minutes since midnight; `12:00AM` and `00:00AM` are 0, as in Keiji. Raises `InvalidSchedule`."""
    found = _TIME.match(text)
    hour, minute, half = (int(found[1]), int(found[2]), (found[3] or "").upper()) if found else (99, 0, "")
    if hour > (12 if half else 23) or minute > 59:
        raise InvalidSchedule(f"time: {text!r} is not a time of day", field="time", value=text, allowed=_ALLOWED_TIMES)
    if half:
        hour = hour % 12 + (12 if half == "PM" else 0)
    return hour * 60 + minute


def print_time(minute: int) -> str:
    """Return minutes since midnight as `10:00PM`."""
    hour, minute = divmod(minute, 60)
    return f"{(hour - 1) % 12 + 1:02}:{minute:02}{'PM' if hour >= 12 else 'AM'}"


def _weekday(name: str) -> int:
    if name not in _WEEKDAYS:
        raise InvalidSchedule(
            f"day of week: {name!r} is not one", field="day of week", value=name, allowed=", ".join(_WEEKDAYS)
        )
    return _WEEKDAYS.index(name)
