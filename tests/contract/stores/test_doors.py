"""Whoever asks through a door hinders no node, however slow the store answers."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.contract.stores.actors import NOW, Worker, add_job, add_runs, later
from tests.contract.stores.conftest import STORES, forget
from tokimori.errors import StoreTooSlow
from tokimori.ports.store import RunFilter, Store

READERS = 10
"""More than a store has connections."""
_FOR_EVER = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
_CROSSED = f"SELECT COUNT(*) FROM {', '.join(f'information_schema.COLUMNS c{n}' for n in range(4))}"
Reader = Callable[[Any], Awaitable[object]]


def _count_for_ever(db: sqlite3.Connection) -> object:
    return db.execute(_FOR_EVER).fetchone()


SLOW: dict[str, Reader] = {
    "sqlite": lambda store: store._read(_count_for_ever),
    "postgres": lambda store: store.db.rows("SELECT pg_sleep(60)"),
    "mariadb": lambda store: store.db.rows(_CROSSED),
    "redis": lambda store: store.db.do("BLPOP", "nobody-fills-this", "60"),
}
"""What takes a reader of each store for ever, unless it is broken off."""


@pytest.fixture(params=SLOW)
def kind(request: pytest.FixtureRequest) -> str:
    """The name of a store whose reads may be slow."""
    return str(request.param)


async def test_slow_readers_at_a_door_keep_no_node_waiting(kind: str, tmp_path: Path) -> None:
    """While ten of them wait for answers that do not come, a node beats, looks, claims, plans and settles."""
    store = STORES[kind](tmp_path)
    await store.open()
    await store.migrate()
    worker = await Worker.join(store)
    await add_runs(store, await add_job(store), 2)
    doors = await store.for_doors()
    slow = [asyncio.ensure_future(SLOW[kind](doors)) for _ in range(READERS)]
    await asyncio.sleep(0.2)  # they are there by then
    assert await worker.tick() is not None
    assert (await store.survey(NOW)).lanes
    assert await store.due(later(1), 10) == []
    assert await store.outdated("9999z", 10) == []
    claimed = await worker.claim(1)
    await worker.settle(claimed[0])
    assert len(await store.list_runs(RunFilter())) == 2
    assert not any(each.done() for each in slow)
    for each in slow:
        each.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    await store.close()
    forget(kind, tmp_path)


@pytest.mark.parametrize(
    "kind", ["postgres", "mariadb", pytest.param("sqlite", marks=pytest.mark.prove)], indirect=True
)
@pytest.mark.timeout(30)
async def test_a_read_that_takes_too_long_is_broken_off(kind: str, tmp_path: Path) -> None:
    """After seconds its caller hears that it asked for too much; the next one is answered."""
    store = STORES[kind](tmp_path)
    await store.open()
    await store.migrate()
    doors = await store.for_doors()
    with pytest.raises(StoreTooSlow, match="took over 3 s, or was stopped: ask for less, or later"):
        await SLOW[kind](doors)
    assert await doors.list_jobs() == []
    await store.close()
    forget(kind, tmp_path)


async def test_what_is_asked_through_a_door_is_done(store: Store) -> None:
    """It reads and writes what the store holds, and who watches the store is told of it."""
    doors = await store.for_doors()
    woken = asyncio.Event()
    store.watch(woken.set)
    job = await add_job(doors)
    (run,) = await add_runs(doors, job, 1)
    assert await doors.get_run(run.id) == await store.get_run(run.id) == run
    async with asyncio.timeout(5):
        await woken.wait()
