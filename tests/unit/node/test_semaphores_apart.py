"""Nodes whose semaphores are in another store: two memory stores, and one loop on which nobody waits."""

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any

import pytest

from tests.simulation.virtual_time import LoopClock, let_pass, run_virtually
from tests.unit.virtual import Link
from tokimori.clock import Moment
from tokimori.engine.work import task_of
from tokimori.errors import InvalidInput
from tokimori.locks.holdings import Wanted
from tokimori.locks.membership import Program
from tokimori.locks.session import Session
from tokimori.model.ids import ClaimId, NodeId, PermitId, RunId, Token
from tokimori.model.lanes import APART_LABEL
from tokimori.model.lease import LEASE, LEASE_KILL
from tokimori.model.outcome import Outcome, Released, Succeeded
from tokimori.model.run import Run
from tokimori.model.semaphores import wanted
from tokimori.model.transitions import RunState
from tokimori.node.membership import Identity
from tokimori.node.node import Node
from tokimori.node.semaphores_apart import ApartExecutor, ApartSource
from tokimori.node.stopping import Stopping
from tokimori.node.units import Stock
from tokimori.ports.executor import AttemptTask, Ended, Executor, Report, Started, StopReason
from tokimori.ports.semaphores import UnitRequest
from tokimori.ports.store import RunFilter
from tokimori.ports.working import Claim
from tokimori.service.reasons import waits_for
from tokimori.service.schema import StoreOnDemand
from tokimori.service.service import service_on
from tokimori.stores.memory.store import MemoryStore

TAKE_OVER = 12.0
"""Seconds within which a dead node's units are somebody else's: its death, and the next question of who waits."""


class Napping:
    """An executor whose attempts take their time; it counts what they hold, by what their job says."""

    def __init__(self, world: "World", clock: LoopClock) -> None:
        self._world = world
        self._clock = clock
        self._report: Callable[[Report], None] = print
        self.running: dict[tuple[RunId, Token], AttemptTask] = {}
        self.stops: list[tuple[RunId, StopReason, float]] = []
        self.renewed: list[float] = []
        self.dead = False

    async def open(self, report: Callable[[Report], None]) -> None:
        """See `Executor.open`."""
        self._report = report

    def start(self, tasks: Sequence[AttemptTask]) -> None:
        """See `Executor.start`."""
        loop = asyncio.get_running_loop()
        for task in tasks:
            key = task.run_id, task.token
            self.running[key] = task
            self._world.began(task)
            self._report(Started(run_id=task.run_id, token=task.token, pid=42, at=self._clock.now()))
            loop.call_later(self._world.naps.get(task.job_id, 0.2), self.end, key, Succeeded(0))

    def end(self, key: tuple[RunId, Token], outcome: Outcome) -> None:
        """The attempt ends, unless it has."""
        task = self.running.pop(key, None)
        if task is not None:
            self._world.ended(task)
            if not self.dead:
                now = self._clock.now()
                self._report(Ended(run_id=key[0], token=key[1], outcome=outcome, at=now, started=now, pid=42))

    def stop(self, run_id: RunId, token: Token, reason: StopReason, *, grace: float | None = None) -> None:
        """See `Executor.stop`: it takes as long as it may."""
        self.stops.append((run_id, reason, self._clock.monotonic()))
        asyncio.get_running_loop().call_later(grace or 0, self.end, (run_id, token), Released("stopped"))

    def die(self) -> None:
        """As the keeper does when its node is gone: everything ends, and nobody is told."""
        self.dead = True
        for key in list(self.running):
            self.end(key, Released("killed"))

    def renew(self, sent: float) -> None:
        """See `Executor.renew`."""
        self.renewed.append(sent)

    def forget(self, before: Moment) -> None:
        """See `Executor.forget`."""

    async def close(self) -> None:
        """See `Executor.close`."""


