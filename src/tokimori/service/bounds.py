"""Bounds of an answer. A node that has runs to start computes less for others than a program for itself."""

from msgspec import Struct

from tokimori.clock import DAY, Moment, format_moment
from tokimori.errors import InvalidInput
from tokimori.model.backfill import MOST_BACKFILLED
from tokimori.service.asking import MOST_LISTED


class Bounds(Struct, frozen=True, kw_only=True):
    """The most `moments` of a schedule, and the most `occurrences` and `years` of a backfill."""

    moments: int
    occurrences: int
    years: int

    def check_years(self, first: Moment, last: Moment) -> None:
        """Refuse a backfill whose occurrences would take long to count. Raises `InvalidInput`."""
        if last - first > self.years * 366 * DAY:
            raise InvalidInput(
                f"to: {format_moment(last)} is over {self.years} years after `from`",
                field="to",
                value=format_moment(last),
                allowed=f"a range of at most {self.years} years; ask for the next ones then",
            )


OF_A_PROGRAM = Bounds(moments=10_000, occurrences=MOST_BACKFILLED, years=10_000)
OF_A_DOOR = Bounds(moments=MOST_LISTED, occurrences=10_000, years=200)
"""Years are counted in a thread beside the loop: with days off 200 of them take 0.3 s, and all of them 12 s."""
