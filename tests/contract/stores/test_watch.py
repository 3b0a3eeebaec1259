"""Hints: whoever watches a store hears, soon, that somebody else may have changed something."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.contract.stores.actors import NOW, Worker, a_request, add_job, add_runs
from tests.contract.stores.conftest import STORES, forget
from tests.servers import postgres, redis
from tokimori.model.ids import RunId
from tokimori.ports.store import Store

SOON = 5.0
"""Seconds: far more than a look at the file takes to come round, for a busy machine."""
QUIET = 0.5
"""Seconds in which a hint that must not come would have come."""


async def test_a_request_wakes_who_watches(store: Store) -> None:
    """What people ask of jobs and runs through this store wakes its watchers at once."""
    woken = asyncio.Event()
    job = await add_job(store)
    store.watch(woken.set)
    await store.add_run(a_request(job), NOW)
    await asyncio.wait_for(woken.wait(), SOON)


async def test_a_beat_of_ones_own_wakes_nobody(store: Store, worker: Worker) -> None:
    """A node's own ticks are no news to it."""
    woken = asyncio.Event()
    store.watch(woken.set)
    await asyncio.sleep(QUIET)
    woken.clear()
    await worker.tick()
    await asyncio.sleep(QUIET)
    assert not woken.is_set()


@pytest.mark.parametrize("name", ["sqlite", "postgres", "redis"])
async def test_what_another_process_writes_wakes_who_watches(name: str, tmp_path: Path) -> None:
    """What is asked through another store of the same database is noticed."""
    here, there = STORES[name](tmp_path), STORES[name](tmp_path)
    for store in (here, there):
        await store.open()
        await store.migrate()
    woken = asyncio.Event()
    here.watch(woken.set)
    await asyncio.sleep(QUIET)
    woken.clear()
    await add_job(there)
    await asyncio.wait_for(woken.wait(), SOON)
    for store in (here, there):
        await store.close()
    forget(name, tmp_path)


CUT: dict[str, Callable[[], str]] = {
    "postgres": lambda: postgres.server().sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
    ),
    "redis": lambda: redis.server().command("CLIENT", "KILL", "TYPE", "pubsub"),
}


@pytest.mark.parametrize("name", CUT)
async def test_a_watcher_hears_again_after_its_session_was_lost(name: str, tmp_path: Path) -> None:
    """A session that the server ended is opened again, and whoever watches is woken for what it may have missed."""
    here, there = STORES[name](tmp_path), STORES[name](tmp_path)
    for store in (here, there):
        await store.open()
        await store.migrate()
    woken = asyncio.Event()
    here.watch(woken.set)
    await asyncio.wait_for(woken.wait(), SOON)
    woken.clear()
    CUT[name]()
    await asyncio.wait_for(woken.wait(), SOON)
    woken.clear()
    await add_job(there)
    await asyncio.wait_for(woken.wait(), SOON)
    for store in (here, there):
        await store.close()
    forget(name, tmp_path)


@pytest.mark.parametrize("name", ["postgres", "redis"])
async def test_only_the_end_of_a_run_that_somebody_expects_is_told(name: str, tmp_path: Path) -> None:
    """By whichever program settles it; a cancelled run is told in any case."""
    here, there = STORES[name](tmp_path), STORES[name](tmp_path)
    for store in (here, there):
        await store.open()
        await store.migrate()
    told: asyncio.Queue[RunId] = asyncio.Queue()

    def heard(run_ids: Sequence[RunId]) -> None:
        for run_id in run_ids:
            told.put_nowait(run_id)

    heard_there = asyncio.Event()
    there.watch(heard_there.set)  # a node does
    await asyncio.wait_for(heard_there.wait(), SOON)
    _, second, third = await add_runs(there, await add_job(there), 3)
    assert here.expect([second.id], heard)
    await asyncio.sleep(QUIET)
    worker = await Worker.join(there)
    for claimed in await worker.claim(2):
        await worker.settle(claimed)
    assert await asyncio.wait_for(told.get(), SOON) == second.id
    await there.cancel_run(third.id, "not needed", NOW)
    assert await asyncio.wait_for(told.get(), SOON) == third.id
    assert told.empty()
    for store in (here, there):
        await store.close()
    forget(name, tmp_path)
