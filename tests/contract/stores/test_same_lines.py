"""Every store lets wait, wakes and grants whom the memory store does, and the promises about lines hold on the way."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import consumes, initialize, multiple, rule, run_state_machine_as_test
from msgspec.structs import replace

from tests.contract.stores.actors import a_request, later
from tests.contract.stores.conftest import STORES
from tests.contract.stores.machine import ALL, NAMES, Call, Machine
from tests.unit.examples import at_once
from tokimori.clock import SECOND, Moment
from tokimori.engine.settle import change_of
from tokimori.model.ids import JobId, NodeId, PermitId
from tokimori.model.outcome import Failed, Hold, Lost, Outcome, Released, RetryAt, Succeeded
from tokimori.model.policies import OnExhausted, Retry
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.nodes import Beat
from tokimori.ports.semaphores import UnitRequest
from tokimori.ports.store import RunFilter
from tokimori.ports.working import Claimed, Verdict
from tokimori.service.definitions.edits import Edit, edited, paused, resumed

names = st.sampled_from(NAMES)
semaphores = st.sampled_from("st")
outcomes: st.SearchStrategy[Outcome] = st.sampled_from(
    [Succeeded(0), Succeeded(0), Released("later"), Failed("no"), Hold("look"), RetryAt(later(2))]
)
terms: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "max_running": st.sampled_from([0, 0, 1, 2]),
        "queue": st.sampled_from("xxy"),
        "semaphores": st.sampled_from([(), ("s",), ("s:2",), ("t",), ("t:2", "s"), ("s", "t")]),
        "max_running_per_key": st.sampled_from([1, 2]),
        "on_exhausted": st.sampled_from([OnExhausted.FAIL, OnExhausted.PARK]),
        "retry": st.just(Retry(attempts=1, lost_attempts=1)),
    }
)
LIVE = frozenset(RunState) - ENDS
rarely = st.sampled_from([False, False, False, True])
MOST_OPEN, MOST_PROGRAMS = 12, 2
"""More runs and programs than these stand only in the way."""


class SameLines(Machine):
    """Jobs on demand, runs that want the same things, and programs that want them too."""

    @initialize(target=Machine.nodes, terms=st.tuples(terms, terms, terms))
    def begin(self, terms: Sequence[dict[str, Any]]) -> Any:
        """Three jobs, two semaphores of two units, and two nodes."""
        self.open()
        for name in "st":
            self.ask(lambda store, name=name: store.put_semaphore(name, 2, self.now))  # type: ignore[misc]
        for name, said in zip(NAMES, terms, strict=True):
            self.add([name], said)
        return multiple(self.register(), self.register())

    @rule(name=names, number=st.integers(2, 5), key=st.sampled_from([None, None, "k", "l"]), sooner=st.integers(0, 2))
    def request(self, name: JobId, number: int, key: str | None, sooner: int) -> None:
        """Runs of a job, perhaps before those that wait already."""
        job, states = self.job(name), frozenset({RunState.READY, RunState.BLOCKED})
        if job is None or len(self.ask(lambda store: store.list_runs(RunFilter(states=states)))) > MOST_OPEN:
            return
        for run_id in self.run_ids(number):
            run = a_request(job, due=Moment(self.now - sooner * SECOND), concurrency_key=key)
            run = replace(run, id=run_id, origin=f"m:{run_id}", created=self.now)
            self.ask(lambda store, run=run: store.add_run(run, self.now))  # type: ignore[misc]

    @rule(target=Machine.claims, node=Machine.nodes, limit=st.sampled_from([1, 2, 9]), again=rarely)
    def claim(self, node: NodeId, limit: int, *, again: bool) -> Any:
        """A node takes work."""
        return multiple(*self.take(node, limit, again=again))

    @rule(claimed=consumes(Machine.claims), outcome=outcomes)
    def settle(self, claimed: Claimed, outcome: Outcome) -> None:
        """An attempt ends."""
        assert claimed.run.node_id is not None
        self.end([claimed], outcome, claimed.run.node_id)

    @rule(first=consumes(Machine.claims), second=consumes(Machine.claims), outcome=outcomes)
    def settle_two(self, first: Claimed, second: Claimed, outcome: Outcome) -> None:
        """Two attempts end in one call, or the other one's end is refused."""
        assert first.run.node_id is not None
        self.end([first, second], outcome, first.run.node_id)

    def end(self, batch: Sequence[Claimed], outcome: Outcome, by: NodeId) -> None:
        """Settle, and ask for it again."""
        changes = [change_of(each, outcome, owner=each.run.node_id or by, now=self.now, chance=0.0) for each in batch]
        verdicts = self.ask(lambda store: store.settle(changes, by, self.now))
        again = self.ask(lambda store: store.settle(changes, by, self.now))
        assert Verdict.APPLIED not in again
        assert len(verdicts) == len(batch)

    @rule(node=Machine.nodes, limit=st.integers(1, 3))
    def work(self, node: NodeId, limit: int) -> None:
        """A node takes some of what is ready, and all of it succeeds."""
        now = self.now = Moment(self.now + SECOND)
        self.ask(lambda store: store.promote(now, ALL))  # of those due at one moment each may take any first
        self.end(self.take(node, limit), Succeeded(0), node)

    @rule(
        how=st.sampled_from(["cancel", "expire", "hold", "resume", "move"]),
        which=st.integers(0, 20),
        seconds=st.integers(-1, 1),
    )
    def order(self, how: str, which: int, seconds: int) -> None:
        """Cancel, hold or resume some run that has not ended, or give it another moment."""
        runs = self.ask(lambda store: store.list_runs(RunFilter(states=LIVE)))
        if not runs:
            return
        run = runs[which % len(runs)]
        moment = Moment(self.now + seconds * SECOND)
        calls: dict[str, Call] = {
            "cancel": lambda store: store.cancel_run(run.id, "enough", self.now),
            "expire": lambda store: store.cancel_run(run.id, "too late", self.now, run.attempt),
            "hold": lambda store: store.hold_run(run.id, "wait"),
            "resume": lambda store: store.resume_run(run.id),
            "move": lambda store: store.hasten_run(run, moment, moment),
        }
        self.ask(calls[how])

    @rule(name=names, terms=terms)
    def edit(self, name: JobId, terms: dict[str, Any]) -> None:
        """Give a job other terms, or add it anew."""
        due = self.ask(lambda store: store.get_due(name))
        if due is None:
            self.add([name], terms)
            return
        edit = at_once(edited(due, replace(due.job.definition, **terms), self.now, due.job.runs_remaining))
        self.ask(lambda store: store.replace_job(due.job, edit.job, edit.skips))

    @rule(name=names, how=st.sampled_from(["pause", "resume", "resume", "resume", "delete"]))
    def stop(self, name: JobId, how: str) -> None:
        """Pause, enable or delete a job, whatever its state."""
        due, now = self.ask(lambda store: store.get_due(name)), self.now
        if due is None or how == "delete":
            self.ask(lambda store: store.delete_job(name, now))
            return
        edit = Edit(paused(due.job, now, "by hand", "me"), ()) if how == "pause" else at_once(resumed(due, now))
        after = replace(edit.job, version=due.job.version + 1)
        self.ask(lambda store: store.replace_job(due.job, after, edit.skips))

    @rule(name=semaphores, limit=st.sampled_from([1, 2, 2, 3]), gone=rarely)
    def give_units(self, name: str, limit: int, *, gone: bool) -> None:
        """Make a semaphore, change its limit, or delete it."""
        if gone:
            self.ask(lambda store: store.delete_semaphore(name))
        else:
            self.ask(lambda store: store.put_semaphore(name, limit, self.now))

    @rule(
        target=Machine.programs,
        node=Machine.nodes,
        name=semaphores,
        weight=st.sampled_from([1, 1, 2]),
        limit=st.sampled_from([None, None, None, 2]),
        before=st.integers(-2, 2),
    )
    def acquire(self, node: NodeId, name: str, weight: int, limit: int | None, before: int) -> UnitRequest:
        """A program asks for units; the oldest of several gives up first, so that there is something to wait for."""
        if len(self.wishes) >= MOST_PROGRAMS:
            oldest = next(iter(self.wishes.values()))
            self.ask(lambda store: store.release(oldest.id, oldest.node, self.now))
            del self.wishes[oldest.id]
        rank = self.now - before * SECOND
        wish = UnitRequest(
            id=PermitId(self.next_id()), node=node, semaphore=name, weight=weight, limit=limit, rank=rank
        )
        self.ask_for(wish)
        return wish

    @rule(wish=Machine.programs)
    def ask_again(self, wish: UnitRequest) -> None:
        """A program asks again, perhaps long after it gave its units back."""
        self.ask_for(wish)

    @rule(wish=consumes(Machine.programs), by=Machine.nodes, stranger=rarely)
    def release(self, wish: UnitRequest, by: NodeId, *, stranger: bool) -> None:
        """A program gives back what it holds or waits for, twice; another one can't."""
        if stranger and by != wish.node:
            assert not self.ask(lambda store: store.release(wish.id, by, self.now))
        self.ask(lambda store: store.release(wish.id, wish.node, self.now))
        self.wishes.pop(wish.id, None)
        assert not self.ask(lambda store: store.release(wish.id, wish.node, self.now))

    @rule(target=Machine.nodes, gone=consumes(Machine.nodes), by=Machine.nodes, leaves=rarely)
    def go(self, gone: NodeId, by: NodeId, *, leaves: bool) -> NodeId:
        """A node leaves, or is declared dead; another one comes."""
        beat = next(node.beat for node in self.ask(lambda store: store.list_nodes()) if node.id == gone)
        if leaves:
            self.ask(lambda store: store.leave(gone, self.now))
        else:
            self.ask(lambda store: store.bury(gone, beat, by, self.now))
        return self.register()

    @rule(by=Machine.nodes, limit=st.integers(1, 3))
    def take_over(self, by: NodeId, limit: int) -> None:
        """Settle what dead nodes own."""
        orphans = self.ask(lambda store: store.orphans(limit))
        self.end(orphans, Lost("dead"), by)

    @rule(node=Machine.nodes)
    def tick(self, node: NodeId) -> None:
        """A beat: it finds nothing that somebody forgot to wake."""
        before = self.runs()
        self.ask(lambda store: store.tick(Beat(node=node), self.now))
        assert self.runs() == before


