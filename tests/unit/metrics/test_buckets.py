"""A histogram of seconds."""

import random

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram

from tokimori.metrics import CALLS, DURATIONS, LATENESS, Buckets


@given(st.lists(st.floats(min_value=-1, max_value=1e6), max_size=50), st.sampled_from([LATENESS, DURATIONS, CALLS]))
def test_it_counts_as_the_client_of_prometheus_does(values: list[float], bounds: tuple[float, ...]) -> None:
    """Each bound covers what is at most as large, and a value below zero counts as zero."""
    buckets, theirs = Buckets(bounds), Histogram("h", "h", buckets=bounds, registry=CollectorRegistry())
    for value in values:
        buckets.add(value)
        theirs.observe(max(0.0, value))
    (family,) = theirs.collect()
    told = {each.labels["le"]: each.value for each in family.samples if each.name == "h_bucket"}
    assert dict(buckets.cumulated()) == told
    assert list(buckets.cumulated())[-1][1] == len(values)


def test_bounds_are_in_order() -> None:
    """A value is looked for by halves."""
    for bounds in (LATENESS, DURATIONS, CALLS):
        shuffled = list(bounds)
        random.Random(1).shuffle(shuffled)
        assert tuple(sorted(shuffled)) == bounds
