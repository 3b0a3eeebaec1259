"""What changes between a Redis store's look and its script: the script looks again."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import EVERY_SECOND, add_job, fire, later
from tests.contract.stores.conftest import STORES, forget
from tests.contract.stores.test_lost_replies import contents
from tokimori.errors import Conflict, NotFound
from tokimori.model.ids import JobId
from tokimori.model.job import Job, JobState
from tokimori.ports.store import Store
from tokimori.stores.redis import jobs
from tokimori.stores.redis.connections import RedisConnections

Meanwhile = Callable[[Store, Job], Awaitable[object]]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """An open, empty store."""
    store = STORES["redis"](tmp_path)
    await store.open()
    await store.migrate()
    yield store
    await store.close()
    forget("redis", tmp_path)


MEANWHILE: dict[str, Meanwhile] = {
    "it was edited": lambda store, job: store.replace_job(job, replace(job, version=2, reason="first")),
    "it fired": lambda store, _job: fire(store, later(2)),
    "it finished": lambda store, job: store.replace_job(job, replace(job, version=1, state=JobState.FINISHED)),
    "it was deleted": lambda store, job: store.delete_job(job.id, later(2)),
}


@pytest.mark.parametrize("meanwhile", MEANWHILE)
async def test_an_edit_of_what_changed_meanwhile_changes_nothing(
    store: Store, meanwhile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edit whose job changed after it was looked at is refused, and leaves cursor, runs and ledger as they are."""
    job = await add_job(store, schedule=EVERY_SECOND, next_due=later(1), max_running=0)
    look, after = jobs.get_job, []

    async def look_and_be_overtaken(db: RedisConnections, job_id: JobId) -> Job:
        seen = await look(db, job_id)
        monkeypatch.setattr(jobs, "get_job", look)
        await MEANWHILE[meanwhile](store, job)
        after.append(await contents(store))
        return seen

    monkeypatch.setattr(jobs, "get_job", look_and_be_overtaken)
    with pytest.raises((Conflict, NotFound)):
        await store.replace_job(job, replace(job, version=2, reason="second"))
    assert after == [await contents(store)]