class Member:
    """A node with its ways to both stores."""

    def __init__(self, world: "World", *, apart: bool = True, concurrency: int = 8, deaf: bool = False) -> None:
        clock = LoopClock()
        self.jobs, self.semaphores = Link(world.jobs), Link(world.semaphores)
        if deaf:  # as stores are that tell of what others did alone
            setattr(self.semaphores, "watch", lambda _wake: None)  # noqa: B010  it hides what __getattr__ finds
        self.heard: list[Report] = []
        self.executor = Napping(world, clock)
        on_demand = StoreOnDemand(self.semaphores.store)
        service = service_on(self.jobs.store, clock, os.urandom, semaphore_store=on_demand)
        program = Program(host="h", boot_id="b", pid=1, version="0")
        stopping = Stopping(clock, 30.0)
        stock = Stock(
            self.executor,
            lambda renewed: Session(
                on_demand.store, clock, os.urandom, program, renewed=renewed, prepare=on_demand.opened, rests=False
            ),
            clock=clock,
            random=os.urandom,
            claims=lambda: stopping.working,
        )
        self.source = ApartSource(self.jobs.store, stock, os.urandom, service.jobs.refresh)
        self.apart = ApartExecutor(self.executor, stock, clock)
        labels = {APART_LABEL: "yes"} if apart else {}
        identity = Identity(host="h", boot_id="b", pid=1, version="0", concurrency=concurrency, labels=labels)
        self._opened: Executor = self.apart if apart else self.executor
        source = self.source if apart else None
        self.node = Node(self.jobs.store, self._opened, clock, os.urandom, identity, source=source, stopping=stopping)
        self._running: asyncio.Task[None] | None = None

    async def join(self) -> None:
        """Take part from now on."""
        await self._opened.open(self.node.receive)
        await self.node.start()
        self._running = asyncio.get_running_loop().create_task(self.node.run())

    async def claim(self, world: "World") -> list[AttemptTask]:
        """Without the node's loop: claim what there is, as tasks."""
        lanes = (await self.source.survey(world.clock.now())).lanes
        claim = Claim(id=ClaimId(os.urandom(16).hex()), node=self.node.id, lanes=lanes, limit=8)
        claimed = await self.source.claim(claim, world.clock.now()) or ()
        return [task for task in map(task_of, claimed) if task is not None]

    async def stand_by(self) -> None:
        """Take part without the node's loop."""
        await self.node._membership.register()
        await self.apart.open(self.heard.append)

    async def die(self) -> None:
        """As by `kill -9`: from now on it says nothing to anybody."""
        self.jobs.away = self.semaphores.away = True
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError):
                await self._running
        self.executor.die()


class World:
    """Two stores, with the door through which jobs come; and what is held by whatever runs."""

    def __init__(self) -> None:
        self.clock = LoopClock()
        self.jobs, self.semaphores = MemoryStore(self.clock), MemoryStore(self.clock)
        self.service = service_on(self.jobs, self.clock, os.urandom, semaphore_store=StoreOnDemand(self.semaphores))
        self.naps: dict[str, float] = {}
        self.held: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.order: list[RunId] = []
        self._weights: dict[str, tuple[tuple[str, int], ...]] = {}

    async def add(self, name: str, *semaphores: str, nap: float = 0.2, **terms: Any) -> None:
        """A job on demand."""
        self.naps[name] = nap
        self._weights[name] = wanted(semaphores)
        await self.service.jobs.add(name, noop=True, semaphores=semaphores, **terms)

    async def trigger(self, name: str, n: int = 1) -> list[RunId]:
        """So many runs, in the order in which they are claimed."""
        runs = []
        for _ in range(n):
            runs.append((await self.service.jobs.trigger(name)).id)
            await let_pass(0.001)
        return runs

    async def join(self, *, apart: bool = True, concurrency: int = 8, deaf: bool = False) -> Member:
        """A new node."""
        member = Member(self, apart=apart, concurrency=concurrency, deaf=deaf)
        await member.join()
        return member

    async def stand_by(self) -> Member:
        """A new node whose loop is the test."""
        member = Member(self)
        await member.stand_by()
        return member

    async def hold(self, name: str) -> Session:
        """A program that holds it."""
        program = Program(host="h", boot_id="b", pid=2, version="0")
        session = Session(self.semaphores, self.clock, os.urandom, program)
        await session.acquire(Wanted(name=name), "ada")
        return session

    def began(self, task: AttemptTask) -> None:
        """An attempt holds what its job says."""
        self.order.append(task.run_id)
        self.held.update(dict(self._weights[task.job_id]))
        self.most |= self.held

    def ended(self, task: AttemptTask) -> None:
        """And now it does not any more."""
        self.held.subtract(dict(self._weights[task.job_id]))

    async def runs(self) -> list[Run]:
        """All runs, oldest first."""
        return (await self.jobs.list_runs(RunFilter(limit=10**6)))[::-1]

    async def states(self, name: str) -> Counter[RunState]:
        """How many runs of the job are in which state."""
        return Counter(run.state for run in await self.runs() if run.job_id == name)

    async def used(self) -> dict[str, int]:
        """How many units of each semaphore are held, where they are."""
        return {each.name: each.used for each in await self.semaphores.list_semaphores()}


