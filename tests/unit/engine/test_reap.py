"""Taking over the runs of dead nodes."""

from collections.abc import Sequence
from contextlib import suppress
from math import inf
from unittest.mock import AsyncMock

import pytest
from msgspec.structs import replace

from tests.unit.examples import NEW_YEAR, a_definition, a_job, a_run, seconds
from tests.unit.virtual import Link
from tokimori.clock import MINUTE, Moment
from tokimori.engine.reap import Reaper, Reaping
from tokimori.errors import StoreUnavailable
from tokimori.model.attempt_notes import Notes, notes_row
from tokimori.model.encoding import definition_of
from tokimori.model.ids import ClaimId, Lane, NodeId, RunId
from tokimori.model.policies import Retry
from tokimori.model.run import Details, Run
from tokimori.model.settle import NEVER_AGAIN
from tokimori.model.transitions import RunState
from tokimori.ports.meter import Unmetered
from tokimori.ports.nodes import Beat, NodeRecord, NodeState, StartedRun
from tokimori.ports.working import LARGE, Change, Claim, Claimed, Verdict
from tokimori.stores.memory.store import MemoryStore
from tokimori.testing.manual import VirtualClock

DEAD, ALIVE = NodeId("dead"), NodeId("alive")


def a_node(node: NodeId) -> NodeRecord:
    """A living node."""
    return NodeRecord(
        id=node, host="h", boot_id="b", pid=1, concurrency=9, version="0", started=NEW_YEAR, state=NodeState.ALIVE
    )


class World:
    """Two nodes, one of which has claimed everything that there was, and died."""

    def __init__(self) -> None:
        self.store = MemoryStore(VirtualClock())

    async def begin(self, *names: str, retry: Retry | None = None, own: str | None = None, **terms: object) -> None:
        """Let the one claim these runs, which have a payload of their `own`, and die."""
        await self.store.add_jobs([a_job(a_definition(schedule=None, retry=retry or Retry(), **terms))])
        for node in (DEAD, ALIVE):
            await self.store.register(a_node(node))
        for name in names:
            run = a_run(id=RunId(name), origin=name, state=RunState.READY, attempt=0, payload=own)
            await self.store.add_run(run, NEW_YEAR)
        claim = Claim(id=ClaimId("c"), node=DEAD, lanes=(Lane("default||"),), limit=99)
        claimed = await self.store.claim(claim, NEW_YEAR)
        started = tuple(
            StartedRun(run_id=one.run.id, token=one.run.token, pid=42, at=seconds(1)) for one in claimed[:1]
        )
        await self.store.tick(Beat(node=DEAD, started=started), NEW_YEAR)
        assert await self.store.bury(DEAD, 1, ALIVE, seconds(8))

    async def run(self, name: str) -> Run:
        """The run."""
        return await self.store.get_run(RunId(name))


@pytest.fixture
def world() -> World:
    """A fresh one."""
    return World()


def no_chance() -> float:
    """No jitter."""
    return 0.0


async def reap(store: Reaping, by: NodeId) -> int:
    """One step of a reaper; how many runs it settled."""
    meter = Counting()
    await Reaper(store, no_chance, meter).step(by, seconds(9), 9.0)
    return meter.applied


class Counting(Unmetered):
    """Counts the changes that took effect."""

    applied = 0

    def settled(self, changes: Sequence[Change], verdicts: Sequence[Verdict]) -> None:
        """See `Meter`."""
        self.applied += verdicts.count(Verdict.APPLIED)


async def test_runs_of_a_dead_node_are_ready_again(world: World) -> None:
    """They are lost attempts with what is known of them, cost one of the lost budget, and one point of priority."""
    await world.begin("a", "b")
    assert await reap(world.store, ALIVE) == 2
    for name in "ab":
        run = await world.run(name)
        assert (run.state, run.lost, run.failures, run.rank) == (RunState.READY, 1, 0, NEW_YEAR + MINUTE)
        (row,) = await world.store.attempts(run.id)
        assert (row.outcome, row.node_id, row.number, row.ended) == ("lost", DEAD, 1, seconds(9))
    assert (await world.store.attempts(RunId("a")))[0].started == seconds(1)
    assert (await world.store.attempts(RunId("b")))[0].started is None


async def test_what_a_dead_node_noted_is_not_lost(world: World) -> None:
    """The next attempt goes on from what the lost one has kept; notes of an earlier attempt are not its own."""
    await world.begin("a", "b", payload='"as it is now"')
    told = Notes(attempt=1, progress=0.5, checkpoint="[1]", payload="1")
    await world.store.save_outputs([notes_row(RunId("a"), told)])
    assert await reap(world.store, ALIVE) == 2
    noted, other = await world.run("a"), await world.run("b")
    assert noted.details == Details(progress=0.5, checkpoint="[1]", payload="1", begun=noted.started)
    assert other.details == Details(begun=other.started)


