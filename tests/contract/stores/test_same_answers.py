"""Every store gives the answers that the memory store gives, whatever it is asked and in whatever order."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule
from msgspec.structs import replace

from tests.contract.stores.actors import EVERY_SECOND, NOW, a_job, a_node, a_request, later
from tests.contract.stores.conftest import STORES, forget
from tokimori.engine.settle import change_of
from tokimori.errors import TokimoriError
from tokimori.model.decide import Plan, decide
from tokimori.model.ids import ClaimId, JobId, NodeId, RunId
from tokimori.model.job import Job, JobState, schedule_of
from tokimori.model.outcome import Failed, Hold, Lost, Outcome, Released, RetryAt, Succeeded
from tokimori.model.policies import Misfire, Overlap, Retry
from tokimori.model.run import Output, Skip, SkipReason
from tokimori.ports.store import Beat, Claim, Claimed, Pulse, RunFilter, StartedRun, Store

NAMES = [JobId(name) for name in ("a", "b", "c")]
names = st.sampled_from(NAMES)
limits = st.sampled_from([None, 0, 1, 2])
outcomes: st.SearchStrategy[Outcome] = st.sampled_from(
    [Succeeded(0), Failed("broken", exit_code=1), RetryAt(later(2)), Hold("look"), Released("later"), Lost("dead")]
)
Call = Callable[[Store], Awaitable[object]]


class SameAnswers(RuleBasedStateMachine):
    """Asks a store and the memory store the same, with ids and moments that come from the machine alone."""

    kind: ClassVar[str]
    nodes: Bundle[NodeId] = Bundle("nodes")
    claims: Bundle[Claimed] = Bundle("claims")
    repeatable: Bundle[Call] = Bundle("repeatable")

    @initialize()
    def open(self) -> None:
        """Open one store of each kind."""
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.stores = [STORES[kind](Path(self.folder.name)) for kind in ("memory", self.kind)]
        self.numbers = count(1)
        self.now = NOW
        for store in self.stores:
            self.runner.run(store.open())
            self.runner.run(store.migrate())

    def teardown(self) -> None:
        """Close them."""
        for store in self.stores:
            self.runner.run(store.close())
        self.runner.close()
        forget(self.kind, Path(self.folder.name))
        self.folder.cleanup()

    def ask(self, call: Call) -> Any:
        """The one answer of all stores; None where it is an error, the same one."""
        answers = [self.runner.run(answer_of(call, store)) for store in self.stores]
        assert all(comparable(answer) == comparable(answers[0]) for answer in answers)
        return None if isinstance(answers[0], TokimoriError) else answers[0]

    def run_id(self) -> RunId:
        """Run ids that ascend."""
        return RunId(str(UUID(int=next(self.numbers))))

    @rule(seconds=st.integers(0, 3))
    def pass_time(self, seconds: int) -> None:
        """Time goes on."""
        self.now = type(self.now)(self.now + seconds * 1_000_000)

    @rule(
        name=names,
        scheduled=st.booleans(),
        limit=limits,
        overlap=st.sampled_from(Overlap),
        misfire=st.sampled_from(Misfire),
        queue=st.sampled_from(["x", "y"]),
    )
    def add_job(
        self, name: JobId, *, scheduled: bool, limit: int | None, overlap: Overlap, misfire: Misfire, queue: str
    ) -> None:
        """Add a job, if its id is free."""
        terms: dict[str, object] = {"max_running": limit, "queue": queue, "retry": Retry(attempts=2), "late_after": 2}
        if scheduled:
            terms |= {"schedule": EVERY_SECOND, "on_overlap": overlap, "misfire": misfire}
        job = a_job(name, next_due=later(1) if scheduled else None, **terms)
        job = replace(job, incarnation=next(self.numbers))
        self.ask(lambda store: store.add_jobs([job]))

    @rule(target=repeatable, name=names, state=st.sampled_from(JobState), limit=limits)
    def edit(self, name: JobId, state: JobState, limit: int | None) -> Call:
        """Change a job's state and limit, from what the memory store says it is."""
        old: Job | None = self.ask(lambda store: store.get_job(name))
        if old is None:
            return no_call
        definition = replace(old.definition, max_running=limit)
        new = replace(old, definition=definition, state=state, version=old.version + 1)
        skips = [Skip(first=self.now, last=self.now, count=1, reason=SkipReason.PAUSED)]

        def call(store: Store) -> Awaitable[object]:
            return store.replace_job(old, new, skips)

        self.ask(call)
        return call

    @rule(name=names)
    def delete(self, name: JobId) -> None:
        """Delete a job, if there is one."""
        self.ask(lambda store: store.delete_job(name, self.now))

    @rule(target=repeatable, name=names, key=st.sampled_from("kl"), wait=st.integers(0, 2))
    def request(self, name: JobId, key: str, wait: int) -> Call:
        """Request a run under a key that may be taken."""
        job: Job | None = self.ask(lambda store: store.get_job(name))
        if job is None:
            return no_call
        due = type(self.now)(self.now + wait * 1_000_000)
        run = replace(a_request(job, key, due=due), id=self.run_id())

        def call(store: Store) -> Awaitable[object]:
            return store.add_run(run, self.now)

        self.ask(call)
        return call

    @rule(target=repeatable, limit=st.integers(1, 3))
    def plan(self, limit: int) -> Call:
        """Decide what is due."""
        dues = self.ask(lambda store: store.due(self.now, limit))
        plans: list[tuple[Plan, Sequence[RunId]]] = []
        for due in dues:
            plan = decide(due, schedule_of(due.job.definition, due.job.anchor, due.job.id), self.now)
            plans.append((plan, [self.run_id() for _ in plan.runs]))

        def call(store: Store) -> Awaitable[object]:
            return store.apply(plans, self.now)

        self.ask(call)
        return call

    @rule(limit=st.integers(1, 3))
    def promote(self, limit: int) -> None:
        """Make waiting runs ready."""
        self.ask(lambda store: store.promote(self.now, limit))

    @rule(target=nodes)
    def register(self) -> NodeId:
        """A node joins."""
        node = a_node(id=NodeId(str(UUID(int=next(self.numbers)))))
        self.ask(lambda store: store.register(node))
        return node.id

    @rule(target=claims, node=nodes, limit=st.integers(1, 4), again=st.booleans())
    def claim(self, node: NodeId, limit: int, *, again: bool) -> Any:
        """Claim from all lanes, perhaps asking twice."""
        lanes = self.ask(lambda store: store.survey(self.now)).lanes
        claim = Claim(id=ClaimId(str(UUID(int=next(self.numbers)))), node=node, lanes=lanes, limit=limit)
        claimed = self.ask(lambda store: store.claim(claim, self.now))
        if again:
            assert self.ask(lambda store: store.claim(claim, self.now)) == claimed or claimed == []
        return multiple(*claimed)

    @rule(target=repeatable, claimed=claims, outcome=outcomes, by=nodes, own=st.booleans())
    def settle(self, claimed: Claimed, outcome: Outcome, by: NodeId, *, own: bool) -> Call:
        """Settle something once claimed, by its owner or by anybody else."""
        owner = claimed.run.node_id
        assert owner is not None
        output = Output(run_id=claimed.run.id, attempt=claimed.run.attempt, size=2, head=b"ok")
        change = change_of(claimed, outcome, owner=owner, now=self.now, chance=0.5, started=self.now, output=output)

        def call(store: Store) -> Awaitable[object]:
            return store.settle([change, change], owner if own else by, self.now)

        self.ask(call)
        return call

    @rule(claimed=claims, size=st.integers(0, 3))
    def save_output(self, claimed: Claimed, size: int) -> None:
        """Save some output of something once claimed."""
        output = Output(run_id=claimed.run.id, attempt=claimed.run.attempt, size=size, tail=b"x" * size)
        self.ask(lambda store: store.save_outputs([output]))
        self.ask(lambda store: store.output(claimed.run.id, claimed.run.attempt))

    @rule(claimed=claims)
    def cancel(self, claimed: Claimed) -> None:
        """Cancel something once claimed, wherever it stands."""
        self.ask(lambda store: store.cancel_run(claimed.run.id, "enough", self.now))

    @rule(node=nodes, claimed=claims)
    def tick(self, node: NodeId, claimed: Claimed) -> None:
        """Beat, and tell of a process that began."""
        began = StartedRun(run_id=claimed.run.id, token=claimed.run.token, pid=9, at=self.now)
        self.ask(lambda store: store.tick(Beat(node=node, started=(began,)), self.now))

    @rule(dead=consumes(nodes), by=nodes)
    def bury(self, dead: NodeId, by: NodeId) -> None:
        """A node is declared dead; sometimes by itself."""
        beat = next(node.beat for node in self.ask(lambda store: store.list_nodes()) if node.id == dead)
        self.ask(lambda store: store.bury(dead, beat, by, self.now))

    @rule(node=nodes)
    def leave(self, node: NodeId) -> None:
        """A node goes."""
        self.ask(lambda store: store.leave(node, self.now))

    @rule(target=claims, by=nodes)
    def take_over(self, by: NodeId) -> Any:
        """Settle what dead nodes own."""
        orphans = self.ask(lambda store: store.orphans(2))
        changes = [change_of(each, Lost("dead"), owner=each.run.node_id, now=self.now, chance=0.0) for each in orphans]
        self.ask(lambda store: store.settle(changes, by, self.now))
        return multiple(*orphans)

    @rule(call=repeatable)
    def repeat(self, call: Call) -> None:
        """Call again what was called before, however long ago."""
        self.ask(call)

    @invariant()
    def hold_the_same(self) -> None:
        """After every step the stores hold the same."""
        if not hasattr(self, "stores"):
            return
        runs = self.ask(lambda store: store.list_runs(RunFilter(limit=10_000)))
        self.ask(lambda store: store.list_nodes())
        self.ask(lambda store: store.survey(self.now))
        for name in NAMES:
            self.ask(lambda store, name=name: store.get_due(name))  # type: ignore[misc]
            self.ask(lambda store, name=name: store.skips(name))  # type: ignore[misc]
        for run in runs[:20]:
            self.ask(lambda store, run=run: store.attempts(run.id))  # type: ignore[misc]


