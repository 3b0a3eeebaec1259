"""Namespaces: installations in one database never see each other, whatever they call their jobs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest

from tests.contract.stores.actors import Worker, later
from tests.contract.stores.conftest import StoppedClock, forget
from tests.contract.stores.filled import fill
from tests.servers import mariadb, postgres, redis
from tokimori.errors import Refused
from tokimori.ports.copying import Kind
from tokimori.ports.store import RunFilter, Store
from tokimori.service.copying import copy_store
from tokimori.stores.open import open_store

NAMES = ("", "one", "one_2")


def url_of(kind: str, folder: Path) -> str:
    """The URL of the database that stands for a folder."""
    match kind:
        case "sqlite":
            return f"sqlite://{folder}/t.db"
        case "postgres":
            return postgres.loans.url_of(folder)
        case "redis":
            return redis.loans.url_of(folder)
        case _:
            return mariadb.loans.url_of(folder)


@pytest.fixture(params=["sqlite", "postgres", "redis", "mariadb"])
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[list[Store]]:
    """Three installations in one database, whose tables were made at the same time."""
    url = url_of(request.param, tmp_path)
    mark = "&" if "?" in url else "?"
    async with AsyncExitStack() as stack:
        opened = [open_store(f"{url}{mark}namespace={name}" if name else url, StoppedClock()) for name in NAMES]
        for store in opened:
            await store.open()
            stack.push_async_callback(store.close)
        await asyncio.gather(*(store.migrate() for store in opened))
        yield opened
    forget(request.param, tmp_path)


async def digests(store: Store, empty: Store) -> list[tuple[Kind, int, str]]:
    """What a store holds."""
    copied = await copy_store(store, empty, lambda _step: None)
    return [(each.kind, each.rows, each.digest) for each in copied]


async def test_nothing_is_seen_of_others(stores: list[Store]) -> None:
    """What one installation has is not there in the others."""
    await fill(stores[1])
    for store in (stores[0], stores[2]):
        assert await store.list_jobs() == []
        assert await store.list_runs(RunFilter()) == []
        assert await store.list_documents("calendar") == []
        assert await store.list_pauses() == []
        assert await store.list_nodes() == []
        assert (await store.family()).edges == ()
        assert (await store.survey(later(100))).lanes == ()
        assert await store.due(later(100), 10) == []
        for kind in set(Kind) - {Kind.JOBS, Kind.PAUSES}:
            assert await store.export_rows(kind, None, 10) == []


async def test_the_same_jobs_live_in_each(stores: list[Store]) -> None:
    """Jobs of the same ids are added and worked on in each; what one does leaves the others as they were."""
    mirror = open_store("memory:", StoppedClock())
    await fill(stores[0])
    before = await digests(stores[0], mirror)
    for store in stores[1:]:
        await fill(store)
        worker = await Worker.join(store)
        claimed = await worker.claim(now=later(100))
        assert {each.run.job_id for each in claimed} == {"every", "limited", "mutual"}
        for each in claimed:
            await worker.settle(each, now=later(100))
        await store.delete_job((await store.get_job(claimed[0].run.job_id)).id, later(100))
    assert await digests(stores[0], mirror) == before


async def test_each_has_its_own_tables(stores: list[Store]) -> None:
    """Each has its own migrations, and every table, index and function under its own name."""
    for store in stores:
        status = await store.schema()
        assert (status.version, status.pending) == (status.newest, ())
        with suppress(Refused):  # of stores that can't be looked into
            assert await store.differences() == []


async def test_an_installation_is_copied_beside_itself(stores: list[Store]) -> None:
    """From one namespace to another of the same database."""
    await fill(stores[2])
    copied = await copy_store(stores[2], stores[1], lambda _step: None)
    assert all(each.rows == each.written > 0 for each in copied)
