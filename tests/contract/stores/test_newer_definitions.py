"""A job that a newer program defined is for newer nodes alone, and keeps no other job from its work."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.stores.actors import EVERY_SECOND, Worker, add_job, add_runs, fire, later
from tests.contract.stores.conftest import STORES, forget
from tokimori.errors import SchemaMismatch
from tokimori.model.job import Job
from tokimori.ports.store import Store
from tokimori.stores.postgres.store import PostgresStore
from tokimori.stores.sqlite.store import SqliteStore

NEWER = """
UPDATE tokimori_jobs SET definition = '{"target":{"type":"noop"},"phase_of_the_moon":"full"}' WHERE id = 'newer'
"""


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """A store that keeps definitions as texts."""
    opened = STORES[request.param](tmp_path)
    await opened.open()
    await opened.migrate()
    yield opened
    await opened.close()
    forget(request.param, tmp_path)


async def define_anew(store: Store) -> None:
    """What a newer program would write for the job `newer`."""
    match store:
        case SqliteStore():
            await store._open.writer.run(lambda db: db.execute(NEWER))
        case PostgresStore():
            await store._db.rows(NEWER)
        case _:
            raise AssertionError("this store keeps values")


async def add_both(store: Store, schedule: str | None = None) -> tuple[Job, Job]:
    """A job of today, and one that will be newer, of which a run is ready."""
    terms = {} if schedule is None else {"schedule": schedule, "next_due": later(1)}
    newer, today = await add_job(store, "newer", **terms), await add_job(store, "today", **terms)
    await add_runs(store, newer, 1)
    await define_anew(store)
    return newer, today


async def test_it_is_neither_fired_nor_listed(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """Others are; a line in the log says why."""
    await add_both(store, EVERY_SECOND)
    with caplog.at_level(logging.WARNING):
        assert [plan.job_id for plan in await fire(store, later(1))] == ["today"]
    assert "'newer' was defined by a newer Tokimori" in caplog.text
    assert [job.id for job in await store.list_jobs()] == ["today"]


async def test_whoever_asks_for_it_is_told_to_upgrade(store: Store) -> None:
    """Neither shown nor edited: what this program does not know would be lost."""
    newer, _ = await add_both(store)
    for ask in (store.get_job, store.get_due):
        with pytest.raises(SchemaMismatch, match="upgrade this one"):
            await ask(newer.id)


async def test_its_runs_are_claimed_as_those_that_are_handed_back(store: Store) -> None:
    """A claim that meets one gives all the others; without its definition the node hands it back."""
    _, today = await add_both(store)
    await add_runs(store, today, 1)
    worker = await Worker.join(store)
    claimed = {each.run.job_id: each.definition for each in await worker.claim()}
    assert claimed == {"newer": None, "today": today.definition}
