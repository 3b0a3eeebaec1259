"""Holding a run back, letting it go on, and parking a job whose run has used up its retries."""

import msgspec
import pytest

from tests.contract.stores.actors import NOW, Worker, a_request, add_job, add_runs, fire, later, state_of
from tokimori.errors import NotFound, Refused
from tokimori.model.ids import RunId
from tokimori.model.job import JobState
from tokimori.model.outcome import Failed, Hold, Lost, Succeeded
from tokimori.model.policies import OnExhausted, Retry
from tokimori.model.settle import NEVER_AGAIN, parked
from tokimori.model.transitions import RunState
from tokimori.ports.store import Store
from tokimori.ports.working import Verdict


async def test_a_held_run_is_not_claimed(store: Store, worker: Worker) -> None:
    """A run that is held before it starts keeps its reason, and no claim gets it."""
    run = await store.add_run(a_request(await add_job(store)), NOW)
    held = await store.hold_run(run.id, "look at it first")
    assert (held.state, held.error) == (RunState.HELD, "look at it first")
    assert await worker.claim() == []
    assert await store.hold_run(run.id, "again") == held


async def test_a_resumed_run_goes_on(store: Store, worker: Worker) -> None:
    """A held run that is resumed becomes ready when it is due."""
    job = await add_job(store)
    now, soon = [await store.add_run(a_request(job, due=due), NOW) for due in (NOW, later(60))]
    for run in (now, soon):
        await store.hold_run(run.id, "wait")
        resumed = await store.resume_run(run.id)
        assert (resumed.state, resumed.error) == (RunState.WAITING, None)
    await store.promote(NOW, 10)
    assert [claimed.run.id for claimed in await worker.claim()] == [now.id]
    assert await state_of(store, soon) is RunState.WAITING


async def test_a_run_that_asked_for_a_person_is_resumed(store: Store, worker: Worker) -> None:
    """An attempt that asked to be held is tried again after its resume."""
    run = await store.add_run(a_request(await add_job(store)), NOW)
    (claimed,) = await worker.claim()
    await worker.settle(claimed, Hold("which one?"))
    await store.resume_run(run.id)
    await store.promote(NOW, 10)
    (again,) = await worker.claim()
    assert (again.run.id, again.run.attempt) == (run.id, 2)


async def test_only_what_can_be_held_is(store: Store, worker: Worker) -> None:
    """A running or ended run is not held, an ended one not resumed; a ready one is as it was after a resume."""
    job = await add_job(store)
    (first, second) = await add_runs(store, job, 2)
    (claimed,) = await worker.claim(1)
    with pytest.raises(Refused, match="running"):
        await store.hold_run(first.id, "too late")
    assert (await store.resume_run(second.id)).state is RunState.READY
    await worker.settle(claimed)
    with pytest.raises(Refused, match="succeeded"):
        await store.hold_run(first.id, "too late")
    with pytest.raises(Refused, match="succeeded"):
        await store.resume_run(first.id)
    with pytest.raises(NotFound):
        await store.hold_run(RunId("00000000-0000-7000-8000-000000000000"), "which?")


async def test_a_ready_run_that_is_held_passes_its_turn_on(store: Store, worker: Worker) -> None:
    """When the head of a line was woken and is held, the next one is woken instead."""
    runs = await add_runs(store, await add_job(store, max_running=1), 3)
    (claimed,) = await worker.claim()
    await worker.settle(claimed)
    assert await state_of(store, runs[1]) is RunState.READY
    await store.hold_run(runs[1].id, "wait")
    assert await state_of(store, runs[2]) is RunState.READY


async def test_a_held_run_counts_for_nothing(store: Store, worker: Worker) -> None:
    """A held run keeps no occurrence of its job from running."""
    job = await add_job(store, schedule="* * * * * *", next_due=later(1), misfire="all")
    await fire(store, later(1))
    (claimed,) = await worker.claim(now=later(1))
    await worker.settle(claimed, Hold("look"))
    assert (await store.get_due(job.id)).active == 0


