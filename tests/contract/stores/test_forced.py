"""Forced requests: a run of a paused or parked job, and of nothing else of it."""

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import NOW, Worker, a_request, add_job, add_runs, later, state_of
from tokimori.errors import Refused
from tokimori.model.job import Job, JobState
from tokimori.model.lanes import lane_of
from tokimori.model.outcome import Failed
from tokimori.model.policies import Retry
from tokimori.model.request import Manner
from tokimori.model.transitions import RunState
from tokimori.ports.store import Store

FORCED = Manner(forced=True)
STOPPED = pytest.mark.parametrize("state", [JobState.PAUSED, JobState.PARKED])


async def stop(store: Store, job: Job, state: JobState = JobState.PAUSED) -> Job:
    """The job, paused or parked."""
    stopped = replace(job, version=job.version + 1, state=state, reason="r")
    await store.replace_job(job, stopped)
    return stopped


@STOPPED
async def test_a_stopped_job_takes_forced_requests_alone(store: Store, worker: Worker, state: JobState) -> None:
    """The forced run is claimed and ends; what waited before it goes on waiting, and others are refused."""
    job = await add_job(store)
    await add_runs(store, job, 2)
    await stop(store, job, state)
    with pytest.raises(Refused, match=f"is {state}"):
        await store.add_run(a_request(job), NOW)
    forced = await store.add_run(a_request(job), NOW, FORCED)
    assert (await store.survey(NOW)).lanes == (forced.lane,)
    (claimed,) = await worker.claim()
    assert claimed.run.id == forced.id
    await worker.settle(claimed)
    assert await worker.claim() == []


async def test_a_forced_run_obeys_the_limit(store: Store, worker: Worker) -> None:
    """Force passes the pause, not `max_running`; the next one starts in the settle that frees the place."""
    job = await add_job(store, max_running=1)
    await stop(store, job)
    runs = [await store.add_run(a_request(job), NOW, FORCED) for _ in range(2)]
    (claimed,) = await worker.claim()
    assert sorted([str(await state_of(store, run)) for run in runs]) == ["blocked", "running"]
    await worker.settle(claimed)
    assert len(await worker.claim()) == 1


async def test_a_forced_run_is_retried(store: Store, worker: Worker) -> None:
    """What a failure makes wait again is still forced."""
    job = await add_job(store, retry=Retry(attempts=2, delay=1))
    await stop(store, job)
    await store.add_run(a_request(job), NOW, FORCED)
    (claimed,) = await worker.claim()
    await worker.settle(claimed, Failed("again"))
    await store.promote(later(1), 10)
    assert len(await worker.claim()) == 1


async def test_a_forced_run_for_later_waits_for_its_moment(store: Store, worker: Worker) -> None:
    """Its moment is its own, and it keeps its lane until then."""
    job = await add_job(store)
    await stop(store, job)
    run = await store.add_run(a_request(job, due=later(60)), NOW, FORCED)
    assert await worker.claim() == []
    await store.promote(later(60), 10)
    assert [claimed.run.id for claimed in await worker.claim()] == [run.id]


async def test_an_edit_of_a_stopped_job_moves_its_forced_runs_alone(store: Store, worker: Worker) -> None:
    """They wait where nodes of the new definition look; the others wait nowhere, as before."""
    job = await add_job(store)
    (idle,) = await add_runs(store, job, 1)
    paused = await stop(store, job)
    forced = await store.add_run(a_request(job), NOW, FORCED)
    definition = replace(job.definition, queue="other")
    await store.replace_job(paused, replace(paused, version=3, definition=definition))
    assert (await store.get_run(forced.id)).lane == lane_of(definition)
    assert (await store.get_run(idle.id)).lane is None
    assert [claimed.run.id for claimed in await worker.claim()] == [forced.id]


async def test_a_forced_request_from_before_an_edit_waits_where_it_says(store: Store) -> None:
    """Every store keeps the lane that the request brings; an edit moves only the runs that there are."""
    job = await add_job(store)
    paused = await stop(store, job)
    definition = replace(job.definition, queue="other")
    await store.replace_job(paused, replace(paused, version=3, definition=definition))
    forced = await store.add_run(a_request(job), NOW, FORCED)
    assert forced.lane == lane_of(job.definition)
    assert (await store.get_run(forced.id)).lane == forced.lane


async def test_after_a_resume_force_means_nothing(store: Store, worker: Worker) -> None:
    """A resume gives all runs their lane, and the next pause takes it from all of them."""
    job = await add_job(store)
    paused = await stop(store, job)
    forced = await store.add_run(a_request(job), NOW, FORCED)
    resumed = replace(paused, version=3, state=JobState.ENABLED)
    await store.replace_job(paused, resumed)
    await stop(store, resumed)
    assert await worker.claim() == []
    assert await state_of(store, forced) is RunState.READY


async def test_force_of_a_job_that_is_not_stopped_is_a_plain_request(store: Store, worker: Worker) -> None:
    """The run is like any other, and asked for again the same."""
    job = await add_job(store)
    request = a_request(job, "key")
    first = await store.add_run(request, NOW, FORCED)
    assert first == await store.add_run(request, NOW, FORCED) == await store.add_run(a_request(job, "key"), NOW)
    assert [claimed.run.id for claimed in await worker.claim()] == [first.id]
