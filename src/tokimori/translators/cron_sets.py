"""Cron fields of systems in which every field must match, in our own rules. Pure.

In APScheduler and Celery the day of the month *and* the weekday must match; in cron either is enough if both are
restricted. So the days are written once, and the weekdays that don't match are left out with `except`.
"""

from collections.abc import Collection
from dataclasses import dataclass

from tokimori.errors import InvalidInput

_ALL = {"second": range(60), "minute": range(60), "hour": range(24), "month": range(1, 13)}
_DAYS, _WEEKDAYS = range(1, 32), range(7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Values of each field; None is any. Weekdays go from 0 = Sunday.

    `special` are terms for single days, such as `L` (of the day) or `5#2` (of the weekday).
    """

    second: Collection[int] = (0,)
    minute: Collection[int] | None = None
    hour: Collection[int] | None = None
    day: Collection[int] | None = None
    month: Collection[int] | None = None
    weekday: Collection[int] | None = None
    year: Collection[int] | None = None
    special_day: str | None = None
    special_weekday: str | None = None


def schedule_of(times: Times) -> str:
    """Return the schedule. Raises `InvalidInput` for what needs more than cron and one `except`."""
    day = _text(times.day, _DAYS) if times.special_day is None else times.special_day
    weekday = _text(times.weekday, _WEEKDAYS)
    if times.special_weekday is not None:
        if (day, weekday) != ("*", "*"):
            allowed = "weekdays such as `2nd fri` alone, without another day or weekday"
            raise InvalidInput("day: it can't be combined", field="day", value=times.special_weekday, allowed=allowed)
        weekday = times.special_weekday
    elif "*" not in (day, weekday):
        others = _text([each for each in _WEEKDAYS if each not in (times.weekday or ())], ())
        return f"{_line(times, day, '*')} except {_line(times, '*', others)}"
    return _line(times, day, weekday)


def as_there(zone: str) -> dict[str, object]:
    """Return the rules for times that clocks skip (both systems run later) or show twice (they run twice)."""
    return {} if zone == "UTC" else {"gap": "later", "fold": "both"}


def _line(times: Times, day: str, weekday: str) -> str:
    second, minute, hour, month = (_text(getattr(times, name), every) for name, every in _ALL.items())
    fields = [minute, hour, day, month, weekday]
    if times.year is not None:
        return " ".join([second, *fields, _text(times.year, ())])
    return " ".join(fields if second == "0" else [second, *fields])


def _text(values: Collection[int] | None, every: Collection[int]) -> str:
    """Return the values: `*` if they are all, a step if it is one over the whole field, else a list of ranges."""
    if values is None or set(values) >= set(every or (-1,)):
        return "*"
    wanted = sorted(set(values))
    if every and (step := _step(wanted, every)) is not None:
        return f"*/{step}"
    return ranges_of(wanted)


def _step(wanted: list[int], every: Collection[int]) -> int | None:
    """Return the step that gives these values of a field that begins at 0."""
    if len(wanted) < 3 or wanted[0] != 0 or min(every) != 0 or max(every) == 6:
        return None
    step = wanted[1]
    return step if wanted == list(range(0, max(every) + 1, step)) else None


def ranges_of(values: Collection[int]) -> str:
    """Write values as a list of ranges."""
    found: list[list[int]] = []
    for value in sorted(values):
        if found and found[-1][-1] == value - 1:
            found[-1].append(value)
        else:
            found.append([value])
    return ",".join(str(each[0]) if len(each) == 1 else f"{each[0]}-{each[-1]}" for each in found)
