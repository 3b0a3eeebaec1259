"""Moments of terms in a span: how many, the first and the last. Days far from a change of the clocks are looked at in
rows, the rest day by day.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache

from tokimori.clock import DAY, Moment
from tokimori.schedules.counted import first_counted, last_counted
from tokimori.schedules.frames import MOST_DAYS, Frame, plain_days
from tokimori.schedules.second_masks import DayByDay, Term, clocks_of, count_drifting, drifts
from tokimori.schedules.zones import fixed_offset

_Days = tuple[int, int, int]
"""A row of days as (first, the one after the last, offset of the clocks)."""
_Piece = tuple[Moment, Moment, _Days | None]
"""The moments after < t <= through; whole days where they are far from any change of the clocks."""


class Terms:
    """The moments of any of the terms."""

    def __init__(self, terms: Sequence[Term]) -> None:
        self._terms = terms
        zones = zones_of(terms)
        self._zone = next(iter(zones), "UTC") if len(zones) < 2 else None
        self._frames: dict[int, Frame] = {}
        self._drifts = any(map(drifts, terms))

    def count(self, after: Moment, through: Moment) -> int:
        """Count the moments t with after < t <= through."""
        daily = self._daily(after, through)
        total = sum(self._count(piece, daily) for piece in self._pieces(after, through))
        return total + self._drifting(after, through)

    def end(self, after: Moment, through: Moment, *, last: bool) -> Moment | None:
        """Return the first of these moments, or the last one."""
        pieces, daily = self._pieces(after, through), self._daily(after, through)
        for piece in reversed([*pieces]) if last else pieces:
            found = self._end(piece, daily, last=last)
            if found is not None:
                return found
        return None

    def _daily(self, after: Moment, through: Moment) -> Callable[[], DayByDay]:
        return cache(lambda: DayByDay(self._terms, after, through))

    # Pieces

    def _pieces(self, after: Moment, through: Moment) -> Iterator[_Piece]:
        """Yield the span in pieces, in order: rows of days where the offset is known, and what lies between them."""
        at = after
        if self._zone is not None:
            for first, stop, offset in plain_days(self._zone, after, through):
                for low in range(first, stop, MOST_DAYS):
                    high = min(low + MOST_DAYS, stop)
                    begin = Moment(low * DAY - offset - 1)
                    if at < begin:
                        yield at, begin, None
                    at = Moment(high * DAY - offset - 1)
                    yield begin, at, (low, high, offset)
        if at < through:
            yield at, through, None

    def _frame(self, offset: int) -> Frame:
        if offset not in self._frames:
            self._frames[offset] = Frame(self._terms, self._zone or "UTC", offset)
        return self._frames[offset]

    def _count(self, piece: _Piece, daily: Callable[[], DayByDay]) -> int:
        after, through, days = piece
        if days is None:
            return daily().count(after, through)
        first, stop, offset = days
        return self._frame(offset).count(first, stop)

    def _end(self, piece: _Piece, daily: Callable[[], DayByDay], *, last: bool) -> Moment | None:
        after, through, days = piece
        if days is None:
            found = daily().end(after, through, last=last)
        else:
            first, stop, offset = days
            shown = self._frame(offset).end(first, stop, last=last)
            found = None if shown is None else Moment(shown - offset)
        if not self._drifting(after, through):
            return found
        if last:
            drifting = last_counted(self._drifting, Moment(after + 1), Moment(through + 1))
            return drifting if found is None else max(found, drifting)
        drifting = first_counted(self._drifting, after, through)
        return drifting if found is None else min(found, drifting)

    def _drifting(self, after: Moment, through: Moment) -> int:
        return count_drifting(self._terms, after, through) if self._drifts else 0


def zones_of(terms: Sequence[Term]) -> set[str]:
    """Return the zones whose clocks the terms go by; intervals and moments of a fixed offset go by none."""
    parts = [part for term in terms for part in (term.part, *term.without)]
    return {part.zone for part in parts if fixed_offset(part.zone) is None or clocks_of(part)}