async def test_an_exhausted_run_parks_its_job(store: Store, worker: Worker) -> None:
    """The end of the last try of a job that parks stops the job with the error, and none of its runs is claimed."""
    job = await add_job(store, on_exhausted=OnExhausted.PARK, retry=Retry(attempts=2), next_due=later(60))
    await add_runs(store, job, 2)
    claimed, _ = await worker.claim()
    await worker.settle(claimed, Failed("no"))
    assert (await store.get_job(job.id)).state is JobState.ENABLED
    await store.promote(NOW, 10)
    (claimed,) = await worker.claim()
    await worker.settle(claimed, Failed("no again"))
    stopped = await store.get_job(job.id)
    assert (stopped.state, stopped.reason, stopped.by, stopped.next_due) == (
        JobState.PARKED,
        "no again",
        "tokimori",
        None,
    )
    assert (await store.survey(NOW)).next_due is None


async def test_parking_is_no_edit(store: Store, worker: Worker) -> None:
    """A job that its run's failure stops differs by its state, reason, author and next moment, and by nothing else."""
    job = await add_job(store, on_exhausted=OnExhausted.PARK, next_due=later(60))
    await store.add_run(a_request(job), NOW)
    (claimed,) = await worker.claim()
    before = await store.get_job(job.id)
    await worker.settle(claimed, Failed("no"))
    assert await store.get_job(job.id) == parked(before, "no")


async def test_whoever_parks_a_job_leaves_the_same(store: Store) -> None:
    """A node that can't decide a job parks it as a settle does; another node that does the same changes nothing."""
    job = await add_job(store, next_due=later(60))
    for _ in range(2):
        await store.replace_job(job, parked(job, "no moment"))
        assert await store.get_job(job.id) == parked(job, "no moment")


async def test_runs_of_a_parked_job_wait_for_its_resume(store: Store, worker: Worker) -> None:
    """What was ready when the job was parked is claimed once it is enabled again."""
    job = await add_job(store, on_exhausted=OnExhausted.PARK)
    await add_runs(store, job, 2)
    (claimed,) = await worker.claim(1)
    await worker.settle(claimed, Failed("no"))
    assert await worker.claim() == []
    stopped = await store.get_job(job.id)
    await store.replace_job(stopped, msgspec.structs.replace(stopped, state=JobState.ENABLED, reason=None, by=None))
    assert len(await worker.claim()) == 1


async def test_a_failure_that_parks_gives_its_place_to_one(store: Store, worker: Worker) -> None:
    """Whoever is next in the line of the job's limit becomes ready, and nobody whose place is not free."""
    runs = await add_runs(store, await add_job(store, on_exhausted=OnExhausted.PARK, max_running=2), 5)
    first, second = await worker.claim()
    await worker.settle(first)
    await worker.settle(second, Failed("no"))
    assert [await state_of(store, run) for run in runs] == ["succeeded", "failed", "ready", "ready", "blocked"]


async def test_a_lost_run_parks_its_job_too(store: Store, worker: Worker, other: Worker) -> None:
    """A job that loses more attempts than it may is parked by whoever reaps them."""
    job = await add_job(store, on_exhausted=OnExhausted.PARK, retry=Retry(lost_attempts=0))
    await store.add_run(a_request(job), NOW)
    (claimed,) = await worker.claim()
    await worker.die(by=other)
    change = worker.change(claimed, Lost("its node died"))
    assert await store.settle([change], other.id, NOW) == [Verdict.APPLIED]
    assert (await store.get_job(job.id)).reason == f"its node died; {NEVER_AGAIN}"


async def test_a_success_parks_nothing(store: Store, worker: Worker) -> None:
    """A job that parks goes on after a success, and so does another whose run failed."""
    careful = await add_job(store, "careful", on_exhausted=OnExhausted.PARK)
    other = await add_job(store, "other")
    for job, outcome in ((careful, Succeeded(0)), (other, Failed("no"))):
        await store.add_run(a_request(job), NOW)
        (claimed,) = await worker.claim()
        await worker.settle(claimed, outcome)
        assert (await store.get_job(job.id)).state is JobState.ENABLED


async def test_a_paused_job_stays_paused(store: Store, worker: Worker) -> None:
    """A run of a job that somebody paused meanwhile leaves the reason as it is."""
    job = await add_job(store, on_exhausted=OnExhausted.PARK)
    await store.add_run(a_request(job), NOW)
    (claimed,) = await worker.claim()
    await store.replace_job(job, msgspec.structs.replace(job, state=JobState.PAUSED, reason="by hand"))
    await worker.settle(claimed, Failed("no"))
    assert (await store.get_job(job.id)).reason == "by hand"
