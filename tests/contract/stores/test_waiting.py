"""A stated `max_waiting`: so many active runs and no more, wherever they come from and whoever asks meanwhile."""

import asyncio

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import (
    EVERY_SECOND,
    NOW,
    Worker,
    a_job,
    a_request,
    add_job,
    add_runs,
    fire,
    later,
    planned,
    state_of,
)
from tokimori.errors import Refused
from tokimori.model.dependents import Parent
from tokimori.model.ids import JobId
from tokimori.model.job import Job
from tokimori.model.outcome import Failed
from tokimori.model.policies import Overlap, Retry
from tokimori.model.run import SkipReason
from tokimori.model.transitions import RunState
from tokimori.ports.store import RunFilter, Store
from tokimori.ports.working import Verdict


async def ask(store: Store, job: Job) -> bool:
    """Ask for one more run; whether it was made."""
    try:
        await store.add_run(a_request(job), NOW)
    except Refused as refused:
        assert (refused.field, bool(refused.allowed)) == ("max_waiting", True)
        return False
    return True


async def active(store: Store, job: Job) -> int:
    """How many active runs the job has."""
    return (await store.get_due(job.id)).active


async def add_scheduled(store: Store, **terms: object) -> Job:
    """A job with an occurrence every second, of which one runs, and others queue."""
    terms = {"schedule": EVERY_SECOND, "next_due": later(1), "on_overlap": Overlap.QUEUE, **terms}
    return await add_job(store, **terms)  # type: ignore[arg-type]


async def test_five_run_and_five_wait(store: Store, worker: Worker) -> None:
    """Kōjō's limit and allowance: further requests are refused, and each end starts a standby and lets one more in."""
    job = await add_job(store, max_running=5, max_waiting=5)
    assert [await ask(store, job) for _ in range(12)] == [True] * 10 + [False] * 2
    running = await worker.claim()
    assert len(running) == 5
    assert not await ask(store, job)
    await worker.settle(running[0])
    waiting = [
        run.state for run in await store.list_runs(RunFilter(job_id=job.id)) if run.state in {"ready", "blocked"}
    ]
    assert sorted(waiting) == ["blocked"] * 4 + ["ready"]
    assert await ask(store, job)
    assert not await ask(store, job)


async def test_nobody_waits(store: Store, worker: Worker) -> None:
    """With `max_waiting` 0 a request needs a free place."""
    job = await add_job(store, max_running=1, max_waiting=0)
    assert [await ask(store, job) for _ in range(2)] == [True, False]
    (claimed,) = await worker.claim()
    assert not await ask(store, job)
    await worker.settle(claimed)
    assert await ask(store, job)


async def test_a_known_request_is_no_further_one(store: Store) -> None:
    """The same key again gives the same run, however full the job is."""
    job = await add_job(store, max_running=1, max_waiting=0)
    first = await store.add_run(a_request(job, "key"), NOW)
    assert (await store.add_run(a_request(job, "key"), NOW)).id == first.id


async def test_what_waits_for_its_moment_or_a_retry_counts(store: Store, worker: Worker) -> None:
    """A request for later is told at once that there is no room; what was let in once comes back after a failure."""
    job = await add_job(store, max_running=1, max_waiting=1, retry=Retry(attempts=2, delay=60))
    await store.add_run(a_request(job), NOW)
    (claimed,) = await worker.claim()
    await store.add_run(a_request(job, due=later(600)), NOW)
    await worker.settle(claimed, Failed("again"))
    assert await state_of(store, claimed) is RunState.WAITING
    assert not await ask(store, job)


async def test_a_held_run_counts_for_nothing(store: Store) -> None:
    """While somebody holds a run another may wait in its place; its resume is that person's decision."""
    job = await add_job(store, max_running=1, max_waiting=0)
    held = await store.add_run(a_request(job), NOW)
    await store.hold_run(held.id, "wait")
    assert await ask(store, job)
    await store.resume_run(held.id)
    assert await active(store, job) == 2
    assert not await ask(store, job)


async def test_occurrences_queue_up_to_the_bound(store: Store, worker: Worker) -> None:
    """With `on_overlap = queue` one runs, two wait, and the others are skipped as `full`."""
    job = await add_scheduled(store, max_waiting=2)
    await fire(store, later(6))
    assert await active(store, job) == 3
    (skip,) = await store.skips(job.id)
    assert (skip.first, skip.last, skip.count, skip.reason) == (later(4), later(6), 3, SkipReason.FULL)
    (claimed,) = await worker.claim()
    await worker.settle(claimed)
    await fire(store, later(7))
    assert await active(store, job) == 3