def machine_of(kind: str) -> type[SameLines]:
    """The machine that asks this store and memory."""
    return type(f"SameLinesOf{kind.title()}", (SameLines,), {"kind": kind})


def compare(kind: str, examples: int, steps: int) -> None:
    """Ask this store and memory the same, in so many conversations."""
    run_state_machine_as_test(machine_of(kind), settings=settings(max_examples=examples, stateful_step_count=steps))


@pytest.mark.timeout(300)  # whatever it finds is made small first
@pytest.mark.parametrize("kind", STORES)
def test_a_store_lets_wait_as_memory_does(kind: str) -> None:
    """Whoever asks for what, a store grants, blocks and wakes as memory does; nothing is leaked or waits in vain."""
    compare(kind, 6 if kind == "memory" else 2, 45)


@pytest.mark.prove
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", STORES)
def test_a_store_lets_wait_as_memory_does_for_long(kind: str) -> None:
    """The same, with many more and longer conversations."""
    compare(kind, 400 if kind == "memory" else 40, 100)


@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize("kind", STORES)
def test_a_deletion_passes_on_the_turns_that_its_runs_had(kind: str, runs: int) -> None:
    """A job is deleted whose first run has the turn for a unit: those behind it in the line are woken as in memory.

    The same where none of its other runs stands in that line.
    """
    machine, on_demand = machine_of(kind)(), {"semaphores": ()}
    machine.begin((on_demand, {"semaphores": ("s",)}, {"semaphores": ("s",)}))
    node = machine.register()
    try:
        machine.give_units("s", 1, gone=False)
        machine.request(JobId("b"), 1, None, 2)
        (holder,) = machine.take(node, 1)
        machine.request(JobId("c"), runs, None, 1)
        machine.request(JobId("b"), 4, None, 0)
        assert machine.take(node, 9) == []
        machine.settle(holder, Succeeded(0))
        turns = {run.job_id: run for run in machine.runs() if run.state is RunState.READY}
        assert list(turns) == ["c"]
        machine.stop(JobId("c"), "delete")
        machine.hold_the_same()
        assert JobId("b") in {run.job_id for run in machine.runs() if run.state is RunState.READY}
    finally:
        machine.teardown()