def virtually(test: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
    """Run the test on a loop of its own, on which nobody waits."""

    @wraps(test)
    def run() -> None:
        async def main() -> None:
            world = World()
            await world.jobs.open()
            await world.jobs.migrate()
            await test(world)

        run_virtually(main())

    del run.__wrapped__  # pytest would take its parameters for fixtures
    return run


@virtually
async def test_limits_hold_in_the_other_store(world: World) -> None:
    """Three nodes run jobs that share units: never more than there are, everything ends, and nothing is left behind."""
    await world.service.semaphores.set("api", 3)
    await world.add("a", "table")
    await world.add("b", "table", "api")
    await world.add("heavy", "api:2")
    await world.add("light", "api")
    for _ in range(3):
        await world.join()
    for name in ("a", "b", "heavy", "light"):
        await world.trigger(name, 10)
    await let_pass(30)
    for name in ("a", "b", "heavy", "light"):
        assert await world.states(name) == {RunState.SUCCEEDED: 10}
    assert world.most == {"table": 1, "api": 3}
    assert await world.used() == {"table": 0, "api": 0}
    assert await world.jobs.list_semaphores() == []


@virtually
async def test_a_lane_is_served_in_order(world: World) -> None:
    """Runs that wait for one mutex start in the order of rank and id, whatever nodes there are."""
    await world.add("a", "table")
    for _ in range(2):
        await world.join()
    ids = await world.trigger("a", 12)
    await let_pass(30)
    assert world.order == ids


@virtually
async def test_a_run_that_is_refused_is_passed_by(world: World) -> None:
    """Those before it, behind it and of other lanes are carried out, and it too once the store gives it out."""
    await world.add("a", "table")
    await world.add("b", "chair")
    ids = await world.trigger("b", 4)
    member = await world.join()

    def refuses(name: str, asked: Any) -> bool:
        return name == "claim" and any(bad in _firsts(world, asked) for bad in (ids[0], ids[2]))

    member.jobs.refuses = refuses
    ids += await world.trigger("a", 3)
    await let_pass(50)
    asked = member.jobs.calls["claim"]
    await let_pass(30)
    assert await world.states("a") == {RunState.SUCCEEDED: 3}
    assert await world.states("b") == {RunState.SUCCEEDED: 2, RunState.READY: 2}
    assert member.jobs.calls["claim"] - asked < 90
    member.jobs.refuses = lambda _name, _asked: False
    await let_pass(70)
    assert await world.states("b") == {RunState.SUCCEEDED: 4}
    assert set(world.order) == set(ids)
    assert await world.used() == {"table": 0, "chair": 0}


def _firsts(world: World, claim: Claim) -> list[RunId]:
    """Which runs this claim would take."""
    live = [row.run for row in world.jobs._tables.live.values()]
    ready = [run for run in live if run.state is RunState.READY and run.lane in claim.lanes]
    return [run.id for run in sorted(ready, key=lambda run: (run.rank, run.id))][claim.skip :][: claim.limit]


@virtually
async def test_a_mutex_is_handed_on_without_a_pause(world: World) -> None:
    """Between the end of a run and the start of the next nobody waits for a poll."""
    await world.add("a", "table", nap=0.1)
    await world.join(deaf=True)
    await world.trigger("a", 50)
    await let_pass(50 * 0.1 + 3)
    assert await world.states("a") == {RunState.SUCCEEDED: 50}


@virtually
async def test_runs_and_programs_share_the_units(world: World) -> None:
    """A run waits while a program holds the mutex, starts soon after it is given back, and then the program waits."""
    await world.add("a", "table", nap=2)
    session = await world.hold("table")
    await world.join()
    await world.trigger("a")
    await let_pass(5)
    assert world.order == []
    (waiting,) = await world.runs()
    assert waits_for(waiting) == "units of the semaphores in another store: table"
    await session.release("ada", "table")
    await let_pass(1)
    assert len(world.order) == 1
    began = asyncio.get_running_loop().time()
    await session.acquire(Wanted(name="table"), "ada")
    assert 0.5 < asyncio.get_running_loop().time() - began < 2.5
    assert world.held["table"] == 0
    await session.close()


@virtually
async def test_a_dead_nodes_units_come_back(world: World) -> None:
    """A node that dies with units in its hands is followed by another one, which runs the same run again."""
    await world.add("a", "table", nap=60)
    first = await world.join()
    await world.trigger("a")
    await let_pass(1)
    second = await world.join()
    await let_pass(3)
    await first.die()
    await let_pass(TAKE_OVER)
    assert len(second.executor.running) == 1
    assert world.most == {"table": 1}


@virtually
async def test_where_the_other_store_is_away_all_else_goes_on(world: World) -> None:
    """Runs that want units wait, and say so; others run; when it is back, those run too."""
    await world.add("a", "table")
    await world.add("free")
    member = await world.join()
    member.semaphores.away = True
    await world.trigger("a", 2)
    await world.trigger("free", 2)
    await let_pass(10)
    assert await world.states("free") == {RunState.SUCCEEDED: 2}
    assert await world.states("a") == {RunState.READY: 2}
    member.semaphores.away = False
    await let_pass(10)
    assert await world.states("a") == {RunState.SUCCEEDED: 2}


@virtually
async def test_who_loses_the_other_store_ends_what_holds_its_units(world: World) -> None:
    """Before others may have the units the run has ended, unpenalised; a run with a limit alone goes on."""
    await world.add("a", "table", nap=20)
    await world.add("limited", nap=20, max_running=1)
    member = await world.join()
    (run_id,) = await world.trigger("a")
    await world.trigger("limited")
    await let_pass(3)
    lost = asyncio.get_running_loop().time()
    member.semaphores.away = True
    await let_pass(LEASE_KILL)
    ((stopped, reason, at),) = member.executor.stops
    assert (stopped, reason) == (run_id, StopReason.RELEASE)
    assert at - 1000 < lost + LEASE
    assert world.held["table"] == 0
    member.semaphores.away = False
    await let_pass(40)
    (run,) = [run for run in await world.runs() if run.id == run_id]
    assert (run.state, run.failures, run.lost) == (RunState.SUCCEEDED, 0, 0)
    assert await world.states("limited") == {RunState.SUCCEEDED: 1}
    assert [stop[0] for stop in member.executor.stops] == [run_id]
    assert world.most == {"table": 1}
    assert await world.used() == {"table": 0}


@virtually
async def test_the_keeper_knows_the_older_lease(world: World) -> None:
    """While a run holds units its node's executor is never given a lease beyond the one in the other store."""
    await world.add("a", "table", nap=4)
    member = await world.join()
    await let_pass(3)
    await world.trigger("a")
    await let_pass(1)
    member.semaphores.away = True
    away = world.clock.monotonic()
    await let_pass(2)
    assert max(member.executor.renewed) <= away
    await let_pass(4)
    assert member.executor.renewed[-1] > away + 4


@virtually
async def test_a_full_node_keeps_no_units(world: World) -> None:
    """A node that has no place for a run leaves the units to one that has."""
    await world.add("a", "table", nap=0.1)
    await world.add("long", nap=100)
    full = await world.join(concurrency=1)
    await world.trigger("long")
    await let_pass(1)
    assert len(full.executor.running) == 1
    await world.trigger("a", 5)
    await let_pass(3)
    assert await world.used() in ({}, {"table": 0})
    await world.join()
    await let_pass(5)
    assert await world.states("a") == {RunState.SUCCEEDED: 5}


@virtually
async def test_a_weight_above_the_limit_is_refused(world: World) -> None:
    """The limit that counts is the one in the other store."""
    await world.jobs.put_semaphore("api", 9, world.clock.now())
    with pytest.raises(InvalidInput, match="'api' has a limit of 1"):
        await world.add("a", "api:2")


@virtually
async def test_more_names_than_a_lane_holds_are_refused(world: World) -> None:
    """By the field; where semaphores are with their job there is no such bound."""
    names = [f"{number:0120}" for number in range(20)]
    with pytest.raises(InvalidInput, match="too long") as refused:
        await world.add("a", *names)
    assert refused.value.field == "semaphores"
    assert await service_on(world.jobs, world.clock, os.urandom).jobs.add("a", noop=True, semaphores=names)


@virtually
async def test_a_job_of_before_moves(world: World) -> None:
    """Runs of a job that was added when its semaphores were with it run once its definition says where they are now."""
    await world.add("a", "table")
    before = service_on(world.jobs, world.clock, os.urandom)
    await before.jobs.update("a", priority=1)
    assert not (await before.jobs.get("a")).definition.apart
    await world.trigger("a", 3)
    await world.join()
    await let_pass(10)
    assert await world.states("a") == {RunState.SUCCEEDED: 3}
    assert (await before.jobs.get("a")).definition.apart
    assert world.most == {"table": 1}
    assert await world.used() == {"table": 0}


@virtually
async def test_a_node_without_the_other_store_leaves_such_runs_alone(world: World) -> None:
    """It does not know their units; others it runs."""
    await world.add("a", "table")
    await world.add("free")
    await world.join(apart=False)
    await world.trigger("a")
    await world.trigger("free")
    await let_pass(5)
    assert await world.states("a") == {RunState.READY: 1}
    assert await world.states("free") == {RunState.SUCCEEDED: 1}


@virtually
async def test_a_lost_reply_to_a_claim_keeps_no_units(world: World) -> None:
    """The run is handed back, its units too, and then it runs."""
    await world.add("a", "table")
    member = await world.join()
    member.jobs.lose_reply["claim"] = 1
    await world.trigger("a", 2)
    await let_pass(10)
    assert await world.states("a") == {RunState.SUCCEEDED: 2}
    assert await world.used() == {"table": 0}


@virtually
async def test_a_node_that_was_declared_dead_gives_its_units_back(world: World) -> None:
    """What it ran is ended, and others hold the units only then."""
    await world.add("a", "table", nap=3)
    first, second = await world.join(), await world.join()
    await world.trigger("a", 2)
    await let_pass(1)
    cut = first if first.executor.running else second
    cut.jobs.away = True
    await let_pass(12)
    cut.jobs.away = False
    await let_pass(30)
    assert await world.states("a") == {RunState.SUCCEEDED: 2}
    assert world.most == {"table": 1}
    assert await world.used() == {"table": 0}


@virtually
async def test_a_node_that_says_its_labels_anew_keeps_its_units(world: World) -> None:
    """What it has claimed and not begun begins with them, and nothing else does meanwhile."""
    await world.add("a", "table", nap=1)
    member = await world.stand_by()
    await world.trigger("a", 2)
    while not (tasks := await member.claim(world)):
        await let_pass(0.1)
    await member.node._membership.register()
    await let_pass(1)
    member.apart.start([*tasks, *await member.claim(world)])
    await let_pass(0.5)
    assert world.held == {"table": 1}
    await let_pass(1)


@virtually
async def test_a_command_knows_what_its_run_holds(world: World) -> None:
    """A program within the run enters the semaphore of its run at once, and is told the token of the grant."""
    await world.add("a", "table", nap=5)
    member = await world.join()
    await world.trigger("a")
    await let_pass(1)
    ((_, task),) = member.executor.running.items()
    (held,) = (await world.semaphores.get_semaphore("table")).holders
    assert task.permits == f"table:1:{held.token}"


@virtually
async def test_who_waits_for_one_semaphore_holds_no_other(world: World) -> None:
    """A run that wants a free unit and one that is held leaves the free one to those who want nothing else."""
    await world.add("both", "a", "b")
    await world.add("one", "a")
    program = await world.hold("b")
    await world.join()
    await world.trigger("both")
    await let_pass(2)
    await world.trigger("one", 3)
    await let_pass(3)
    assert await world.states("one") == {RunState.SUCCEEDED: 3}
    await program.release("ada", "b")
    await let_pass(3)
    assert await world.states("both") == {RunState.SUCCEEDED: 1}
    await program.close()


@virtually
async def test_units_that_no_claim_uses_go_back(world: World) -> None:
    """At the second look: a node that has become full would keep them; at the first, where nothing is ready now."""
    await world.add("a", "table")
    member = await world.stand_by()
    (run_id,) = await world.trigger("a")
    for looks in (2, 1):
        assert await member.claim(world) == []
        await let_pass(0.1)
        assert await world.used() == {"table": 1}
        if looks == 1:
            await world.jobs.hold_run(run_id, "later")
        for _ in range(looks):
            assert await world.used() == {"table": 1}
            await member.source.survey(world.clock.now())
            await let_pass(0.1)
        assert await world.used() == {"table": 0}
    await member.apart.close()


@virtually
async def test_who_leaves_the_line_before_it_stood_there_stands_there_again(world: World) -> None:
    """A look at the wrong moment, before the first step of who stands in line: the next claim has units."""
    await world.add("a", "table")
    member = await world.stand_by()
    (run_id,) = await world.trigger("a")
    (lane,) = (await member.source.survey(world.clock.now())).lanes
    member.source._stock.wait_in_line(lane)
    member.source._stock.look(())
    await let_pass(1)
    assert await member.claim(world) == []
    await let_pass(0.05)
    assert [task.run_id for task in await member.claim(world)] == [run_id]
    await member.apart.close()


@virtually
async def test_a_lane_that_waits_hides_no_other(world: World) -> None:
    """A node of one place, in whose first lane a run waits for hours, runs what is ready in the next one."""
    await world.add("blocked", "a")
    await world.add("free", "b")
    program = await world.hold("a")
    await world.join(concurrency=1)
    await world.trigger("blocked")
    await world.trigger("free", 3)
    await let_pass(5)
    assert await world.states("free") == {RunState.SUCCEEDED: 3}
    await program.close()


@virtually
async def test_a_node_that_became_full_leaves_what_it_stood_in_line_for(world: World) -> None:
    """What it is granted while all its places are taken goes back within a second, not when it is found unused."""
    await granted_too_late(world, await world.join(concurrency=1), lambda _node: None)


async def granted_too_late(world: World, member: Member, then: Callable[[Node], object]) -> None:
    """The member stands in line, runs something long, and `then` gets what it stood in line for: that goes back."""
    await world.add("a", "table")
    await world.add("long", nap=100)
    program = await world.hold("table")
    await world.trigger("a")
    await let_pass(1)
    await world.trigger("long")
    await let_pass(1)
    assert len(member.executor.running) == 1
    then(member.node)
    await let_pass(1)
    await program.release("ada", "table")
    await let_pass(1)
    assert await world.used() == {"table": 0}
    await program.close()


@virtually
async def test_a_node_that_drains_leaves_what_it_stood_in_line_for(world: World) -> None:
    """It claims nothing any more: what it is granted goes back at once."""
    await granted_too_late(world, await world.join(), Node.stop)


@virtually
async def test_units_on_their_way_back_are_not_forgotten(world: World) -> None:
    """Whoever stops standing in line while it gives back some of what it had gives back all of it."""
    await world.add("three", "a", "b", "c")
    program = await world.hold("c")
    member = await world.stand_by()
    (run_id,) = await world.trigger("three")
    release = member.semaphores.release

    async def slow(permit: PermitId, node: NodeId, now: Moment) -> object:
        await let_pass(0.5)
        return await release(permit, node, now)

    setattr(member.semaphores, "release", slow)  # noqa: B010  it hides what __getattr__ finds
    await member.claim(world)
    await let_pass(0.2)
    assert await world.used() == {"a": 1, "b": 1, "c": 1}
    await world.jobs.hold_run(run_id, "later")
    await member.source.survey(world.clock.now())
    await let_pass(3)
    assert await world.used() == {"a": 0, "b": 0, "c": 1}
    await program.close()
    await member.apart.close()


@virtually
async def test_a_place_in_line_counts_from_the_same_moment_in_every_line(world: World) -> None:
    """Whoever wants two semaphores and is refused one keeps its rank in the line of that one."""
    await world.add("both", "a", "b")
    first, second = await world.hold("a"), await world.hold("b")
    member = await world.stand_by()
    acquire, wishes = member.semaphores.acquire, list[UnitRequest]()

    async def noted(wish: UnitRequest, now: Moment) -> object:
        wishes.append(wish)
        return await acquire(wish, now)

    setattr(member.semaphores, "acquire", noted)  # noqa: B010  it hides what __getattr__ finds
    await world.trigger("both")
    await member.claim(world)
    await let_pass(1)
    await first.release("ada", "a")
    await let_pass(1)
    assert {wish.semaphore for wish in wishes} == {"a", "b"}
    assert len({wish.rank for wish in wishes}) == 1
    await first.close()
    await second.close()
    await member.apart.close()


@virtually
async def test_doubtful_units_start_nothing(world: World) -> None:
    """Neither is a run claimed with them, nor does one begin that was claimed before; it is handed back."""
    await world.add("a", "table")
    member = await world.stand_by()
    await world.trigger("a", 2)
    await member.claim(world)
    await let_pass(0.1)
    (task,) = await member.claim(world)
    member.semaphores.away = True
    await let_pass(LEASE)
    member.apart.start([task])
    (ended,) = member.heard
    assert isinstance(ended, Ended)
    assert isinstance(ended.outcome, Released)
    assert member.executor.running == {}


@virtually
async def test_nothing_is_claimed_with_doubtful_units(world: World) -> None:
    """They go back instead."""
    await world.add("a", "table")
    member = await world.stand_by()
    await world.trigger("a")
    await member.claim(world)
    await let_pass(0.1)
    member.semaphores.away = True
    await let_pass(LEASE - 0.2)
    assert await member.claim(world) == []
    assert member.jobs.calls["claim"] == 0


@pytest.mark.parametrize("begun", [True, False])
def test_what_is_disowned_keeps_no_units(*, begun: bool) -> None:
    """Nobody settles it: its units go back when it has ended, at once where it never began."""

    @virtually
    async def test(world: World) -> None:
        await world.add("a", "table", nap=10)
        member = await world.stand_by()
        await world.trigger("a")
        await member.claim(world)
        await let_pass(0.1)
        (task,) = await member.claim(world)
        await member.source.survey(world.clock.now())  # there is no more for which to stand in line
        if begun:
            member.apart.start([task])
        member.apart.stop(task.run_id, task.token, StopReason.DISOWN, grace=3)
        await let_pass(2)
        assert await world.used() == {"table": int(begun)}
        await let_pass(2)
        assert await world.used() == {"table": 0}

    test()