async def test_a_plan_that_others_were_before_is_made_again(store: Store) -> None:
    """Whoever planned for a place that a request took meanwhile writes nothing, and decides anew."""
    job = await add_scheduled(store, max_waiting=0)
    plan, ids = planned(await store.get_due(job.id), later(1))
    assert len(ids) == 1
    await store.add_run(a_request(job), NOW)
    assert await store.apply([(plan, ids)], later(1)) == [False]
    assert (await active(store, job), await store.skips(job.id)) == (1, [])
    await fire(store, later(1))
    assert [skip.reason for skip in await store.skips(job.id)] == [SkipReason.FULL]


async def test_plans_of_one_batch_share_the_room(store: Store) -> None:
    """A plan that goes on from another one in the same call finds the places taken that the first one took."""
    job = await add_scheduled(store, max_waiting=1)
    due = await store.get_due(job.id)
    first, ids = planned(due, later(1))
    decided = replace(due, job=replace(job, fired_through=later(1)))
    second, more_ids = planned(decided, later(3))
    assert (len(ids), len(more_ids)) == (1, 2)
    assert await store.apply([(first, ids), (second, more_ids)], later(3)) == [True, False]
    assert await active(store, job) == 1


async def test_a_child_too_many_is_a_skip(store: Store, worker: Worker) -> None:
    """Nobody can be told: what the child could not take in stands in its ledger, at the end of the parents."""
    await add_runs(store, await add_job(store, "parent"), 4)
    child = a_job("child", parents=(Parent(job="parent"),), max_running=1, max_waiting=1)
    await store.add_jobs([child], (await store.family()).version)
    claimed = await worker.claim()
    changes = [worker.change(each, now=later(10)) for each in claimed]
    assert await store.settle(changes, worker.id, NOW) == [Verdict.APPLIED] * 4
    assert await active(store, child) == 2
    skips = await store.skips(JobId("child"))
    assert [(skip.first, skip.count, skip.reason) for skip in skips] == [(later(10), 2, SkipReason.FULL)]


async def test_a_child_is_there_in_the_place_of_one_that_ends_with_its_parent(store: Store, worker: Worker) -> None:
    """One settle ends the parent and the child's only run: the next one has room, in whatever order they came."""
    parent = await add_job(store, "parent")
    child = a_job("child", parents=(Parent(job="parent"),), max_running=1, max_waiting=0)
    await store.add_jobs([child], (await store.family()).version)
    await store.add_run(a_request(parent), NOW)
    await store.add_run(a_request(child), NOW)
    of_child, of_parent = sorted(await worker.claim(), key=lambda each: each.run.job_id)
    await store.settle([worker.change(of_parent), worker.change(of_child)], worker.id, NOW)
    assert (await active(store, child), await store.skips(child.id)) == (1, [])


async def test_an_edit_changes_the_bound(store: Store) -> None:
    """A larger number lets more in at once; a smaller one drops nothing."""
    job = await add_job(store, max_running=1, max_waiting=0)
    assert [await ask(store, job) for _ in range(2)] == [True, False]
    larger = replace(job, version=2, definition=replace(job.definition, max_waiting=2))
    await store.replace_job(job, larger)
    assert [await ask(store, job) for _ in range(3)] == [True, True, False]
    smaller = replace(larger, version=3, definition=replace(job.definition, max_waiting=1))
    await store.replace_job(larger, smaller)
    assert await active(store, job) == 3
    free = replace(smaller, version=4, definition=replace(job.definition, max_waiting=None))
    await store.replace_job(smaller, free)
    assert await ask(store, job)


@pytest.mark.parametrize("rounds", [3])
async def test_the_bound_is_exact_whatever_comes_at_the_same_time(store: Store, rounds: int) -> None:
    """Requests, occurrences, children and ends at once: never more active runs than may be, and room is used."""
    await add_runs(store, await add_job(store, "parent"), 30)
    job = a_job(
        "full",
        schedule=EVERY_SECOND,
        next_due=later(1),
        on_overlap=Overlap.QUEUE,
        max_running=2,
        max_waiting=3,
    )
    child = a_job("child", parents=(Parent(job="parent"),), max_running=2, max_waiting=3)
    await store.add_jobs([job, child], (await store.family()).version)
    workers = [await Worker.join(store) for _ in range(4)]

    async def work(worker: Worker, now: int) -> None:
        for claimed in await worker.claim(4, now=later(now)):
            await worker.settle(claimed, now=later(now))

    for n in range(1, rounds + 1):
        await asyncio.gather(
            *(ask(store, job) for _ in range(8)),
            *(ask(store, child) for _ in range(4)),
            *(fire(store, later(2 * n)) for _ in range(2)),
            *(work(worker, 2 * n) for worker in workers),
        )
        assert await active(store, job) <= 5
        assert await active(store, child) <= 5
    while await ask(store, job):
        pass
    assert await active(store, job) == 5
