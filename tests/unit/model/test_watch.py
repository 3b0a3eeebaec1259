"""Who is dead, by an observer's own clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokimori.model.ids import NodeId
from tokimori.model.lease import DEAD_AFTER, Watch, next_overdue, observe, overdue

A, B = NodeId("a"), NodeId("b")


def watched(*ticks: tuple[float, dict[NodeId, int]], broken_at: float | None = None) -> Watch:
    """What ticks at these seconds, with these counters, leave; the one at `broken_at` came after a break."""
    watch = Watch()
    for at, peers in ticks:
        watch = observe(watch, list(peers.items()), at, unbroken=at != broken_at)
    return watch


def test_a_counter_unchanged_for_seven_seconds_is_death() -> None:
    """A node is dead when its counter was seen unchanged for 7 s, not sooner, and it is buried at that counter."""
    watch = watched((10.0, {A: 5, B: 1}), (12.0, {A: 5, B: 2}), (14.0, {A: 5, B: 3}))
    assert overdue(watch, 16.999) == []
    assert overdue(watch, 17.0) == [(A, 5)]
    assert overdue(watch, 21.0) == [(A, 5), (B, 3)]


def test_a_beat_starts_the_window_again() -> None:
    """A node that beats within the window lives."""
    watch = watched((10.0, {A: 5}), (16.9, {A: 6}))
    assert overdue(watch, 17.0) == []
    assert overdue(watch, 23.9) == [(A, 6)]


def test_a_counter_that_went_back_is_news_too() -> None:
    """Any change is a sign of life."""
    assert overdue(watched((10.0, {A: 5}), (12.0, {A: 4})), 17.5) == []


def test_a_break_starts_every_window_again() -> None:
    """An observer whose own ticks failed or came late has not looked: it starts again, and does not condemn."""
    watch = watched((10.0, {A: 5}), (16.0, {A: 5}), broken_at=16.0)
    assert overdue(watch, 22.9) == []
    assert overdue(watch, 23.0) == [(A, 5)]


def test_a_newcomer_has_its_full_time() -> None:
    """A node is watched from when it was first seen."""
    assert overdue(watched((10.0, {}), (15.0, {A: 0})), 21.9) == []


def test_who_is_gone_is_forgotten() -> None:
    """A node that left or was buried is not declared dead once more."""
    watch = watched((10.0, {A: 5}), (12.0, {}))
    assert overdue(watch, 100.0) == []
    assert next_overdue(watch) is None


def test_the_next_overdue_is_a_timer() -> None:
    """The moment to look again is when the most silent node would be overdue."""
    assert next_overdue(watched((10.0, {A: 5, B: 5}), (12.0, {A: 5, B: 6}))) == 10.0 + DEAD_AFTER


@given(st.floats(0, 1e9), st.floats(0, 6.9))
def test_the_timer_and_the_verdict_agree(since: float, later: float) -> None:
    """At the moment that the timer names the node is overdue, whatever floats do; a moment before it is not."""
    watch = watched((since, {A: 5}), (since + later, {A: 5}))
    at = next_overdue(watch)
    assert at is not None
    assert overdue(watch, at) == [(A, 5)]
    assert overdue(watch, since + later) == []


@pytest.mark.parametrize("every", [0.5, 2.0])
def test_a_living_node_is_never_condemned(every: float) -> None:
    """A node that beats every 2 s survives any observer, however often that one looks."""
    watch, at = Watch(), 0.0
    while at < 100:
        watch = observe(watch, [(A, int(at / 2))], at, unbroken=True)
        assert overdue(watch, at + every) == []
        at += every
