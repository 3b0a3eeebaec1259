"""What a node does while its store is away at the start."""

import asyncio
import logging
from collections.abc import Callable

import pytest

from tests.simulation.virtual_time import run_virtually
from tokimori.errors import SchemaMismatch, StoreError, StoreReplaced, StoreUnavailable
from tokimori.node.checkup import Missing, Patience, answered
from tokimori.testing.manual import VirtualClock


class Away:
    """A store that fails so many times before it answers."""

    def __init__(self, failures: int, fault: StoreError) -> None:
        self._failures = failures
        self._fault = fault
        self.asked: list[float] = []

    async def ask(self) -> None:
        """Fail, or do not."""
        self.asked.append(round(asyncio.get_running_loop().time(), 3))
        if len(self.asked) <= self._failures:
            raise self._fault


AWAY = StoreUnavailable("nobody answers")


def ask(store: Away, wanted: Callable[[], bool] = lambda: True) -> tuple[bool, list[str]]:
    """Whether it answered, and what people were told."""
    told: list[str] = []
    return run_virtually(answered(store.ask, wanted=wanted, report=told.append)), told


def test_a_store_that_answers_is_asked_once() -> None:
    """And nobody is told anything."""
    store = Away(0, AWAY)
    assert ask(store) == (True, [])
    assert store.asked == [0.0]


def test_a_store_that_is_away_is_asked_again_ever_more_slowly() -> None:
    """At first soon, then every two seconds; people are told once."""
    store = Away(7, AWAY)
    assert ask(store) == (True, ["Waiting for the store: nobody answers"])
    assert store.asked == [0.0, 0.1, 0.3, 0.7, 1.5, 3.1, 5.1, 7.1]


@pytest.mark.parametrize("fault", [StoreError("wrong password"), SchemaMismatch("too new")])
def test_what_a_person_must_mend_is_raised(fault: StoreError) -> None:
    """At once: waiting would hide it."""
    store = Away(1, fault)
    with pytest.raises(type(fault)):
        ask(store)
    assert len(store.asked) == 1


def test_a_node_that_is_stopped_waits_no_longer() -> None:
    """Whoever stops a node that waits for its store has stopped it."""
    store = Away(99, AWAY)
    assert ask(store, wanted=lambda: len(store.asked) < 3)[0] is False
    assert len(store.asked) == 3


def test_a_file_that_was_moved_is_waited_for_a_while() -> None:
    """It may be put back; what is missing for five seconds together is lost, whatever else was wrong before."""
    clock = VirtualClock()
    missing = Missing(clock)
    for _ in range(2):
        missing.check(StoreReplaced("moved"))
        clock.advance(4)
        missing.check(StoreReplaced("moved"))
        missing.found()
        clock.advance(4)
    missing.check(StoreReplaced("moved"))
    missing.check(AWAY)
    clock.advance(5)
    missing.check(StoreReplaced("moved"))
    clock.advance(5)
    with pytest.raises(StoreReplaced, match="the node stops, and ends its runs: for 5 s now it has had no store: m"):
        missing.check(StoreReplaced("moved"))


def test_whoever_fails_again_waits_longer() -> None:
    """Whatever it fails at, up to two seconds, until all goes well."""
    patience = Patience(VirtualClock())
    assert [patience.after(AWAY), *(patience.longer() for _ in range(5))] == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0]
    patience.answered()
    assert patience.after(AWAY) == 0.1


def test_only_a_store_that_was_away_answers_again(caplog: pytest.LogCaptureFixture) -> None:
    """After a fault of the node itself nobody is sent to look at the store."""
    patience = Patience(VirtualClock())
    with caplog.at_level(logging.INFO):
        patience.longer()
        patience.answered()
        assert "the store" not in caplog.text
        patience.after(AWAY)
        patience.answered()
    assert caplog.messages[-1] == "the store answers again"


def test_a_node_repeats_itself_at_most_every_two_seconds(caplog: pytest.LogCaptureFixture) -> None:
    """However often the store fails in the same way; another fault of it is told at once."""
    clock = VirtualClock()
    patience = Patience(clock)
    for _ in range(100):
        patience.after(AWAY)
        clock.advance(0.1)
    assert len(caplog.messages) == 5
    patience.after(StoreError("another"))
    assert len(caplog.messages) == 6


def test_patience_with_a_file_that_is_gone_ends() -> None:
    """It begins anew each time that the store has answered."""
    clock = VirtualClock()
    patience = Patience(clock)
    for _ in range(2):
        patience.after(StoreReplaced("moved"))
        clock.advance(4)
        patience.answered()
    patience.after(StoreReplaced("moved"))
    clock.advance(5)
    with pytest.raises(StoreReplaced, match="the node stops"):
        patience.after(StoreReplaced("moved"))
