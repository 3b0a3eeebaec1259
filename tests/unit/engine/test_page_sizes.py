"""How many jobs are read at once."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from tests.unit.engine.world import World
from tests.unit.examples import NEW_YEAR, a_definition, a_job, seconds
from tokimori.engine.fire import fire
from tokimori.engine.firing import foresee
from tokimori.engine.pace import FIRST, PageSize
from tokimori.engine.prune import walk
from tokimori.model.ids import JobId
from tokimori.model.job import Job
from tokimori.model.sizes import MOST_DEFINITION
from tokimori.ports.planning import ALL
from tokimori.ports.working import LARGE

MANY = 3 * FIRST
SOME = LARGE // MOST_DEFINITION + 2
"""So many of the largest jobs have more than a transaction should bring."""
SMALL = a_job(a_definition())
LARGEST = a_job(a_definition(payload="x" * (MOST_DEFINITION - 1_000)))


def test_small_jobs_are_read_by_growing_pages() -> None:
    """Each page that was full is followed by one that is ten times as large, up to the most."""
    page_size, limits = PageSize(2_000), list[int]()
    for read in (0, FIRST - 1, FIRST, 10 * FIRST, 2_000):
        page_size.note([SMALL] * read)
        limits.append(page_size.limit)
    assert limits == [FIRST, FIRST, 10 * FIRST, 2_000, 2_000]


def test_of_large_jobs_few_are_read() -> None:
    """As many as bring some megabytes; more again once they are small, and one is always read."""
    page_size = PageSize(500)
    page_size.note([LARGEST] * 100)
    assert page_size.limit < SOME
    page_size.note([SMALL] * page_size.limit)
    assert page_size.limit > SOME
    page_size.note([replace(LARGEST, definition=a_definition(payload="x" * LARGE))])
    assert page_size.limit == 1


@pytest.fixture
async def world() -> World:
    """One with many of the largest jobs, which are due."""
    world = World()
    for n in range(MANY):
        await world.add(f"job-{n:03}", payload="x" * (MOST_DEFINITION - 1_000))
    return world


async def test_large_jobs_are_fired_some_at_a_time(world: World) -> None:
    """Each transaction reads some megabytes of them, at first and when they are foreseen, and all of them fire."""
    page_size = PageSize(500)
    fired = await fire(world.store, seconds(1), world.random, world.schedule_for, page_size=page_size)
    assert fired is not None
    assert fired.full
    assert page_size.limit < SOME
    foreseen = await foresee(world.store, seconds(1), world.random, world.schedule_for, ALL, page_size=page_size)
    assert sum(map(len, foreseen.batches)) < SOME
    assert foreseen.rest
    while await fire(world.store, seconds(1), world.random, world.schedule_for, page_size=page_size):
        assert page_size.limit <= 2 * SOME
    assert len(await world.store.list_jobs()) == MANY
    for job in await world.store.list_jobs():
        assert await world.nominals(job.id) == [seconds(1)]


async def test_pruning_reads_large_jobs_some_at_a_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the first page only some megabytes are read at once, and no job is left out."""
    pages, list_jobs = list[Sequence[Job]](), world.store.list_jobs

    async def noted(*, after: JobId | None = None, limit: int = 1000, idle: bool = False) -> list[Job]:
        page = await list_jobs(after=after, limit=limit, idle=idle)
        pages.append(page)
        return page

    monkeypatch.setattr(world.store, "list_jobs", noted)
    async for _ in walk(world.store, NEW_YEAR, lambda _: None):
        pass
    assert max(map(len, pages[1:])) < SOME
    assert len({job.id for page in pages for job in page}) == MANY


async def test_all_small_jobs_of_a_moment_are_foreseen() -> None:
    """A node that has read no jobs yet foresees as many as one that has: it reads again, and more."""
    world = World()
    for n in range(MANY):
        await world.add(f"job-{n:03}")
    foreseen = await foresee(
        world.store, seconds(1), world.random, world.schedule_for, ALL, page_size=PageSize(10 * FIRST)
    )
    assert (sum(map(len, foreseen.batches)), foreseen.rest) == (MANY, False)
