"""A PostgreSQL or MariaDB server that is killed amid writes comes back with everything that it had answered to."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.contract.stores.actors import NOW, Worker, a_request, add_job
from tests.servers import mariadb, postgres
from tokimori.clock import SystemClock
from tokimori.errors import StoreUnavailable
from tokimori.model.ids import RunId
from tokimori.model.job import Job
from tokimori.model.transitions import RunState
from tokimori.ports.store import RunFilter, Store
from tokimori.stores.open import open_store

SIGKILL = 9
Server = postgres.Server | mariadb.Server


@pytest.fixture(params=["postgres", "mariadb"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server that writes before it answers."""
    server: Server = postgres.Server(durable=True) if request.param == "postgres" else mariadb.Server(durable=True)
    yield server
    server.remove()


@pytest.fixture
async def store(server: Server) -> AsyncIterator[Store]:
    """A store there."""
    store = open_store(server.make("jobs"), SystemClock())
    await store.open()
    await store.migrate()
    yield store
    await store.close()


async def after_the_restart(store: Store) -> None:
    """Let the store find its connections lost."""
    for _ in range(10):
        try:
            await store.survey(NOW)
        except StoreUnavailable:
            pass


async def ask_on(store: Store, job: Job, acknowledged: set[RunId]) -> None:
    """Ask for run after run, until the server is away; those that it answered to are noted."""
    while True:
        try:
            acknowledged.add((await store.add_run(a_request(job), NOW)).id)
        except StoreUnavailable:
            return


async def test_what_was_acknowledged_is_there_after_a_kill(server: Server, store: Store) -> None:
    """Every request, claim and end of a run that was answered before the server was killed is there again."""
    assert store.faults() == ()
    job, worker = await add_job(store, max_running=0), await Worker.join(store)
    await store.add_run(a_request(job), NOW)
    (claimed,) = await worker.claim()
    await worker.settle(claimed)
    acknowledged = set[RunId]()
    asking = [asyncio.create_task(ask_on(store, job, acknowledged)) for _ in range(4)]
    async with asyncio.timeout(30):
        while len(acknowledged) <= 10:  # noqa: ASYNC110 - the store tells nobody
            await asyncio.sleep(0.05)
    server.stop(SIGKILL)
    await asyncio.gather(*asking)
    server.start()
    await after_the_restart(store)
    kept = {run.id: run.state for run in await store.list_runs(RunFilter(limit=100_000))}
    assert acknowledged <= kept.keys()
    assert kept[claimed.run.id] is RunState.SUCCEEDED
