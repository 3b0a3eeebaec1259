"""A definition that a newer program has put in place of one of ours keeps no other job from its work."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.stores.actors import EVERY_SECOND, NOW, Worker, a_job, add_job, add_runs, fire, later
from tests.contract.stores.conftest import STORES, forget
from tokimori.model.dependents import Parent
from tokimori.model.ids import JobId
from tokimori.model.job import Job
from tokimori.model.lanes import lane_of
from tokimori.model.outcome import Succeeded
from tokimori.model.target import Unreadable
from tokimori.ports.store import RunFilter, Store
from tokimori.stores.mysql.store import MysqlStore
from tokimori.stores.postgres.store import PostgresStore
from tokimori.stores.sqlite.store import SqliteStore

NEWER = """
UPDATE tokimori_jobs SET definition = '{"target":{"type":"noop"},"phase_of_the_moon":"full"}' WHERE id = 'newer'
"""


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
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
            await store.db.rows(NEWER)
        case MysqlStore():
            await store.db.ask(NEWER)
        case _:
            raise AssertionError("this store keeps values")


async def add_both(store: Store, schedule: str | None = None) -> tuple[Job, Job]:
    """A job of today, and one that will be newer, of which a run is ready."""
    terms = {} if schedule is None else {"schedule": schedule, "next_due": later(1)}
    newer, today = await add_job(store, "newer", **terms), await add_job(store, "today", **terms)
    await add_runs(store, newer, 1)
    await define_anew(store)
    return newer, today


async def test_it_is_not_fired(store: Store) -> None:
    """Others are; it is listed with the reason."""
    await add_both(store, EVERY_SECOND)
    assert [plan.job_id for plan in await fire(store, later(1))] == ["today"]
    newer, _ = await store.list_jobs()
    assert isinstance(newer.definition.target, Unreadable)
    assert "phase_of_the_moon" in newer.definition.target.why


async def test_its_runs_are_claimed_as_those_that_are_handed_back(store: Store) -> None:
    """A claim that meets one gives all the others; that one is left, or handed back for want of a definition."""
    _, today = await add_both(store)
    await add_runs(store, today, 1)
    worker = await Worker.join(store)
    claimed = {each.run.job_id: each.definition for each in await worker.claim()}
    assert claimed.pop(JobId("newer"), None) is None
    assert claimed == {"today": today.definition}


async def add_family(store: Store) -> tuple[Job, Job]:
    """A job of today, and one that will be newer and runs after it."""
    parent = await add_job(store, "today")
    child = a_job("newer", parents=(Parent(job="today"),), queue="special")
    await store.add_jobs([child], family=0)
    await define_anew(store)
    return parent, child


async def test_its_run_after_a_parent_waits_in_its_own_lane(store: Store) -> None:
    """What the job says in columns holds, not what this program can't read of it."""
    parent, child = await add_family(store)
    await add_runs(store, parent, 1)
    worker = await Worker.join(store)
    (claimed,) = await worker.claim()
    await worker.settle(claimed, Succeeded())
    (run,) = await store.list_runs(RunFilter(job_id=child.id))
    assert run.lane == lane_of(child.definition)


async def test_deleting_it_leaves_nothing_of_it_in_the_family(store: Store) -> None:
    """Its parent has no child any more."""
    _, child = await add_family(store)
    assert (await store.family()).edges
    await store.delete_job(child.id, NOW)
    assert (await store.family()).edges == ()
