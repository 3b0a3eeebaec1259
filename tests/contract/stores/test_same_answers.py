"""Every store gives the answers that the memory store gives, whatever it is asked and in whatever order."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import consumes, initialize, multiple, rule, run_state_machine_as_test
from msgspec.structs import replace

from tests.contract.stores.actors import EVERY_SECOND, a_request, later
from tests.contract.stores.conftest import STORES
from tests.contract.stores.machine import (
    ALL,
    DOCUMENT_KINDS,
    NAMES,
    Call,
    Machine,
    answer_of,
    comparable,
    no_call,
)
from tests.unit.examples import at_once
from tokimori.clock import SECOND, Moment
from tokimori.engine.settle import change_of
from tokimori.model.decide import Plan, decide
from tokimori.model.dependents import Join, On, Parent
from tokimori.model.document import Document
from tokimori.model.ids import JobId, NodeId, RunId
from tokimori.model.job import schedule_of
from tokimori.model.lanes import EVERYTHING, Pause
from tokimori.model.outcome import Cancelled, Failed, Hold, Lost, Outcome, Released, RetryAt, Succeeded, TimedOut
from tokimori.model.policies import Misfire, OnExhausted, Overlap, Retry
from tokimori.model.request import Manner, shared_origin
from tokimori.model.run import Output
from tokimori.model.transitions import RunState
from tokimori.ports.nodes import Beat, StartedRun
from tokimori.ports.store import RunFilter, Store
from tokimori.ports.working import Claimed
from tokimori.service.definitions.edits import Edit, edited, paused, resumed

names = st.sampled_from(NAMES)
outcomes: st.SearchStrategy[Outcome] = st.sampled_from(
    [
        Succeeded(0),
        Succeeded(0, result="done"),
        Failed("broken", exit_code=1),
        TimedOut("too long"),
        RetryAt(later(2)),
        Hold("look"),
        Released("later"),
        Lost("dead"),
        Cancelled("enough"),
    ]
)
limits = [(None, None), (0, None), (1, None), (2, None), (1, 0), (1, 1), (2, 1)]
terms: st.SearchStrategy[dict[str, Any]] = st.builds(
    lambda limits, others: dict(zip(("max_running", "max_waiting"), limits, strict=True)) | others,
    st.sampled_from(limits),
    st.fixed_dictionaries(
        {
            "queue": st.sampled_from("xy"),
            "priority": st.sampled_from([0, 1]),
            "on_exhausted": st.sampled_from(OnExhausted),
            "retry": st.sampled_from([Retry(attempts=2), Retry(lost_attempts=0)]),
            "semaphores": st.sampled_from([(), (), ("s",), ("s:2",), ("t", "s")]),
            "concurrency_key": st.sampled_from([None, None, "k"]),
            "max_running_per_key": st.sampled_from([1, 2]),
        }
    ),
)
times = st.fixed_dictionaries(
    {
        "schedule": st.just(EVERY_SECOND),
        "on_overlap": st.sampled_from(Overlap),
        "misfire": st.sampled_from(Misfire),
        "late_after": st.just(2),
    }
)
ends = st.sampled_from(On)
joins = st.sampled_from(Join)
kinds = st.one_of(times, st.just({}), st.just({"on_failure_job": "c"}))
rarely = st.sampled_from([False, False, False, True])


class SameAnswers(Machine):
    """What the stores are asked."""

    @initialize(target=Machine.nodes, terms=st.tuples(terms, terms, terms), times=times, join=joins, on=ends)
    def begin(self, terms: Sequence[dict[str, Any]], times: dict[str, Any], join: Join, on: On) -> Any:
        """A job on demand, one with a schedule, one that runs after them, and two nodes."""
        self.open()
        self.ask(lambda store: store.put_semaphore("s", 2, self.now))
        parents = tuple(Parent(job=name, on=on) for name in NAMES[:2])
        self.add(NAMES[:1], terms[0])
        self.add(NAMES[1:2], terms[1] | times)
        self.add(NAMES[2:], terms[2] | {"parents": parents, "join": join})
        return multiple(self.register(), self.register())

    @rule(names=st.lists(names, min_size=1, max_size=2), terms=terms, kind=kinds)
    def add_jobs(self, names: list[JobId], terms: dict[str, Any], kind: dict[str, Any]) -> None:
        """Add one job or two, perhaps one twice: `a` and `b` of any kind, `c` as a child."""
        child = {"parents": (Parent(job="a", on=On.ALWAYS),)}
        self.add(names, terms | (child if "c" in names else kind))

    @rule(target=Machine.repeatable, name=names, terms=terms, orphan=rarely)
    def edit(self, name: JobId, terms: dict[str, Any], *, orphan: bool) -> Call:
        """Give a job other terms, and perhaps take its parents from it."""
        due = self.ask(lambda store: store.get_due(name))
        if due is None:
            return no_call
        definition = replace(due.job.definition, **terms | ({"parents": ()} if orphan else {}))
        if definition.on_overlap is Overlap.REPLACE:
            definition = replace(definition, max_waiting=None)
        edit = at_once(edited(due, definition, self.now, due.job.runs_remaining))
        family = self.ask(lambda store: store.family()).version
        return self.ask_repeatable(lambda store: store.replace_job(due.job, edit.job, edit.skips, family))

    @rule(target=Machine.repeatable, name=names, how=st.sampled_from(["pause", "resume", "resume", "delete"]))
    def stop(self, name: JobId, how: str) -> Call:
        """Pause, enable or delete a job, whatever its state."""
        due, now = self.ask(lambda store: store.get_due(name)), self.now
        if due is None or how == "delete":
            self.ask(lambda store: store.delete_job(name, now))
            return no_call
        edit = Edit(paused(due.job, now, "by hand", "me"), ()) if how == "pause" else at_once(resumed(due, now))
        after = replace(edit.job, version=due.job.version + 1)
        return self.ask_repeatable(lambda store: store.replace_job(due.job, after, edit.skips))

    @rule(
        target=Machine.repeatable,
        names=st.lists(names, min_size=1, max_size=4),
        key=st.sampled_from("klmnop"),
        wait=st.sampled_from([0, 0, 2]),
        root=st.sampled_from([None, "s:1", "s:2"]),
        how=st.sampled_from(["plainly", "plainly", "plainly", "replace", "replace", "throttle"]),
        forced=rarely,
        own=st.sampled_from([None, None, "k", "l"]),
    )
    def request(
        self, names: list[JobId], key: str, wait: int, root: str | None, how: str, *, own: str | None, forced: bool
    ) -> Call:
        """Request runs under keys that may be taken or shared; the root is what joins of several parents go by."""
        due, now = Moment(self.now + wait * SECOND), self.now
        state = RunState.WAITING if wait else RunState.READY
        jobs = [job for name in names if (job := self.job(name)) is not None]
        requests = [
            replace(
                a_request(job, f"{key}{number}", due=due),
                id=run_id,
                state=state,
                root=root,
                created=now,
                concurrency_key=own,
            )
            for number, (job, run_id) in enumerate(zip(jobs, self.run_ids(len(jobs)), strict=True))
        ]
        since = Moment(now - SECOND) if how == "throttle" else None
        manner = Manner(forced=forced, replaces=how == "replace", since=since)
        if manner.shares_key:
            requests = [replace(run, origin=shared_origin("key", run.id), payload=key) for run in requests]

        async def call(store: Store) -> object:
            return [comparable(await answer_of(store.add_run(run, now, manner))) for run in requests]

        return self.ask_repeatable(call)

    @rule(target=Machine.repeatable, seconds=st.integers(1, 4), limit=st.integers(1, 3))
    def fire(self, seconds: int, limit: int) -> Call:
        """Let time pass, decide what is due, and make waiting runs ready."""
        now = self.now = Moment(self.now + seconds * SECOND)
        plans: list[tuple[Plan, Sequence[RunId]]] = []
        for due in self.ask(lambda store: store.due(now, limit)):
            plan = decide(due, schedule_of(due.job.definition, due.job.anchor, due.job.id), now)
            plans.append((plan, self.run_ids(len(plan.runs))))
        call = self.ask_repeatable(lambda store: store.apply(plans, now))
        # All of them: of those that are due at the same moment a store may take any first.
        self.ask(lambda store: store.promote(now, ALL))
        return call

    @rule(how=st.sampled_from(["cancel", "hold", "resume"]), which=st.integers(0, 20))
    def order(self, how: str, which: int) -> None:
        """Cancel, hold or resume some run, wherever it stands."""
        run_id = self.some_run(which)
        calls: dict[str, Call] = {
            "cancel": lambda store: store.cancel_run(run_id, "enough", self.now),
            "hold": lambda store: store.hold_run(run_id, "wait"),
            "resume": lambda store: store.resume_run(run_id),
        }
        self.ask(calls[how])

    def some_run(self, which: int) -> RunId:
        """The id of one of the newest runs, or of none."""
        runs = self.runs()
        return runs[which % len(runs)].id if runs else RunId(self.next_id())

    @rule(
        name=names,
        states=st.sets(st.sampled_from(RunState)),
        which=st.integers(0, 20),
    )
    def look_around(self, name: JobId, states: set[RunState], which: int) -> None:
        """Ask for a page of runs and for what another tzdata reckoned."""
        wanted = RunFilter(job_id=name, states=frozenset(states), before=self.some_run(which), limit=2)
        self.ask(lambda store: store.list_runs(wanted))
        self.ask(lambda store: store.last_runs([name, JobId("a")], 2))
        self.ask(lambda store: store.outdated("9999z", 2))

    @rule(
        kind=st.sampled_from(DOCUMENT_KINDS),
        name=st.sampled_from(["p", "p q", "pä", "q"]),
        seen=st.sampled_from([None, 0, 0, 0, 1]),
        kept=st.booleans(),
        after=st.sampled_from(["", "p", "pz"]),
    )
    def edit_a_document(self, kind: str, name: str, seen: int | None, after: str, *, kept: bool) -> None:
        """Put a document, or forget it: as new, from the version that is there, or from an older one; and list them."""
        known = self.ask(lambda store: store.get_document(kind, name))
        version = 0 if known is None else known.version - (seen or 0)
        document = Document(kind=kind, name=name, text=f"of {version}", version=version + 1)
        replaces = None if seen is None else version
        for _ in range(2):
            self.ask(
                lambda store: (
                    store.put_document(document, replaces) if kept else store.delete_document(kind, name, version)
                )
            )
        self.ask(lambda store: store.list_documents(kind, prefix=name[0], after=after, limit=2))

    @rule(queue=st.sampled_from(["x", "y", EVERYTHING]), moment=st.integers(0, 3), lasts=rarely)
    def pause_a_queue(self, queue: str, moment: int, *, lasts: bool) -> None:
        """Pause a queue or everything, see what may be claimed; most pauses end at once."""
        pause = Pause(queue=queue, since=later(moment), by="ann" if moment else None)
        self.ask(lambda store: store.add_pause(pause))
        self.ask(lambda store: store.survey(self.now))
        if not lasts:
            self.ask(lambda store: store.delete_pause(queue))

    @rule(queue=st.sampled_from(["x", "y", EVERYTHING]))
    def resume_a_queue(self, queue: str) -> None:
        """Let it go on."""
        self.ask(lambda store: store.delete_pause(queue))

    @rule(target=Machine.nodes)
    def join(self) -> NodeId:
        """A node joins."""
        return self.register()

    @rule(gone=consumes(Machine.nodes), by=Machine.nodes, leaves=rarely)
    def go(self, gone: NodeId, by: NodeId, *, leaves: bool) -> None:
        """A node leaves, or is declared dead, sometimes by itself; what it does afterwards is refused."""
        beat = next(node.beat for node in self.ask(lambda store: store.list_nodes()) if node.id == gone)
        if leaves:
            self.ask(lambda store: store.leave(gone, self.now))
        else:
            self.ask(lambda store: store.bury(gone, beat, by, self.now))
        self.take(gone, 2)
        self.ask(lambda store: store.tick(Beat(node=gone), self.now))

    @rule(target=Machine.claims, node=Machine.nodes, limit=st.integers(1, 4), again=rarely)
    def claim(self, node: NodeId, limit: int, *, again: bool) -> Any:
        """A node takes work."""
        return multiple(*self.take(node, limit, again=again))

    @rule(target=Machine.repeatable, claimed=Machine.claims, outcome=outcomes, by=Machine.nodes, stranger=rarely)
    def settle(self, claimed: Claimed, outcome: Outcome, by: NodeId, *, stranger: bool) -> Call:
        """Settle something once claimed, twice at once, by its owner or by anybody else."""
        owner = claimed.run.node_id
        assert owner is not None
        output = Output(run_id=claimed.run.id, attempt=claimed.run.attempt, size=2, head=b"ok")
        change = change_of(claimed, outcome, owner=owner, now=self.now, chance=0.5, started=self.now, output=output)
        return self.write([change, change], by if stranger else owner)

    @rule(target=Machine.repeatable, node=Machine.nodes, results=st.lists(outcomes, min_size=2, max_size=4))
    def work(self, node: NodeId, results: list[Outcome]) -> Call:
        """A second passes; a node takes what is ready and settles as much of it in one call."""
        now = self.now = Moment(self.now + SECOND)
        self.ask(lambda store: store.promote(now, ALL))  # as in `fire`
        claimed = sorted(self.take(node, 4), key=lambda each: each.run.id)
        changes = [
            change_of(each, outcome, owner=node, now=self.now, chance=0.5, started=self.now)
            for each, outcome in zip(claimed, results, strict=False)
        ]
        return self.write(changes, node)

    @rule(node=Machine.nodes, claimed=Machine.claims, size=st.integers(0, 3))
    def tick(self, node: NodeId, claimed: Claimed, size: int) -> None:
        """Beat, tell of a process that began, and save what it wrote."""
        began = StartedRun(run_id=claimed.run.id, token=claimed.run.token, pid=9, at=self.now)
        self.ask(lambda store: store.tick(Beat(node=node, started=(began,)), self.now))
        output = Output(run_id=claimed.run.id, attempt=claimed.run.attempt, size=size, tail=b"x" * size)
        self.ask(lambda store: store.save_outputs([output]))
        self.ask(lambda store: store.output(claimed.run.id, claimed.run.attempt))

    @rule(target=Machine.claims, by=Machine.nodes)
    def take_over(self, by: NodeId) -> Any:
        """Settle what dead nodes own."""
        orphans = self.ask(lambda store: store.orphans(2))
        changes = [change_of(each, Lost("dead"), owner=each.run.node_id, now=self.now, chance=0.0) for each in orphans]
        self.ask(lambda store: store.settle(changes, by, self.now))
        return multiple(*orphans)


def machine_for(kind: str) -> type[SameAnswers]:
    """The machine that asks this store."""
    return type(f"SameAnswersOf{kind.title()}", (SameAnswers,), {"kind": kind})


others = pytest.mark.parametrize("kind", [kind for kind in STORES if kind != "memory"])


def compare(kind: str, examples: int, steps: int) -> None:
    """Ask this store and memory the same, in so many conversations."""
    run_state_machine_as_test(machine_for(kind), settings=settings(max_examples=examples, stateful_step_count=steps))


@pytest.mark.timeout(300)  # whatever it finds is made small first
@others
def test_a_store_answers_as_memory_does(kind: str) -> None:
    """Whatever a store is asked, in whatever order, it answers as the memory store does, and the promises hold."""
    compare(kind, 2, 40)


@pytest.mark.prove
@pytest.mark.timeout(1200)
@others
def test_a_store_answers_as_memory_does_for_long(kind: str) -> None:
    """The same, with many more and longer conversations."""
    compare(kind, 40, 60)
