"""A Redis server that is killed and started again: with its log nothing is lost, without it nobody takes it for new."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.contract.stores.actors import NOW, Worker, add_job, add_runs
from tests.contract.stores.test_lost_replies import contents
from tests.servers.redis import DURABLE, FORGETFUL, Server
from tokimori.clock import SystemClock
from tokimori.errors import SchemaMismatch, StoreUnavailable
from tokimori.model.outcome import Failed
from tokimori.ports.store import Store
from tokimori.stores.open import open_store

SIGKILL = 9


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server with the test's settings."""
    server = Server(request.param)
    yield server
    server.remove()


@pytest.fixture
async def store(server: Server) -> AsyncIterator[Store]:
    """A store on that server."""
    store = open_store(server.url(), SystemClock())
    await store.open()
    await store.migrate()
    yield store
    await store.close()


async def after_the_restart(store: Store) -> None:
    """Let the store find its connections lost."""
    for _ in range(3):
        try:
            await store.survey(NOW)
        except (StoreUnavailable, SchemaMismatch):
            pass


@pytest.mark.parametrize("server", [DURABLE], indirect=True, ids=["with its log"])
async def test_what_was_acknowledged_is_there_after_a_kill(server: Server, store: Store) -> None:
    """With appendonly and appendfsync always a killed server comes back with everything that it had answered to."""
    assert store.faults() == ()
    worker = await Worker.join(store)
    await add_runs(store, await add_job(store, max_running=2), 6)
    first, second = await worker.claim()
    await worker.settle(first, Failed("broken"))
    await worker.claim(1)
    before = await contents(store)
    server.stop(SIGKILL)
    server.start()
    await after_the_restart(store)
    assert await contents(store) == before
    assert len((await worker.tick()).owned) == 2
    await worker.settle(second)


@pytest.mark.parametrize("server", [FORGETFUL], indirect=True, ids=["without a log"])
async def test_a_server_that_lost_everything_is_not_taken_for_a_new_one(server: Server, store: Store) -> None:
    """Without its log it says so beforehand; after a restart nothing is read from it or written to it."""
    assert "appendonly = no" in store.faults()[0]
    worker, job = await Worker.join(store), await add_job(store)
    server.stop(SIGKILL)
    server.start()
    await after_the_restart(store)
    for call in (worker.tick(), add_job(store, "new"), store.get_job(job.id), store.list_nodes()):
        with pytest.raises(SchemaMismatch, match="holds no keys of Tokimori, or lost them"):
            await call
    assert server.command("DBSIZE") == ":0\r\n"
    await store.migrate()
    assert await store.list_jobs() == []


@pytest.mark.parametrize("server", [FORGETFUL], indirect=True, ids=["its sessions"])
async def test_connections_that_the_server_has_ended_are_asked_nothing(server: Server, store: Store) -> None:
    """No request fails by one: each of several that lay idle failed one, and the node waited up to two seconds."""
    await asyncio.gather(*(store.survey(NOW) for _ in range(5)))
    server.command("CLIENT", "KILL", "TYPE", "normal")
    await asyncio.sleep(0.1)  # until the ends of these connections are here
    for _ in range(5):
        await store.survey(NOW)
