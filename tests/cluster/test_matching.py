"""Earliest-deadline matching of what was due with what ran."""

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.checker import match
from tokimori.clock import Moment

WINDOW = 5
moments = st.lists(st.integers(0, 20).map(Moment), max_size=5)


def most(targets: list[Moment], starts: list[Moment]) -> int:
    """How many targets can have a start of their own, found by trying every assignment."""
    return max(
        sum(target <= start <= target + WINDOW for target, start in zip(targets, order, strict=False))
        for order in permutations([*starts, *[Moment(-99)] * len(targets)], len(targets))
    )


@given(moments, moments)
def test_it_matches_as_many_as_can_be(targets: list[Moment], starts: list[Moment]) -> None:
    """No other assignment leaves fewer targets unmatched."""
    found = match(targets, starts, WINDOW)
    assert len(targets) - len(found.missed) == most(targets, starts)
    assert len(starts) - len(found.extra) == len(targets) - len(found.missed)


def test_a_start_serves_one_target() -> None:
    """Two targets want two starts, however well one would fit both."""
    assert match([Moment(0), Moment(1)], [Moment(2)], WINDOW).missed == (Moment(1),)


def test_a_start_before_its_target_is_no_match() -> None:
    """What began early is a run too many, and the target is missed."""
    found = match([Moment(3)], [Moment(2)], WINDOW)
    assert (found.missed, found.extra) == ((Moment(3),), (Moment(2),))


def test_a_start_after_the_window_is_too_late() -> None:
    """At the end of the window is in time, one microsecond later is not."""
    assert match([Moment(0)], [Moment(5)], WINDOW).missed == ()
    assert match([Moment(0)], [Moment(6)], WINDOW).missed == (Moment(0),)
