"""Behind PgBouncer in transaction mode, where each transaction may get another session of the server."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.contract.stores.fight import add_work, check, take_part
from tests.integration.stores.conftest import Networked
from tests.servers.postgres import Pooler
from tokimori.clock import SystemClock
from tokimori.ports.store import Store
from tokimori.stores.open import open_store


@pytest.fixture
async def store(networked: Networked) -> AsyncIterator[Store]:
    """A store whose URL names the pooler."""
    networked.server.make("behind")
    pooler = Pooler(networked.server, "behind")
    store = open_store(pooler.url, SystemClock())
    try:
        await store.open()
        await store.migrate()
        yield store
        await store.close()
    finally:
        pooler.remove()
        networked.server.drop("behind")


@pytest.mark.prove
async def test_nodes_share_the_work_behind_a_pooler(store: Store) -> None:
    """Four nodes carry out 1,000 runs, each exactly once, on four sessions of the server that change hands."""
    jobs = await add_work(store)
    done = await asyncio.gather(*(take_part(store, seed) for seed in range(4)))
    await check(store, jobs, [each for part in done for each in part])


async def test_time_outs_hold_behind_a_pooler(store: Store) -> None:
    """Each transaction sets the server's time-outs for itself."""
    assert await store.db.value("SHOW lock_timeout") == "2s"  # type: ignore[attr-defined]
