"""Rates of semaphores, jobs and queues: how many units are taken in a period. Pure: time is an argument.

`N/t` counts units by the store's time in every window of `t`: `N` of them at most, whenever the window begins. A rate
that is `smooth` also keeps them apart.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from tokimori.clock import DAY, SECOND, Moment
from tokimori.errors import InvalidInput
from tokimori.schedules.stamp import seconds_in

NO_RATE: Final = "none"
"""In place of a rate: none."""
MOST_TAKEN: Final = 10_000
"""The most units of a rate."""
SHORTEST: Final = 1_000
LONGEST: Final = 366 * DAY
"""Microseconds: the bounds of a period."""
_RATE: Final = re.compile(r"([1-9][0-9]{0,5})/([^\s]{1,30})( smooth)?", re.ASCII)
_NAMES: Final = {1: "s", 60: "m", 3_600: "h", 86_400: "d"}
RATE_ALLOWED: Final = (
    f"N/t: N from 1 to {MOST_TAKEN:,}, t one of s, m, h and d or a length from 1 ms to 366d, such as 10/s, 100/1m or "
    "1000/1h30m; ` smooth` behind it keeps units apart"
)


class ClaimRate(NamedTuple):
    """Number of units in each window of `period` microseconds; `smooth`: at least `period / units` apart."""

    units: int
    period: int
    smooth: bool = False

    @property
    def interval(self) -> int:
        """Return the microseconds behind each unit of a smooth rate; 0 for others."""
        return -(-self.period // self.units) if self.smooth else 0

    @property
    def stored(self) -> str:
        """Return the text that stores keep."""
        return f"{self.units}/{self.period}{'/smooth' if self.smooth else ''}"

    def __str__(self) -> str:
        seconds = self.period / SECOND
        length = _NAMES.get(int(seconds)) if seconds == int(seconds) else None
        if length is None:
            unit = next((size for size in (86_400, 3_600, 60) if not self.period % (size * SECOND)), 1)
            length = f"{seconds / unit:.6f}".rstrip("0").rstrip(".") + _NAMES[unit]
        return f"{self.units}/{length}{' smooth' if self.smooth else ''}"


def parse_claim_rate(text: object, *, field: str) -> ClaimRate:
    """Read `10/s`, `100/1m` or `100/1m smooth`. Raises `InvalidInput`."""
    found = _RATE.fullmatch(text.strip()) if isinstance(text, str) else None
    length = None if found is None else seconds_in(f"1{found[2]}" if found[2] in _NAMES.values() else found[2])
    period = 0 if length is None or length > LONGEST / SECOND else round(length * SECOND)
    if found is None or not SHORTEST <= period <= LONGEST or int(found[1]) > MOST_TAKEN:
        raise InvalidInput(f"{field}: {text!r} is no rate", field=field, value=text, allowed=RATE_ALLOWED)
    return ClaimRate(int(found[1]), period, found[3] is not None)


def stored_rate(text: str | None) -> ClaimRate | None:
    """Return the rate in a text of `ClaimRate.stored`."""
    if text is None:
        return None
    units, period, *smooth = text.split("/")
    return ClaimRate(int(units), int(period), bool(smooth))


class Taken(NamedTuple):
    """Units that were taken at a moment: one row for all of a claim."""

    moment: Moment
    units: int


class Window(NamedTuple):
    """The units of a rate that are taken now: their number, and the newest of them."""

    used: int = 0
    newest: Taken | None = None


def cut(taken: Iterable[Taken], now: Moment) -> list[Taken]:
    """Return what was taken, by the clock of now: what it has as still to come was taken now. The clock was wrong."""
    merged: list[Taken] = []
    for each in taken:
        moment = min(each.moment, now)
        if merged and merged[-1].moment == moment:
            merged[-1] = Taken(moment, merged[-1].units + each.units)
        else:
            merged.append(Taken(moment, each.units))
    return merged


def window_of(rate: ClaimRate, taken: Sequence[Taken], now: Moment) -> Window:
    """Return the window that ends now, from what was taken, in order."""
    used = sum(each.units for each in taken if each.moment > now - rate.period)
    return Window(used, taken[-1] if taken else None)


def free_now(rate: ClaimRate, window: Window, now: Moment) -> int:
    """Return how many units may be taken now. Of a smooth rate they may be taken by one alone."""
    return 0 if _spaced(rate, window, now) > now else max(0, rate.units - window.used)


def _spaced(rate: ClaimRate, window: Window, now: Moment) -> int:
    newest = window.newest
    return now if newest is None else newest.moment + newest.units * rate.interval


def last_in_the_way(rate: ClaimRate, taken: Sequence[Taken], weight: int, now: Moment) -> Moment | None:
    """Return the moment of the units that must leave the window before `weight` units fit; None: they fit.

    Now, if they are more than a period has: what is taken now must leave it too.
    """
    if weight > rate.units:
        return now
    left = sum(each.units for each in taken if each.moment > now - rate.period) + weight - rate.units
    for each in taken:
        if left <= 0:
            return None
        if each.moment > now - rate.period:
            left -= each.units
            if left <= 0:
                return each.moment
    return None


def opens_at(rate: ClaimRate, window: Window, in_the_way: Moment | None, now: Moment, before: int = 0) -> Moment:
    """Return the moment from which on the units fit, at most a period ahead: a clock that is set back delays no more.

    `before` are units that others are to take first.
    """
    spaced = max(_spaced(rate, window, now), now + before * rate.interval)
    fits = now if in_the_way is None else in_the_way + rate.period
    return Moment(min(max(now, spaced, fits), now + rate.period))
