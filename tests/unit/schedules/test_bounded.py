"""A schedule within bounds."""

from bisect import bisect_left, bisect_right

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import Moments
from tokimori.clock import Moment
from tokimori.schedules.counting import count_until
from tokimori.schedules.schedule import Bounded

SMALL = st.integers(0, 60).map(Moment)


@given(st.lists(SMALL, unique=True), st.none() | SMALL, st.none() | SMALL, SMALL, SMALL)
def test_it_is_the_schedule_without_what_lies_outside(
    moments: list[Moment], first: Moment | None, last: Moment | None, low: Moment, high: Moment
) -> None:
    """Next, last and count are those of the moments from `first` to `last`, both included, listed one by one."""
    bounded = Bounded(Moments(tuple(sorted(moments))), first, last)
    kept = sorted(m for m in moments if (first is None or m >= first) and (last is None or m <= last))
    after, before = bisect_right(kept, low), bisect_left(kept, low)
    assert bounded.next_after(low) == (kept[after] if after < len(kept) else None)
    assert bounded.last_before(low) == (kept[before - 1] if before else None)
    assert count_until(bounded, low, high)[0] == sum(low < m <= high for m in kept)
