"""Kala's schedules and durations: `R[n]/start/interval`, read as Kala reads them, written as ours. Pure."""

import re
from dataclasses import dataclass
from functools import lru_cache

from tokimori.clock import DAY, SECOND, Moment
from tokimori.errors import InvalidSchedule
from tokimori.schedules.duration import Duration, parse_duration
from tokimori.schedules.stamp import parse_stamp
from tokimori.service.definitions import MOST_RUNS

_WEEKS = re.compile(r"P(\d+)W", re.ASCII)
_PARTS = re.compile(r"P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)D)?(?:(T)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d{1,19}\Z", re.ASCII)
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?\Z", re.ASCII)
_LONGER = re.compile(r"(\.\d{9})\d+")
_FORM = "R[n]/start/interval, such as R2/2030-06-04T19:25:16-07:00/PT10S"
_INTERVALS = "an ISO 8601 duration above zero such as PT10S, P1DT2H or P2W, in whole numbers"
_ONCE = "P1D"
"""The interval of a schedule that names one moment: it has no meaning."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """Schedule of `runs` in all (None: without end), the first at `start`. `text` is it in our notation."""

    runs: int | None
    start: Moment
    text: str


@lru_cache(maxsize=1024)
def read_schedule(text: str) -> Repeats:
    """Read a schedule. The number after `R` is how often it is repeated: n + 1 runs. Raises `InvalidSchedule`."""
    parts = text.split("/")
    if len(parts) != 3:
        raise _invalid("schedule", text, f"has {len(parts)} parts instead of 3", _FORM)
    runs, start = _runs(parts[0]), _start(parts[1])
    if runs == 1:
        return Repeats(1, start, f"R0/{_written(parts[1])}/{_ONCE}")
    return Repeats(runs, start, f"R/{_written(parts[1])}/{read_duration('interval', parts[2])}")


def epsilon_seconds(text: str) -> float | None:
    """Return the seconds of an epsilon, a month as 30 days, a year as 365; None for none. Raises `InvalidSchedule`."""
    if not text or _is_zero(text):
        return None
    length = read_duration("epsilon", text)
    years, months = divmod(length.months, 12)
    return ((years * 365 + months * 30 + length.days) * DAY + length.exact) / SECOND


def read_duration(field: str, text: str) -> Duration:
    """Read a duration as Kala does: text around it is ignored, and weeks stand alone. Raises `InvalidSchedule`, also
    for a length of zero.

    Raises `InvalidSchedule`, also for a length of zero.
    """
    if (weeks := _WEEKS.search(text)) is not None:
        return parse_duration(weeks[0], field=field)
    found = _PARTS.search(text)
    if found is None or found[0].endswith(("P", "T")):
        raise _invalid(field, text, "is not a duration", _INTERVALS)
    return parse_duration(found[0], field=field)


def _is_zero(text: str) -> bool:
    found = _WEEKS.search(text) or _PARTS.search(text)
    return found is not None and found[0][-1] not in "PT" and not re.search("[1-9]", found[0])


def _runs(text: str) -> int | None:
    """Return the number of runs as Kala reads it: the text between the first R and the second."""
    if text == "R":
        return None
    between = text.split("R")[1:2]
    if not between or not _NUMBER.match(between[0]):
        raise _invalid("schedule", text, "is not how often it is repeated", "R, or R and a whole number")
    repeats = int(between[0])
    return None if repeats < 0 or repeats >= MOST_RUNS else repeats + 1


def _start(text: str) -> Moment:
    if not _STAMP.match(text):
        raise _invalid("schedule", text, "is not a start", "2030-06-04T19:25:16, with Z or an offset such as -07:00")
    return Moment(parse_stamp(_written(text), field="schedule").moment_in("UTC"))


def _written(start: str) -> str:
    """Return the start as our notation has it, without digits below the nanosecond."""
    return _LONGER.sub(r"\1", start)


def _invalid(field: str, text: str, fault: str, allowed: str) -> InvalidSchedule:
    return InvalidSchedule(f"{field}: {text!r} {fault}", field=field, value=text, allowed=allowed)
