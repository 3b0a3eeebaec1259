"""Next moments are reckoned anew where an older tzdata said them."""

from collections.abc import Callable
from math import inf

import pytest
from msgspec.structs import replace

from tests.unit.engine.world import Broken, World
from tests.unit.examples import a_definition, seconds
from tests.unit.virtual import Link
from tokimori.clock import SECOND, Moment
from tokimori.engine.recompute import BATCH, Reckoner, outdated_jobs, reckon
from tokimori.model.ids import JobId, NodeId
from tokimori.model.job import Job
from tokimori.ports.working import LARGE
from tokimori.schedules.schedule import Schedule
from tokimori.schedules.zones import tzdata_version
from tokimori.stores.memory.store import MemoryStore


@pytest.fixture
def world() -> World:
    """A new one."""
    return World()


async def outdated(world: World, name: str, next_due: float, **changes: object) -> Job:
    """A job every second whose next moment an older tzdata reckoned."""
    job = replace(await world.add(name), tzdata="2020a", next_due=seconds(next_due), **changes)
    world.store._tables.jobs[job.id] = job
    return job


async def reckon_some(store: MemoryStore, now: Moment, schedule_for: Callable[[Job], Schedule]) -> int:
    """One batch; how many there were."""
    jobs = await outdated_jobs(store, BATCH)
    await reckon(store, jobs, now, schedule_for)
    return len(jobs)


async def test_an_outdated_moment_is_corrected(world: World) -> None:
    """Earlier or later than it was, always the first one after the cursor; a job of today's tzdata is not touched."""
    earlier, later = await outdated(world, "earlier", 90), await outdated(world, "later", 0.5)
    today = replace(await outdated(world, "today", 77), tzdata=tzdata_version())
    world.store._tables.jobs[today.id] = today
    assert await reckon_some(world.store, seconds(0), world.schedule_for) == 2
    for job in (earlier, later):
        expected = replace(job, next_due=seconds(1), tzdata=tzdata_version())
        assert await world.store.get_job(job.id) == expected
    assert await world.store.get_job(today.id) == today
    assert await reckon_some(world.store, seconds(0), world.schedule_for) == 0


async def test_no_occurrence_comes_twice(world: World) -> None:
    """What was decided stays decided, though new rules, or a clock that went back, name it again."""
    await world.add("a")
    await world.fire(10)
    fired = replace(await world.store.get_job(JobId("a")), tzdata="2020a", next_due=seconds(2))
    world.store._tables.jobs[fired.id] = fired
    assert await reckon_some(world.store, seconds(3), world.schedule_for) == 1
    assert (await world.store.get_job(fired.id)).next_due == seconds(11)
    await world.fire(12)
    assert await world.nominals("a") == [seconds(n) for n in range(1, 13)]


async def test_many_are_reckoned_in_batches(world: World) -> None:
    """One call changes a bounded number; together they change all."""
    for n in range(BATCH + 7):
        await outdated(world, f"job-{n}", 90)
    assert [await reckon_some(world.store, seconds(0), world.schedule_for) for _ in range(3)] == [BATCH, 7, 0]


async def test_a_job_that_can_not_be_reckoned_keeps_no_other(world: World) -> None:
    """Its moment stays as it is, to be parked when it is due; a batch of such ones does not hide those behind it."""
    broken = [await outdated(world, f"broken-{n}", 90) for n in range(BATCH)]
    whole = await outdated(world, "whole", 90)
    for job in broken:
        world.schedules[job.id] = Broken()
    reckoner = Reckoner(world.store, world.schedule_for)
    while reckoner.next_at == -inf:
        await reckoner.step(NodeId("node"), seconds(0), 0.0)
    assert await world.store.get_job(broken[0].id) == replace(broken[0], tzdata=tzdata_version())
    assert (await world.store.get_job(whole.id)).next_due == seconds(1)


async def test_of_large_jobs_few_are_reckoned_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step reads some megabytes of their definitions; together they reckon all."""
    large = a_definition(payload="x" * (LARGE // 4))
    for n in range(30):
        await outdated(world, f"job-{n}", 90, definition=large)
    asked, find = list[int](), world.store.outdated

    async def noted(tzdata: str, limit: int) -> list[Job]:
        asked.append(limit)
        return await find(tzdata, limit)

    monkeypatch.setattr(world.store, "outdated", noted)
    reckoner = Reckoner(world.store, world.schedule_for)
    reckoner._page_size.limit = 5
    while reckoner.next_at == -inf:
        await reckoner.step(NodeId("node"), seconds(0), 0.0)
    assert max(asked) <= 8
    assert await find(tzdata_version(), 1) == []


async def test_an_edit_meanwhile_wins(world: World) -> None:
    """A plan that was made from another version changes nothing."""
    job = await outdated(world, "a", 90)

    def edited_meanwhile(job: Job) -> object:
        world.store._tables.jobs[job.id] = replace(job, version=2, next_due=seconds(5))
        return world.schedule_for(job)

    assert await reckon_some(world.store, seconds(0), edited_meanwhile) == 1  # type: ignore[arg-type]
    assert (await world.store.get_job(job.id)).next_due == 5 * SECOND + seconds(0)


async def test_what_the_store_refuses_is_tried_again_later(world: World) -> None:
    """In smaller batches, until it takes them; the node is not held up."""
    for n in range(4):
        await outdated(world, f"job-{n}", 90)
    link = Link(world.store)
    link.refuses = lambda name, asked: name == "apply" and len(asked) > 3
    reckoner = Reckoner(link.store, world.schedule_for)
    at = 0.0
    while reckoner.next_at < inf:
        at = max(at, reckoner.next_at)
        await reckoner.step(NodeId("node"), seconds(0), at)
    assert {(await world.store.get_job(JobId(f"job-{n}"))).next_due for n in range(4)} == {seconds(1)}
    assert at > 0


async def test_a_job_that_the_store_refuses_for_good_is_gone_past(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """All others are reckoned; the log names this one, and it is tried again until the store takes it."""
    jobs = [await outdated(world, f"job-{n}", 90) for n in range(4)]
    link = Link(world.store)
    link.refuses = lambda name, asked: name == "apply" and any(plan.job_id == "job-1" for plan, _ in asked)
    reckoner = Reckoner(link.store, world.schedule_for)
    at = 0.0
    for _ in range(50):
        at = max(at, reckoner.next_at)
        await reckoner.step(NodeId("node"), seconds(0), at)
    moments = {job.id: (await world.store.get_job(job.id)).next_due for job in jobs}
    assert moments == {job.id: seconds(90 if job.id == "job-1" else 1) for job in jobs}
    assert "next moment of job job-1" in caplog.text
    link.refuses = lambda _name, _asked: False
    while reckoner.next_at < inf:
        at = max(at, reckoner.next_at)
        await reckoner.step(NodeId("node"), seconds(0), at)
    assert (await world.store.get_job(JobId("job-1"))).next_due == seconds(1)


async def test_a_reckoner_works_until_nothing_is_outdated(world: World) -> None:
    """It begins at once, says after each step that there may be something new to do, and then never works again."""
    job = await outdated(world, "a", 90)
    reckoner = Reckoner(world.store, world.schedule_for)
    for rests in (False, True):
        assert reckoner.next_at == -inf
        assert await reckoner.step(NodeId("node"), seconds(0), 0.0)
        assert (reckoner.next_at == inf) is rests
    assert (await world.store.get_job(job.id)).next_due == seconds(1)
