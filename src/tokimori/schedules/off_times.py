"""The times of the day that a schedule has on any day of a long row of days off, looked at all at once.

Where the row goes to one business day, each of its days would be looked at by itself for each moment there.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tokimori.clock import MINUTE, Moment
from tokimori.schedules.days import lowest
from tokimori.schedules.frames import MOST_DAYS, Frame, plain_days
from tokimori.schedules.kept import LocalDays
from tokimori.schedules.second_masks import Term
from tokimori.schedules.terms import zones_of


class OffTimes(NamedTuple):
    """The times of a row of days off: `minutes` has those of the day as bits, for each fraction of a minute on which a
    moment lies. The `rest` are days near a change of the clocks, which are looked at one by one.
    """

    minutes: tuple[tuple[int, int], ...]
    rest: Sequence[int]

    def first(self, low: int) -> int | None:
        """Return the first time of the day, in microseconds, that is `low` or later; without those of the rest."""
        found = []
        for fraction, bits in self.minutes:
            least = max(-((fraction - low) // MINUTE), 0)
            if later := bits >> least:
                found.append((least + lowest(later)) * MINUTE + fraction)
        return min(found, default=None)

    def last(self, high: int) -> int | None:
        """Return the last time of the day, in microseconds, before `high`; without those of the rest."""
        found = []
        for fraction, bits in self.minutes:
            stop = max(-((fraction - high) // MINUTE), 0)
            if earlier := bits & (1 << stop) - 1:
                found.append((earlier.bit_length() - 1) * MINUTE + fraction)
        return max(found, default=None)


def off_times(terms: Sequence[Term], days: LocalDays, row: range) -> OffTimes:
    """Return the times of the terms, which don't drift, on the days of the row."""
    if not zones_of(terms) <= {days.zone}:
        return OffTimes((), row)
    minutes: dict[int, int] = {}
    rest, at = list[int](), row.start
    for first, stop, offset in plain_days(days.zone, Moment(days.start(row.start) - 1), Moment(days.end(row[-1]) - 1)):
        frame = Frame(terms, days.zone, offset)
        rest += range(at, first)
        at = stop
        for low in range(first, stop, MOST_DAYS):
            for fraction, bits in frame.times(low, min(low + MOST_DAYS, stop)):
                minutes[fraction] = minutes.get(fraction, 0) | bits
    return OffTimes(tuple(minutes.items()), [*rest, *range(at, row.stop)])
