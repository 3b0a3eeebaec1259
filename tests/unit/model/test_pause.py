"""Pauses of queues."""

from hypothesis import given
from hypothesis import strategies as st

from tokimori.model.ids import Lane
from tokimori.model.job import Definition
from tokimori.model.lanes import EVERYTHING, lane_of, open_lanes, paused_queue
from tokimori.model.target import Noop

queues = st.sampled_from(["default", "mail", "mail.fast", "ma"])


@given(queues, st.sampled_from([{}, {"os": "linux"}]))
def test_a_lane_tells_its_queue(queue: str, labels: dict[str, str]) -> None:
    """Whatever labels its jobs demand."""
    assert paused_queue(lane_of(Definition(target=Noop(), queue=queue, labels=labels))) == queue


@given(st.lists(queues, unique=True), st.sets(st.one_of(queues, st.just(EVERYTHING))))
def test_open_lanes_are_those_of_no_paused_queue(names: list[str], paused: set[str]) -> None:
    """In their order; none is open while everything is paused."""
    lanes = [Lane(f"{name}||") for name in names]
    wanted = [f"{name}||" for name in names if name not in paused and EVERYTHING not in paused]
    assert list(open_lanes(lanes, paused)) == wanted
