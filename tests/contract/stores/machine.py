"""A machine that asks a store and the memory store the same: how it asks, and what must hold after every step."""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID, uuid4

from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from tests.contract.stores.actors import EVERY_SECOND, NOW, a_job, a_node, later
from tests.contract.stores.conftest import STORES, forget
from tests.contract.stores.lines import check_lines, no_more_than
from tokimori.clock import SECOND
from tokimori.errors import Conflict, TokimoriError
from tokimori.model.dependents import Edge, follows
from tokimori.model.ids import ClaimId, Incarnation, JobId, NodeId, PermitId, RunId
from tokimori.model.job import Job, limit_of
from tokimori.model.run import Run, Skip, child_origin
from tokimori.model.transitions import RunState
from tokimori.ports.nodes import Pulse
from tokimori.ports.semaphores import Grant, InLine, Semaphore, UnitRequest
from tokimori.ports.store import RunFilter, Store
from tokimori.ports.working import Change, Claim, Claimed, Verdict
from tokimori.stores.server_store import ServerStore

NAMES = [JobId(name) for name in ("a", "b", "c")]
DOCUMENT_KINDS = ("k", "k-")
ALL = 10_000
Call = Callable[[Store], Awaitable[object]]


class Machine(RuleBasedStateMachine):
    """Two stores, one memory and one of this kind; ids and moments come from the machine alone."""

    kind: ClassVar[str]
    nodes: Bundle[NodeId] = Bundle("nodes")
    claims: Bundle[Claimed] = Bundle("claims")
    repeatable: Bundle[Call] = Bundle("repeatable")
    programs: Bundle[UnitRequest] = Bundle("programs")

    def open(self) -> None:
        """Open one store of each kind."""
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.stores = [STORES[kind](Path(self.folder.name)) for kind in ("memory", self.kind)]
        self.numbers = count(1)
        self.now = NOW
        self.cursors: dict[Incarnation, int] = {}
        self.wishes: dict[PermitId, UnitRequest] = {}
        self.used: dict[str, int] = {}
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
        """The one answer of both stores; None where it is an error, the same one."""
        first, *others = [comparable(self.runner.run(answer_of(call(store)))) for store in self.stores]
        for other in others:
            assert other == first, (other, first)
        return None if isinstance(first, type) else first

    def ask_repeatable(self, call: Call) -> Call:
        """Ask, and hand the question on so that it is asked again."""
        self.ask(call)
        return call

    def next_id(self) -> str:
        """An id greater than those before."""
        return str(UUID(int=next(self.numbers)))

    def run_ids(self, number: int) -> list[RunId]:
        """Run ids that ascend."""
        return [RunId(self.next_id()) for _ in range(number)]

    def job(self, name: JobId) -> Job | None:
        """The job; None where there is none."""
        found: Job | None = self.ask(lambda store: store.get_job(name))
        return found

    def runs(self) -> list[Run]:
        """All runs."""
        found: list[Run] = self.ask(lambda store: store.list_runs(RunFilter(limit=ALL)))
        return found

    @rule(call=repeatable)
    def repeat(self, call: Call) -> None:
        """Ask again what was asked before, however long ago."""
        self.ask(call)

    @invariant()
    def hold_the_same(self) -> None:
        """After every step the stores hold the same, and the ledger is the schedule."""
        if hasattr(self, "stores"):
            runs, _, books, *_, nodes, semaphores = self.ask(self.contents)
            twice = [key for key, n in Counter((run.incarnation, run.origin) for run in runs).items() if n > 1]
            assert not twice, "two runs of one origin"
            for due, skips in books:
                self.check_ledger(due.job, runs, skips)
            alive = [node.id for node in nodes if node.left is None]
            check_lines([due.job for due, _ in books], runs, semaphores, alive, self.waiting(semaphores, alive))
            self.used = no_more_than(self.used, semaphores)

    async def contents(self, store: Store) -> object:
        """What a store holds, as far as people and nodes can see it."""
        runs = await store.list_runs(RunFilter(limit=ALL))
        books = [(await store.get_due(job.id), await store.skips(job.id, limit=ALL)) for job in await store.list_jobs()]
        return [
            runs,
            [await store.attempts(run.id) for run in runs[:20] if run.attempt],
            books,
            await store.survey(self.now),
            await store.family(),
            await store.list_jobs(idle=True),
            [await store.list_documents(kind) for kind in DOCUMENT_KINDS],
            await store.list_pauses(),
            await store.list_nodes(),
            [
                each
                for each in await store.list_semaphores()
                if each != Semaphore(name=each.name, limit=1, used=0, waiting=0)
            ],
        ]

    def add(self, jobs: Sequence[JobId], terms: dict[str, Any]) -> None:
        """Add jobs of these ids, if they are free; asked again at once they are there already.

        Not later: who repeats it after somebody deleted the job begins the same incarnation anew.
        """
        upcoming = later(1) if "schedule" in terms else None
        new = [replace(a_job(name, next_due=upcoming, **terms), incarnation=self.incarnation()) for name in jobs]
        family = self.ask(lambda store: store.family()).version
        for _ in range(2):
            self.ask(lambda store: store.add_jobs(new, family))

    def incarnation(self) -> Incarnation:
        """One that no job has had."""
        return Incarnation(next(self.numbers))

    def register(self) -> NodeId:
        """Another node."""
        node = a_node(id=NodeId(self.next_id()))
        self.ask(lambda store: store.register(node))
        return node.id

    def take(self, node: NodeId, limit: int, *, again: bool = False) -> list[Claimed]:
        """Claim from all lanes, perhaps asking twice."""
        lanes = self.ask(lambda store: store.survey(self.now)).lanes
        claim = Claim(id=ClaimId(self.next_id()), node=node, lanes=lanes, limit=limit)
        rest = dict[Store, list[Claimed]]()

        async def whole(store: Store) -> list[Claimed]:
            some = await store.claim(claim, self.now) if store in rest else await self.begin_claim(store, claim, rest)
            return some + rest[store]

        claimed: list[Claimed] = self.ask(whole)
        if again:
            assert self.ask(whole) == claimed or claimed == []
        alive = {each.id for each in self.ask(lambda store: store.list_nodes()) if each.left is None}
        assert node in alive or not claimed, "a dead node was given work"
        self.check_limits(claimed)
        return claimed

    async def begin_claim(self, store: Store, claim: Claim, rest: dict[Store, list[Claimed]]) -> list[Claimed]:
        """What a claim is given. The rest is what others get that go on: on a busy machine its 50 ms may be over."""
        rest[store] = []
        if not isinstance(store, ServerStore):
            return await store.claim(claim, self.now)
        some, has_rest = await store._claim(claim, self.now)
        while has_rest and (left := claim.limit - len(some) - len(rest[store])):
            following = ClaimId(str(uuid4()))
            more, has_rest = await store._claim(replace(claim, id=following, limit=left), self.now)
            rest[store] += more
        return some

    def write(self, changes: Sequence[Change], by: NodeId) -> Call:
        """Settle, and look for the children of what ended."""
        now, edges = self.now, self.ask(lambda store: store.family()).edges

        def call(store: Store) -> Any:
            return store.settle(changes, by, now)

        verdicts = self.ask(call)
        for change, verdict in zip(changes, verdicts, strict=True):
            if verdict is Verdict.APPLIED:
                self.check_children(self.ask(lambda store, id=change.run_id: store.get_run(id)), edges)  # type: ignore[misc]
        return call

    def ask_for(self, wish: UnitRequest) -> None:
        """A program asks; who is first and fits is granted."""
        answer = self.ask(lambda store: store.acquire(wish, self.now))
        if isinstance(answer, Grant | InLine):
            self.wishes[wish.id] = wish
        if answer == InLine(ahead=0):
            semaphore = self.ask(lambda store: store.get_semaphore(wish.semaphore))
            assert semaphore.used + wish.weight > semaphore.limit, "a program waits though there are units"

    def waiting(self, semaphores: Iterable[Semaphore], alive: Iterable[NodeId]) -> list[UnitRequest]:
        """What programs asked for and neither hold nor gave up."""
        held = {permit.id for semaphore in semaphores for permit in semaphore.holders}
        return [wish for wish in self.wishes.values() if wish.id not in held and wish.node in set(alive)]

    def check_ledger(self, job: Job, runs: Sequence[Run], skips: Sequence[Skip]) -> None:
        """Every second up to the job's cursor is one run or in one range of skips, and the cursor never goes back."""
        assert job.fired_through >= self.cursors.get(job.incarnation, 0)
        self.cursors[job.incarnation] = job.fired_through
        if job.definition.schedule == EVERY_SECOND:
            skipped = [moment for skip in skips for moment in range(skip.first, skip.last + 1, SECOND)]
            assert len(skipped) == sum(skip.count for skip in skips)
            fired = [run.nominal for run in runs if run.incarnation == job.incarnation and run.origin.startswith("s:")]
            assert sorted(fired + skipped) == list(range(NOW + SECOND, job.fired_through + 1, SECOND))

    def check_limits(self, claimed: Iterable[Claimed]) -> None:
        """No job of which something was just claimed runs more than it may."""
        running = Counter(run.incarnation for run in self.runs() if run.state is RunState.RUNNING)
        for each in claimed:
            assert each.definition is not None, "a run of no job was claimed"
            limit = limit_of(each.definition)
            assert not limit or running[each.run.incarnation] <= limit

    def check_children(self, parent: Run, edges: Iterable[Edge]) -> None:
        """What just ended has a run, or a skip, of each child that asks for this end and waits for no other parent."""
        origins = {(run.job_id, run.origin) for run in self.runs()}
        for edge in edges:
            child = self.job(edge.child)
            if edge.parent != parent.job_id or edge.joins or child is None or not follows(edge.on, parent.state):
                continue
            skips = self.ask(lambda store, name=edge.child: store.skips(name, limit=ALL))  # type: ignore[misc]
            assert (edge.child, child_origin(parent.id)) in origins or skips


async def answer_of(answer: Awaitable[object]) -> object:
    """What a store answers; an error is an answer."""
    try:
        return await answer
    except TokimoriError as error:
        return error


async def _nothing() -> None:
    return None


def no_call(_store: Store) -> Awaitable[object]:
    """A call that asks nothing."""
    return _nothing()


def comparable(answer: object) -> object:
    """An answer without what no store promises: order within a tick, its clock, the wording of an error."""
    match answer:
        case Pulse():
            return replace(answer, now=NOW, cancels=tuple(sorted(answer.cancels)), peers=tuple(sorted(answer.peers)))
        case Conflict():
            return Conflict
        case TokimoriError():
            return type(answer)
        case _:
            return answer