async def test_nothing_is_left_to_reap(world: World) -> None:
    """A second call, or another node's, finds nothing."""
    await world.begin("a")
    assert await reap(world.store, ALIVE) == 1
    assert await reap(world.store, ALIVE) == 0


async def test_the_dead_do_not_reap(world: World) -> None:
    """A node that was itself declared dead settles nobody's runs."""
    await world.begin("a")
    assert await reap(world.store, DEAD) == 0
    assert (await world.run("a")).state is RunState.RUNNING


async def test_a_lost_reply_counts_once(world: World) -> None:
    """Where the reply to the settle is lost, the attempt is lost once, not twice."""
    await world.begin("a")
    link = Link(world.store)
    link.lose_reply["settle"] = 1
    with pytest.raises(StoreUnavailable):
        await reap(link.store, ALIVE)
    assert await reap(link.store, ALIVE) == 0
    assert (await world.run("a")).lost == 1


async def test_a_run_that_kills_its_nodes_fails(world: World) -> None:
    """Where no lost attempt is forgiven, the run fails with the reason."""
    await world.begin("a", retry=Retry(lost_attempts=0))
    assert await reap(world.store, ALIVE) == 1
    run = await world.run("a")
    assert (run.state, run.error, run.ended) == (RunState.FAILED, f"node dead died; {NEVER_AGAIN}", seconds(9))


async def test_a_definition_of_a_newer_version_still_says_never_again(world: World) -> None:
    """Of a job that this version can't read it is read whether a lost run may begin again."""
    await world.begin("a", "b")
    orphans = [
        replace(each, definition=definition_of(f'{{"target": {{"type": "teleport"}}, "retry": {retry}}}'))
        for each, retry in zip(await world.store.orphans(9), ('{"lost_attempts": 0, "new": 1}', "{}"), strict=True)
    ]
    world.store.orphans = AsyncMock(return_value=orphans)  # type: ignore[method-assign]
    assert await reap(world.store, ALIVE) == 2
    assert [(await world.run(each.run.id)).state for each in orphans] == [RunState.FAILED, RunState.READY]


async def test_an_order_to_cancel_outlives_the_node(world: World) -> None:
    """A run that was to end is cancelled, not started again, when its node dies."""
    await world.begin("a")
    await world.store.cancel_run(RunId("a"), "by me", seconds(2))
    await reap(world.store, ALIVE)
    run = await world.run("a")
    assert (run.state, run.error) == (RunState.CANCELLED, "by me")


async def test_a_run_without_a_job_ends(world: World) -> None:
    """A run whose job was deleted is not started again."""
    await world.begin("a")
    await world.store.delete_job((await world.run("a")).job_id, seconds(2))
    await reap(world.store, ALIVE)
    assert (await world.run("a")).state is RunState.CANCELLED


async def test_a_reaper_works_from_when_it_hears_of_orphans_until_none_is_left(world: World) -> None:
    """Its steps are due at once while there are any, each says that something may be ready, and then it rests."""
    await world.begin("a", "b")
    reaper = Reaper(world.store, no_chance)
    assert reaper.next_at == inf
    pulse = await world.store.tick(Beat(node=ALIVE), seconds(9))
    assert pulse is not None
    reaper.receive(pulse)
    for rests in (False, True):
        assert reaper.next_at == -inf
        assert await reaper.step(ALIVE, seconds(9), 9.0)
        assert (reaper.next_at == inf) is rests
    assert {(await world.run(name)).state for name in "ab"} == {RunState.READY}


class Bounded(MemoryStore):
    """A store that notes how many runs are settled in each transaction, and gives no more than two at once."""

    def __init__(self) -> None:
        super().__init__(VirtualClock())
        self.settled: list[int] = []

    async def settle(self, changes: Sequence[Change], by: NodeId, now: Moment) -> list[Verdict]:
        """See `Working.settle`."""
        self.settled.append(len(changes))
        return await super().settle(changes, by, now)

    async def orphans(self, limit: int) -> list[Claimed]:
        """See `Nodes.orphans`."""
        if limit > 2:
            raise StoreUnavailable("it does not answer in time")
        return await super().orphans(limit)


async def test_large_runs_of_a_dead_node_are_taken_over_few_at_a_time(world: World) -> None:
    """All of their payloads in one answer, or written anew in one transaction, were too much for each try."""
    world.store = bounded = Bounded()
    await world.begin(*"abcdef", own="x" * (LARGE // 2))
    reaper = Reaper(bounded, no_chance)
    for _ in range(12):
        with suppress(StoreUnavailable):
            await reaper.step(ALIVE, seconds(9), 9.0)
    assert [(await world.run(name)).state for name in "abcdef"] == [RunState.READY] * 6
    assert max(bounded.settled) == 2
