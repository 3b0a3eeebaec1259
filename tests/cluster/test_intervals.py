"""How much was held at the worst moment."""

from tests.cluster.checker import Interval, Most, most_held


def test_the_most_is_found_where_intervals_overlap() -> None:
    """Weights that overlap add up; what ends at a moment gives back before what begins then takes."""
    intervals = [Interval(0, 2, 2), Interval(1, 3), Interval(2, 4, 2), Interval(5, 5, 9)]
    assert most_held(intervals) == Most(3, 1)
    assert most_held([]) == Most(0, 0)
