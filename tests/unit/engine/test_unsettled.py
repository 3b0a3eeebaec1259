"""Ends of attempts on their way to the store, where it refuses some."""

from collections.abc import Callable, Collection

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.unit.examples import NEW_YEAR, a_run
from tokimori.engine.refusals import LONGEST_PAUSE, PATIENCE, is_fault_of_request, pause_after
from tokimori.engine.settle import change_of
from tokimori.engine.unsettled import MOST_AT_ONCE, Unsettled, lesser_forms, size_of
from tokimori.errors import SchemaMismatch, StoreError, StoreRefused, StoreTooSlow, StoreUnavailable
from tokimori.model.ids import JobId, NodeId, RunId, Token
from tokimori.model.outcome import Cancelled, Released, Succeeded
from tokimori.model.run import Output, Step
from tokimori.model.transitions import RunState
from tokimori.ports.working import LARGE, Change, Claimed

ME = NodeId("me")
REFUSED = StoreRefused("no such value")
TOO_SLOW = StoreTooSlow("took over 3 s")
FIRST, SECOND, THIRD = 0.0, pause_after(1), pause_after(1) + pause_after(2)
"""When a change that is refused is sent as it is."""

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
        self.refuses = refuses
        self.taken: dict[RunId, Change] = {}
        self.asked: list[list[str]] = []
        """The runs of each batch."""
        self.said: list[str] = []
        self.seemed_ill: list[bool] = []

    def settle(self, unsettled: Unsettled, *times: float) -> None:
        """Settle whatever can be settled at these times."""
        for at in times or (FIRST,):
            while batch := unsettled.batch(at):
                self._settle(unsettled, batch, at)

    def _settle(self, unsettled: Unsettled, batch: list[Change], at: float) -> None:
        self.asked.append([change.run_id for change in batch])
        fault = next(filter(None, map(self.refuses, batch)), None)
        if fault is None:
            unsettled.settled(batch)
            self.taken |= {change.run_id: change for change in batch}
        else:
            self.said.append(unsettled.refuse(batch, fault, at))
            self.seemed_ill.append(unsettled.ill(batch, fault))


def unsettled(*names: str) -> Unsettled:
    """These have ended."""
    changes = Unsettled()
    for name in names:
        changes.add(a_change(name))
    return changes


def refusing(names: Collection[str], fault: StoreError = REFUSED) -> Refuses:
    """A store that refuses what these have printed."""
    return lambda change: fault if change.run_id in names and change.output is not None else None


def takes(_: Change) -> None:
    """A store that is well."""


@given(st.integers(1, 80), st.sets(st.integers(0, 79), max_size=6))
def test_a_refused_change_hinders_no_other(count: int, bad: set[int]) -> None:
    """Every other is settled at once as it is; each that was refused ends as failed, at the cost of a few batches."""
    names = [f"{n:02}" for n in range(count)]
    refused = {f"{n:02}" for n in bad if n < count}
    store, changes = Store(refusing(refused)), unsettled(*names)
    store.settle(changes)
    assert {*store.taken} == set(names) - refused
    assert len(store.asked) <= 1 + 10 * len(refused)
    store.settle(changes, SECOND, THIRD)
    assert not changes
    assert {name for name, change in store.taken.items() if change.state is RunState.FAILED} == refused
    assert {change.state for name, change in store.taken.items() if name not in refused} <= {RunState.SUCCEEDED}


def test_a_refused_run_fails_with_the_words_of_the_store() -> None:
    """Its error says what the store said and how the attempt had ended; nothing that may be at fault is kept of it."""
    store = Store(refusing("b"))
    store.settle(unsettled("a", "b"), FIRST, SECOND, THIRD)
    failed = store.taken[RunId("b")]
    assert failed.error == "the store refused how this attempt ended (succeeded): no such value"
    assert (failed.output, failed.attempt, failed.result, failed.details) == (None, None, None, None)
    assert "run b of" in store.said[-1]


def test_a_store_that_was_ill_fails_nothing() -> None:
    """What it refused while it refused everything is taken as it is when it is well again, sooner or later."""
    for well_at in (SECOND, THIRD, THIRD + LONGEST_PAUSE):
        store, changes = Store(lambda _: REFUSED), unsettled("a", "b")
        store.settle(changes, *(at for at in (FIRST, SECOND, THIRD) if at < well_at))
        assert not store.taken
        store.refuses = takes
        store.settle(changes, well_at, well_at + LONGEST_PAUSE)
        assert {change.state for change in store.taken.values()} == {RunState.SUCCEEDED}
        assert len(store.taken) == 2


def test_a_store_that_takes_nothing_is_asked_less_often() -> None:
    """The first refusals are looked into at once; where nothing is taken meanwhile, the node has to back off."""
    ill = Store(lambda _: REFUSED)
    ill.settle(unsettled(*map(str, range(8))))
    assert ill.seemed_ill[:4] == [False] * 4 and any(ill.seemed_ill)
    well = Store(refusing("3"))
    well.settle(unsettled(*map(str, range(8))), FIRST, SECOND, THIRD)
    assert not any(well.seemed_ill)


def test_what_the_store_takes_in_no_form_is_tried_again_as_it_is() -> None:
    """Others go on meanwhile; no lesser form outlives its try."""
    store, changes = Store(lambda change: REFUSED if change.run_id == "a" else None), unsettled("a", "b")
    store.settle(changes, FIRST, SECOND, THIRD)
    assert (list(store.taken), changes.stuck, changes.refused) == (["b"], True, 1)
    again = THIRD + pause_after(PATIENCE)
    assert (changes.ready(again - 1), changes.ready(again)) == (False, True)
    changes.add(a_change("c"))
    assert not changes.stuck
    store.refuses = takes
    store.settle(changes, again)
    assert {name: change.state for name, change in store.taken.items()} == dict.fromkeys("abc", RunState.SUCCEEDED)


