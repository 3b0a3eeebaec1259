"""Deleted jobs: what runs goes on to its end, and until then what it belongs to is known; the id is free at once."""

import asyncio
import os

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import NOW, Worker, a_job, a_request, add_job, add_runs, later, state_of
from tokimori.clock import SystemClock
from tokimori.errors import Conflict, InvalidInput, NotFound, Refused
from tokimori.model.dependents import Parent
from tokimori.model.ids import JobId
from tokimori.model.job import JobState
from tokimori.model.outcome import Failed
from tokimori.model.policies import Retry
from tokimori.model.retention import expiry_of_deleted
from tokimori.model.transitions import RunState
from tokimori.ports.store import RunFilter, Store
from tokimori.service.service import service_on


async def test_what_runs_belongs_to_a_deleted_job(store: Store, worker: Worker) -> None:
    """As long as something of it runs, and no longer, the job's definition, version and birth are known."""
    job = await add_job(store, queue="mail", time_zone="Europe/Paris", description="Störung")
    first, second = await add_runs(store, job, 2)
    (claimed,) = await worker.claim(1)
    await store.delete_job(job.id, later(5))
    assert await state_of(store, second) is RunState.CANCELLED
    found = await store.deleted_job(job.id)
    assert (found.id, found.incarnation, found.version, found.definition) == (
        job.id,
        job.incarnation,
        1,
        job.definition,
    )
    assert (found.state, found.created, found.updated, found.next_due) == (JobState.DELETED, NOW, later(5), None)
    with pytest.raises(NotFound):
        await store.get_job(job.id)
    assert await store.list_jobs() == []
    await worker.settle(claimed)
    assert await state_of(store, first) is RunState.SUCCEEDED
    with pytest.raises(NotFound):
        await store.deleted_job(job.id)


async def test_a_job_of_which_nothing_runs_is_gone(store: Store) -> None:
    """What has not started is cancelled with its job, and nothing is kept for it."""
    job = await add_job(store)
    await add_runs(store, job, 2)
    await store.delete_job(job.id, NOW)
    with pytest.raises(NotFound):
        await store.deleted_job(job.id)


async def test_a_job_that_was_changed_since_it_was_read_is_not_deleted(store: Store) -> None:
    """Edited, paused or deleted and added again: it stays with its runs, until it is deleted as it is."""
    job = known = await add_job(store)
    (run_id,) = await add_runs(store, job, 1)
    for changes in ({"version": 2}, {"state": JobState.PAUSED}):
        await store.replace_job(job, changed := replace(job, **changes))
        job = changed
        with pytest.raises(Conflict, match="changed meanwhile"):
            await store.delete_job(job.id, NOW, known)
        assert await store.get_job(job.id) == job
        assert await state_of(store, run_id) is RunState.READY
        known = job
    await store.delete_job(job.id, NOW, job)
    again = await add_job(store)
    with pytest.raises(Conflict):
        await store.delete_job(again.id, NOW, replace(again, incarnation=job.incarnation))
    await store.delete_job(again.id, NOW, again)
    with pytest.raises(NotFound):
        await store.delete_job(again.id, NOW, again)


async def test_the_id_is_free_at_once(store: Store, worker: Worker) -> None:
    """Another job may have it while runs of the old one run; of several lives the one deleted last is told of."""
    claimed = []
    for version in range(3):
        job = await add_job(store, description=f"life {version}")
        await add_runs(store, job, 1)
        claimed += await worker.claim()
        await store.delete_job(job.id, later(version))
    await add_job(store, description="the living one")
    assert (await store.get_job(JobId("job"))).definition.description == "the living one"
    for last in (2, 1, 0):
        assert (await store.deleted_job(JobId("job"))).definition.description == f"life {last}"
        await worker.settle(claimed[last])
    with pytest.raises(NotFound):
        await store.deleted_job(JobId("job"))


async def test_a_run_of_a_deleted_job_is_not_tried_again(store: Store, worker: Worker) -> None:
    """It ends as cancelled where it would have been retried; its successor by name has nothing to do with it."""
    job = await add_job(store, retry=Retry(attempts=5))
    await add_runs(store, job, 1)
    (claimed,) = await worker.claim()
    await store.delete_job(job.id, NOW)
    await add_job(store)
    await worker.settle(claimed, Failed("no"))
    assert await state_of(store, claimed) is RunState.CANCELLED


async def test_a_run_of_a_deleted_job_has_no_children(store: Store, worker: Worker) -> None:
    """Those of another job that has got the id are that one's."""
    job = await add_job(store, "mother")
    await add_runs(store, job, 1)
    (claimed,) = await worker.claim()
    await store.delete_job(job.id, NOW)
    mother = await add_job(store, "mother")
    child = a_job("child", parents=(Parent(job="mother"),))
    await store.add_jobs([child], (await store.family()).version)
    await worker.settle(claimed)
    assert await store.list_runs(RunFilter(job_id=child.id)) == []
    await store.add_run(a_request(mother), NOW)
    (claimed,) = await worker.claim()
    await worker.settle(claimed)
    assert len(await store.list_runs(RunFilter(job_id=child.id))) == 1


async def test_no_child_is_left_behind(store: Store) -> None:
    """Of a child that is added and its parent that is deleted at the same time one is refused, whoever comes first."""
    service = service_on(store, SystemClock(), os.urandom)
    for number in range(20):
        mother, child = f"mother{number}", f"child{number}"
        await service.jobs.add(mother, noop=True)
        adding = service.jobs.add(child, noop=True, parents=[{"job": mother}])
        both = (adding, service.jobs.delete(mother)) if number % 2 else (service.jobs.delete(mother), adding)
        answers = await asyncio.gather(*both, return_exceptions=True)
        assert sum(isinstance(answer, InvalidInput | Refused) for answer in answers) == 1
        there = {job.id for job in await store.list_jobs()}
        assert (child in there) == (mother in there)


async def test_what_was_kept_goes_with_the_rest(store: Store, worker: Worker) -> None:
    """Once the retention of what the job left is over nothing of it is there any more."""
    job = await add_job(store)
    await add_runs(store, job, 1)
    (claimed,) = await worker.claim()
    await store.delete_job(job.id, NOW)
    await worker.settle(claimed, now=NOW)
    expiry = expiry_of_deleted(job.id, job.incarnation, later(86400 * 40))
    assert not await store.prune([expiry], 10)
    await store.prune([expiry], 10)
    assert await store.deleted_jobs(None, 10) == []
    with pytest.raises(NotFound):
        await store.deleted_job(job.id)
