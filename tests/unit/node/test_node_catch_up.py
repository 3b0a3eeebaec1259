"""After a long absence: catching up is paced and capped, and nothing vanishes."""

import asyncio
from collections.abc import Sequence

import pytest

from tests.unit.node.world import World, second
from tokimori.clock import Moment
from tokimori.engine.fire import BATCH
from tokimori.model.decide import MOST_CATCHING_UP, Plan
from tokimori.model.ids import RunId
from tokimori.model.policies import Misfire
from tokimori.model.run import SkipReason
from tokimori.model.transitions import ACTIVE, RunState
from tokimori.stores.memory.store import MemoryStore


@pytest.fixture
def world() -> World:
    """A fresh one."""
    return World()


async def test_catching_up_is_capped_and_ends(world: World) -> None:
    """Of 2,500 missed seconds at most 1,000 runs are active at a time; as they end the others follow, oldest first."""
    await world.add(misfire=Misfire.ALL)
    world.clock.advance(2_500)
    member = await world.join(concurrency=10_000)
    await world.pass_time(10)
    active = await world.runs(*ACTIVE)
    assert sorted(second(run.nominal) for run in active) == list(range(1, MOST_CATCHING_UP + 1))
    most = 0

    def end_all() -> None:
        nonlocal most
        most = max(most, len(member.executor.running))
        member.executor.end_all()

    await world.pass_time(5, each=end_all)
    runs = await world.runs()
    assert most == MOST_CATCHING_UP
    assert {run.state for run in runs} <= {RunState.SUCCEEDED, RunState.READY, RunState.RUNNING}
    assert sorted(second(run.nominal) for run in runs) == list(range(1, len(runs) + 1))
    assert len(runs) >= 2_514


@pytest.mark.parametrize(
    ("terms", "reason", "runs"),
    [
        ({"misfire": Misfire.LATEST}, SkipReason.MISFIRE, 62),
        ({"misfire": Misfire.SKIP}, SkipReason.MISFIRE, 61),
        ({"misfire": Misfire.ALL, "grace": 600}, SkipReason.GRACE, 601),
        ({"late_after": 100_000, "max_running": 1}, SkipReason.OVERLAP, 1),
    ],
)
async def test_every_skipped_occurrence_is_in_the_ledger(
    world: World, terms: dict[str, object], reason: SkipReason, runs: int
) -> None:
    """Whatever the policy drops of 2,500 missed seconds is one row with the reason; runs and skips are all there is."""
    job = await world.add("job", **terms)
    world.clock.advance(2_500)
    await world.join(concurrency=10_000)
    await world.pass_time(0.5)
    skips = await world.store.skips(job.id)
    assert [skip.reason for skip in skips] == [reason]
    assert len(await world.runs()) == runs
    assert sum(skip.count for skip in skips) + runs == 2_500


class CountingStore(MemoryStore):
    """Counts the plans that it is asked to write."""

    asked = 0

    async def apply(self, plans: Sequence[tuple[Plan, Sequence[RunId]]], now: Moment) -> list[bool]:
        """See `Planning.apply`."""
        self.asked += len(plans)
        return await super().apply(plans, now)


async def test_nodes_that_meet_at_the_same_jobs_go_on_with_a_share_each(world: World) -> None:
    """Of thousands of jobs due at one moment two nodes decide none twice, and leave none out."""
    world.store = store = CountingStore(world.store_clock)
    jobs = 8 * BATCH
    for number in range(jobs):
        await world.add(f"job{number:04}", schedule="0 * * * *")
    first, second = await world.join(), await world.join()
    await world.pass_time(3)
    world.clock.advance(3600)
    while len(await world.runs()) < jobs:
        await asyncio.gather(first.cycle(), second.cycle())
    assert store.asked == jobs
