"""Exclusions and days off that together leave out too much of which no formula is known: they are refused."""

from collections.abc import Callable

from tokimori.clock import Moment
from tokimori.errors import InvalidSchedule
from tokimori.schedules.combined import MOST_LOOKS, Difference, Union
from tokimori.schedules.kept import Kept

_OFF = 5
"""A moment on a day off costs as much as so many looks at excluded ones: the search begins anew behind the day."""

_Look = Callable[[Moment, int], tuple[Moment | None, int]]


def check_left_out(kept: Kept) -> None:
    """Raise `InvalidSchedule` where a search takes too long from an end of the calendar, or of an excluded interval."""
    parts = kept.likely._parts if isinstance(kept.likely, Union) else ()
    for part in parts:
        if isinstance(part, Difference):
            for first, last in part.ends():
                _try(part.look_after, kept.behind_off, Moment(first - 1))
                _try(part.look_before, kept.before_off, Moment(last + 1))


def _try(look: _Look, beyond_off: Callable[[Moment], Moment | None], at: Moment) -> None:
    looks = MOST_LOOKS
    while looks > 0:
        found, looks = look(at, looks)
        if found is None or (beyond := beyond_off(found)) is None:
            return
        at, looks = beyond, looks - _OFF
    raise _too_long()


def _too_long() -> InvalidSchedule:
    message = f"schedule: what it excludes and its days off are more than {MOST_LOOKS} moments or days in a row"
    allowed = "fewer exclusions beside days off of the week or of every year; or several jobs"
    return InvalidSchedule(message, field="schedule", allowed=allowed)
