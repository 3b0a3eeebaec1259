"""Ends of attempts on their way to the store, where it refuses some."""

from collections.abc import Callable, Collection

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import NEW_YEAR, a_run
from tokimori.engine.settle import change_of
from tokimori.engine.unsettled import ASIDE, MOST_AT_ONCE, PATIENCE, PAUSE, Unsettled, blames_a_change
from tokimori.errors import SchemaMismatch, StoreError, StoreRefused, StoreTooSlow, StoreUnavailable
from tokimori.model.ids import NodeId, RunId, Token
from tokimori.model.outcome import Succeeded
from tokimori.model.run import Output
from tokimori.model.transitions import RunState
from tokimori.ports.working import Change, Claimed

ME = NodeId("me")
REFUSED = StoreRefused("no such value")
TOO_SLOW = StoreTooSlow("took over 3 s")

Refuses = Callable[[Change], StoreError | None]
"""What the store says to a change."""


def a_change(name: str) -> Change:
    """A success with an output."""
    run = a_run(id=RunId(name), token=Token(1), node_id=ME)
    output = Output(run_id=run.id, attempt=1, size=1, tail=b"x")
    claimed = Claimed(run=run, definition=None)
    return change_of(claimed, Succeeded(0), owner=ME, now=NEW_YEAR, chance=0, output=output)


class Store:
    """Takes a batch whole or not at all."""

    def __init__(self, refuses: Refuses) -> None:
        self._refuses = refuses
        self.taken: dict[RunId, Change] = {}
        self.asked: list[int] = []
        """How many changes each batch had."""
        self.said: list[str] = []

    def settle(self, unsettled: Unsettled, at: float = 0.0) -> None:
        """Settle whatever can be settled at this time."""
        while batch := unsettled.batch(at):
            self.asked.append(len(batch))
            fault = next(filter(None, map(self._refuses, batch)), None)
            if fault is not None:
                self.said.append(unsettled.refuse(batch, fault, at))
                continue
            for change in batch:
                self.taken[change.run_id] = change
                unsettled.drop((change.run_id, change.token))


def unsettled(*names: str) -> Unsettled:
    """These have ended."""
    changes = Unsettled()
    for name in names:
        changes.add(a_change(name))
    return changes


def refusing(names: Collection[str], fault: StoreError = REFUSED) -> Refuses:
    """A store that refuses what these have printed."""
    return lambda change: fault if change.run_id in names and change.output is not None else None


@given(st.integers(1, 80), st.sets(st.integers(0, 79), max_size=6))
def test_a_refused_change_hinders_no_other(count: int, bad: set[int]) -> None:
    """Every other is settled as it is, and each that was refused ends as failed; each costs few batches more."""
    names = [f"{n:02}" for n in range(count)]
    refused = {f"{n:02}" for n in bad if n < count}
    store, changes = Store(refusing(refused)), unsettled(*names)
    store.settle(changes)
    assert not changes
    states = {name: store.taken[RunId(name)].state for name in names}
    assert {name for name, state in states.items() if state is RunState.FAILED} == refused
    assert {name for name, state in states.items() if state is RunState.SUCCEEDED} == set(names) - refused
    assert len(store.asked) <= 1 + 10 * len(refused)


def test_a_refused_run_fails_with_the_words_of_the_store() -> None:
    """Its error says what the store said and how the attempt had ended; nothing that may be at fault is kept of it."""
    store = Store(refusing("b"))
    store.settle(unsettled("a", "b"))
    failed = store.taken[RunId("b")]
    assert failed.error == "the store refused how this attempt ended (succeeded): no such value"
    assert (failed.output, failed.attempt, failed.result, failed.details) == (None, None, None, None)
    assert "run b of" in store.said[-1]


def test_children_that_are_refused_are_left_out() -> None:
    """Where the failure is refused too, the run ends without its children."""
    store = Store(lambda change: None if change.childless else REFUSED)
    store.settle(unsettled("a"))
    assert (store.taken[RunId("a")].state, store.taken[RunId("a")].childless) == (RunState.FAILED, True)
    assert "without children" in store.said[-1]


def test_what_is_refused_in_every_form_is_set_aside() -> None:
    """Others go on; it is tried again a minute later, as its last form."""
    refusals: list[StoreError] = [REFUSED]
    store = Store(lambda change: refusals[0] if refusals and change.run_id == "a" else None)
    changes = unsettled("a", "b")
    store.settle(changes)
    assert (list(store.taken), changes.stuck, changes.ready(ASIDE - 1), changes.ready(ASIDE)) == (
        ["b"],
        True,
        False,
        True,
    )
    changes.add(a_change("c"))
    assert not changes.stuck
    refusals.clear()
    store.settle(changes, ASIDE)
    assert (set(store.taken), bool(changes)) == ({"a", "b", "c"}, False)


def test_one_that_takes_too_long_is_tried_again() -> None:
    """A slow store fails no run: only one that alone takes too long again and again, while others do not."""
    store, changes = Store(refusing("a", TOO_SLOW)), unsettled("a", "b")
    for tries in range(1, PATIENCE):
        store.settle(changes, tries * PAUSE)
        assert (list(store.taken), changes.stuck, changes.ready(tries * PAUSE)) == (["b"], False, False)
    store.settle(changes, PATIENCE * PAUSE)
    assert store.taken[RunId("a")].state is RunState.FAILED


def test_a_change_is_known_until_it_is_dropped() -> None:
    """One that is told twice counts once, refused or not; what was dropped is forgotten."""
    changes = unsettled("a", "b")
    changes.refuse(changes.batch(0)[:1], REFUSED, 0)
    for name in "ab":
        changes.add(a_change(name))
        assert (RunId(name), Token(1)) in changes
    assert [len(changes.batch(0))] == [1]
    for name in "ab":
        changes.drop((RunId(name), Token(1)))
    assert not changes


def test_a_batch_has_an_end() -> None:
    """One transaction does not hold everything."""
    assert len(unsettled(*map(str, range(MOST_AT_ONCE + 1))).batch(0)) == MOST_AT_ONCE


def test_a_store_that_is_away_blames_nobody() -> None:
    """Nor does one that a person has to mend; a bug of ours that one change brings out does."""
    assert not any(map(blames_a_change, (StoreUnavailable(""), StoreError(""), SchemaMismatch(""))))
    assert all(map(blames_a_change, (REFUSED, TOO_SLOW, KeyError("x"))))