async def answer_of(call: Call, store: Store) -> object:
    """What a store answers; an error is an answer."""
    try:
        return await call(store)
    except TokimoriError as error:
        return error


async def _nothing() -> None:
    return None


def no_call(_store: Store) -> Awaitable[object]:
    """A call that asks nothing."""
    return _nothing()


def comparable(answer: object) -> object:
    """An answer without what no store promises: order within a tick, its clock, the wording of a name."""
    match answer:
        case Pulse():
            return replace(answer, now=NOW, cancels=tuple(sorted(answer.cancels)), peers=tuple(sorted(answer.peers)))
        case TokimoriError():
            return type(answer)
        case _:
            return answer


class SqliteAnswers(SameAnswers):
    """SQLite answers as memory does."""

    kind = "sqlite"


class PostgresAnswers(SameAnswers):
    """PostgreSQL answers as memory does."""

    kind = "postgres"


class RedisAnswers(SameAnswers):
    """Redis answers as memory does."""

    kind = "redis"


class MariadbAnswers(SameAnswers):
    """MariaDB answers as memory does."""

    kind = "mariadb"


TestSqlite = SqliteAnswers.TestCase
TestSqlite.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestPostgres = PostgresAnswers.TestCase
TestPostgres.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
TestRedis = RedisAnswers.TestCase
TestRedis.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
TestMariadb = MariadbAnswers.TestCase
TestMariadb.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