def test_one_that_takes_too_long_is_never_made_less() -> None:
    """Somebody may hold a lock on its row: it is tried again as it is, less and less often."""
    store, changes, at = Store(refusing("a", TOO_SLOW)), unsettled("a", "b"), 0.0
    for tries in range(1, 10):
        store.settle(changes, at)
        at += pause_after(tries)
    assert list(store.taken) == ["b"]
    store.refuses = takes
    store.settle(changes, at)
    assert store.taken[RunId("a")].state is RunState.SUCCEEDED


def test_batches_that_take_too_long_become_smaller() -> None:
    """And grow again when the store takes them; meanwhile the node has to back off."""
    names = [f"{n:03}" for n in range(100)]
    store, changes = Store(takes), unsettled(*names)
    refused = changes.batch(0)
    changes.refuse(refused, TOO_SLOW, 0)
    assert changes.ill(refused, TOO_SLOW)
    store.settle(changes)
    assert [len(batch) for batch in store.asked] == [50, 50]
    assert changes.refused == 0


def test_halves_that_take_too_long_become_smaller() -> None:
    """A search by halves that meets a slow store does not send the same half for ever."""
    names = [f"{n:02}" for n in range(16)]
    changes = unsettled(*names)
    changes.refuse(changes.batch(0), REFUSED, 0)
    half = changes.batch(0)
    changes.refuse(half, TOO_SLOW, 0)
    assert len(changes.batch(0)) < len(half)
    store = Store(refusing(["05"]))
    store.settle(changes)
    assert {*store.taken} == {*names} - {"05"}


def test_refused_changes_take_turns_with_the_others() -> None:
    """However many are refused, and however long each takes, every second batch is one of the others."""
    changes = unsettled(*map(str, range(10)))
    for change in changes.batch(0):
        changes.refuse([change], TOO_SLOW, 0)
    for n in range(20):
        changes.add(a_change(f"fresh {n}"))
        at = 1000.0 * (n + 1)
        assert changes.batch(at) == changes.batch(at)
        for _ in range(2):
            batch = changes.batch(at)
            if batch[0].run_id.startswith("fresh"):
                changes.settled(batch)
            else:
                changes.refuse(batch, TOO_SLOW, at)
        assert (RunId(f"fresh {n}"), Token(1)) not in changes


def test_ends_that_are_none_go_on() -> None:
    """A run that was given back goes on where the store takes that much, one that was cancelled never fails."""
    claimed = Claimed(run=a_run(id=RunId("a"), token=Token(1), node_id=ME), definition=None)
    released, cancelled = (
        change_of(claimed, outcome, owner=ME, now=NEW_YEAR, chance=0) for outcome in (Released("no"), Cancelled("no"))
    )
    states = [form.state for form in lesser_forms(released, REFUSED)]
    assert states == [RunState.READY, RunState.FAILED, RunState.FAILED]
    assert {form.state for form in lesser_forms(cancelled, REFUSED)} == {RunState.CANCELLED}
    forms = [(form.parks, form.childless) for form in lesser_forms(replace(cancelled, parks=True), REFUSED)]
    assert forms == [(True, False), (False, False), (False, True)]


def test_a_change_is_known_until_it_is_dropped() -> None:
    """One that is told twice counts once, refused or not; what was dropped is forgotten."""
    changes = unsettled("a", "b")
    changes.refuse(changes.batch(0)[:1], REFUSED, 0)
    for name in "ab":
        changes.add(a_change(name))
        assert (RunId(name), Token(1)) in changes
    assert len(changes.batch(0)) == 1
    for name in "ab":
        changes.drop((RunId(name), Token(1)))
    assert not changes


def test_a_batch_has_an_end() -> None:
    """One transaction does not hold everything."""
    assert len(unsettled(*map(str, range(MOST_AT_ONCE + 1))).batch(0)) == MOST_AT_ONCE


def test_a_store_that_is_away_blames_nobody() -> None:
    """Nor does one that a person has to mend, nor this machine; a bug of ours that one change brings out does."""
    lasting = (StoreUnavailable(""), StoreError(""), SchemaMismatch(""), OSError(37, "No locks"), MemoryError())
    assert not any(map(is_fault_of_request, lasting))
    assert all(map(is_fault_of_request, (REFUSED, TOO_SLOW, KeyError("x"))))


def test_a_batch_ends_where_it_is_large() -> None:
    """Results, outputs and the payloads that move to the history bound a transaction, not only the number of ends."""
    unsettled = Unsettled()
    changes = [replace(a_change(str(n)), result="x" * (LARGE // 4)) for n in range(5)]
    for change in changes[:3]:
        unsettled.add(change, "x" * (LARGE // 4))
    for change in changes[3:]:
        unsettled.add(change)
    batches = []
    while batch := unsettled.batch(FIRST):
        batches.append([change.run_id for change in batch])
        unsettled.settled(batch)
    assert batches == [["0", "1"], ["2", "3", "4"]]


def test_the_steps_of_a_change_count() -> None:
    """Each may get the result, and has a text of its own."""
    step = Step(id=RunId("s"), job=JobId("j"), payload="x" * 1000)
    change = replace(a_change("1"), output=None, details=None, result=None)
    assert size_of(change) == 0 and size_of(replace(change, then=(step,))) > 1000
    assert size_of(replace(change, then=(step, step), result="y" * 9000)) > 3 * 9000 + 2 * 1000
