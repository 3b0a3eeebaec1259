"""A definition that a newer program has put in place of one of ours keeps no other job from its work."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import EVERY_SECOND, NOW, Worker, a_job, add_job, add_runs, fire, later
from tests.contract.stores.conftest import STORES, forget
from tokimori.model.dependents import Parent
from tokimori.model.ids import JobId
from tokimori.model.job import Job, JobState
from tokimori.model.lanes import lane_of, rank_of
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


async def asked(store: Store, statement: str) -> list[tuple[object, ...]]:
    """What the store's database answers."""
    match store:
        case SqliteStore():
            return await store._open.writer.run(lambda db: db.execute(statement).fetchall())
        case PostgresStore():
            return [tuple(row) for row in await store.db.rows(statement)]
        case MysqlStore():
            return await store.db.rows(statement)
        case _:
            raise AssertionError("this store keeps values")


async def define_anew(store: Store, terms: str = '"name":"new"') -> None:
    """What a newer program would write for the job `newer`."""
    await asked(store, NEWER.replace("{", "{" + terms + ",", 1))


async def limits_of(store: Store) -> tuple[object, ...]:
    """The columns of the job `newer` that claims and births go by."""
    (row,) = await asked(store, "SELECT max_running, priority, concurrency_key FROM tokimori_jobs WHERE id = 'newer'")
    return row


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
    """A claim that meets one gives all the others; that one is left, or handed back as it can't be read."""
    _, today = await add_both(store)
    await add_runs(store, today, 1)
    worker = await Worker.join(store)
    claimed = {each.run.job_id: each.definition for each in await worker.claim()}
    newer = claimed.pop(JobId("newer"), None)
    assert newer is None or isinstance(newer.target, Unreadable)
    assert claimed == {"today": today.definition}


async def add_family(store: Store) -> tuple[Job, Job]:
    """A job of today, and one that will be newer and runs after it."""
    parent = await add_job(store, "today")
    child = a_job("newer", parents=(Parent(job="today"),), queue="special", priority=7, concurrency_key="one")
    await store.add_jobs([child], family=0)
    await define_anew(store)
    return parent, child


async def test_its_run_after_a_parent_is_as_its_columns_say(store: Store) -> None:
    """What the job says in columns holds, not what this program can't read of it."""
    parent, child = await add_family(store)
    await add_runs(store, parent, 1)
    worker = await Worker.join(store)
    (claimed,) = await worker.claim()
    await worker.settle(claimed, Succeeded())
    (run,) = await store.list_runs(RunFilter(job_id=child.id))
    assert (run.lane, run.priority, run.concurrency_key) == (lane_of(child.definition), 7, "one")
    assert run.rank == rank_of(run.due, 7)


async def test_deleting_it_leaves_nothing_of_it_in_the_family(store: Store) -> None:
    """Its parent has no child any more."""
    _, child = await add_family(store)
    assert (await store.family()).edges
    await store.delete_job(child.id, NOW)
    assert (await store.family()).edges == ()


async def test_pausing_it_leaves_its_limits(store: Store) -> None:
    """Who stops such a job writes its row anew: what claims go by in it stays what its own program said."""
    newer = await add_job(store, "newer", max_running=1, priority=3, concurrency_key="one")
    await define_anew(store, '"max_running":1,"priority":3,"concurrency_key":"one"')
    stored = await store.get_job(newer.id)
    assert isinstance(stored.definition.target, Unreadable)
    paused = replace(stored, state=JobState.PAUSED, version=2, updated=later(1))
    await store.replace_job(stored, paused)
    await store.replace_job(paused, replace(paused, state=JobState.ENABLED, version=3, updated=later(2)))
    assert await limits_of(store) == (1, 3, "one")
