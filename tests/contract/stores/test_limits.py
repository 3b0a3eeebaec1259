"""Limits: never exceeded, waited for in one line, and every freed place finds the next in line."""

import asyncio

import msgspec

from tests.contract.stores.actors import NOW, Worker, a_request, add_job, add_runs, later, state_of
from tokimori.clock import Moment
from tokimori.model.job import Job
from tokimori.model.outcome import Failed, Hold, Released, RetryAt
from tokimori.model.policies import Retry
from tokimori.model.run import Run
from tokimori.model.transitions import RunState
from tokimori.ports.store import Store
from tokimori.ports.working import Claimed, Verdict


async def states(store: Store, runs: list[Run]) -> list[str]:
    """The states of these runs, in order."""
    return [str(await state_of(store, run)) for run in runs]


def with_limit(job: Job, limit: int) -> Job:
    """The job after an edit of its limit."""
    definition = msgspec.structs.replace(job.definition, max_running=limit)
    return msgspec.structs.replace(job, definition=definition, version=job.version + 1)


async def test_what_does_not_fit_stands_in_line(store: Store, worker: Worker) -> None:
    """A claim takes as many runs of a job as its limit allows, in order; the rest is blocked."""
    runs = await add_runs(store, await add_job(store, max_running=2), 4)
    assert [claimed.run.id for claimed in await worker.claim()] == [runs[0].id, runs[1].id]
    assert await states(store, runs) == ["running", "running", "blocked", "blocked"]
    assert (await store.survey(NOW)).lanes == ()


async def test_of_many_jobs_each_keeps_its_own_limit(store: Store, worker: Worker) -> None:
    """Runs of many jobs that come at once start where their job has a place, whoever else is among them."""
    jobs = [await add_job(store, name, max_running=limit) for name, limit in [("a", 1), ("b", 1), ("c", 2), ("d", 0)]]
    first = [await store.add_run(a_request(job, "first"), NOW) for job in jobs]
    assert {each.run.id for each in await worker.claim()} == {run.id for run in first}
    second = [await store.add_run(a_request(job, "second"), NOW) for job in jobs]
    assert {each.run.id for each in await worker.claim()} == {second[2].id, second[3].id}
    assert await states(store, second) == ["blocked", "blocked", "running", "running"]


async def test_two_of_one_job_among_others_are_one_too_many(store: Store, worker: Worker) -> None:
    """Where a job has two runs among those that are claimed and one place, the other one stands in line."""
    twice = await add_runs(store, await add_job(store, "twice", max_running=1), 2)
    once = await add_runs(store, await add_job(store, "once", max_running=1), 1)
    assert {each.run.id for each in await worker.claim()} == {twice[0].id, once[0].id}
    assert await states(store, twice) == ["running", "blocked"]


async def test_a_full_job_delays_only_its_own_runs(store: Store, worker: Worker) -> None:
    """Runs of other jobs behind those of a full one are claimed."""
    await add_runs(store, await add_job(store, "full", max_running=1), 12)
    free = await add_runs(store, await add_job(store, "free"), 3)
    claimed = await worker.claim(4)
    assert {run.id for run in free} < {each.run.id for each in claimed}
    assert len(claimed) == 4


async def test_what_comes_when_a_claim_has_enough_stays_ready(store: Store, worker: Worker) -> None:
    """A claim that has all it asked for sends nobody to a line: what is behind its last run stays ready."""
    full, free = await add_job(store, "full", max_running=1), await add_job(store, "free")
    await store.add_run(a_request(full, due=Moment(NOW - 9)), NOW)
    await worker.claim(1)
    jobs = [full, free, full]
    runs = [await store.add_run(a_request(job, due=Moment(NOW - 8 + n)), NOW) for n, job in enumerate(jobs)]
    assert [each.run.id for each in await worker.claim(1)] == [runs[1].id]
    assert await states(store, runs) == ["blocked", "running", "ready"]


async def test_a_freed_place_wakes_the_next_in_line(store: Store, worker: Worker) -> None:
    """Whatever ends an attempt wakes the head of the line, in the order of the line."""
    job = await add_job(store, max_running=1, retry=Retry(attempts=2, delay=60))
    runs = await add_runs(store, job, 4)
    outcomes = [None, Failed("try again"), Hold("look")]
    for n, outcome in enumerate(outcomes):
        (claimed,) = await worker.claim()
        assert claimed.run.id == runs[n].id
        await worker.settle(claimed, outcome)
        assert await state_of(store, runs[n + 1]) is RunState.READY
    assert await states(store, runs) == ["succeeded", "waiting", "held", "ready"]


async def test_a_released_run_rejoins_by_its_rank(store: Store, worker: Worker) -> None:
    """A run that is given back is before those behind it, though one of them was woken."""
    runs = await add_runs(store, await add_job(store, max_running=1), 3)
    (claimed,) = await worker.claim()
    await worker.settle(claimed, Released("later"))
    (again,) = await worker.claim()
    assert again.run.id == runs[0].id
    assert await states(store, runs) == ["running", "blocked", "blocked"]


async def test_the_line_is_ordered_by_rank(store: Store, worker: Worker) -> None:
    """The more urgent of two blocked runs is woken first, whenever it came."""
    job = await add_job(store, max_running=1)
    (first, usual) = await add_runs(store, job, 2)
    (running,) = await worker.claim()
    urgent = await store.add_run(a_request(job, rank=first.rank - 1), NOW)
    assert await worker.claim() == []
    await worker.settle(running)
    assert await states(store, [urgent, usual]) == ["ready", "blocked"]


async def test_several_freed_places_wake_as_many(store: Store, worker: Worker) -> None:
    """A batch that frees three places wakes three, and no more."""
    runs = await add_runs(store, await add_job(store, max_running=3), 8)
    changes = [worker.change(claimed) for claimed in await worker.claim()]
    assert await store.settle(changes, worker.id, NOW) == [Verdict.APPLIED] * 3
    assert await states(store, runs[3:]) == ["ready"] * 3 + ["blocked"] * 2


async def test_a_cancelled_head_of_the_line_passes_its_turn_on(store: Store, worker: Worker) -> None:
    """A woken run that is cancelled wakes the next one."""
    runs = await add_runs(store, await add_job(store, max_running=1), 3)
    (claimed,) = await worker.claim()
    await worker.settle(claimed)
    await store.cancel_run(runs[1].id, "enough", NOW)
    assert await states(store, runs) == ["succeeded", "cancelled", "ready"]


async def test_a_cancelled_run_in_line_wakes_nobody(store: Store, worker: Worker) -> None:
    """While the job is full, cancelling a blocked run frees no place."""
    runs = await add_runs(store, await add_job(store, max_running=1), 3)
    await worker.claim()
    await store.cancel_run(runs[1].id, "enough", NOW)
    assert await states(store, runs) == ["running", "cancelled", "blocked"]


async def test_a_larger_limit_wakes_as_many_as_fit(store: Store, worker: Worker) -> None:
    """When an edit raises the limit, or takes it away, the line moves up."""
    job = await add_job(store, max_running=1)
    runs = await add_runs(store, job, 6)
    await worker.claim()
    larger = with_limit(job, 3)
    await store.replace_job(job, larger)
    assert await states(store, runs) == ["running", "ready", "ready", *["blocked"] * 3]
    assert len(await worker.claim()) == 2
    assert await states(store, runs) == ["running"] * 3 + ["blocked"] * 3
    await store.replace_job(larger, with_limit(larger, 0))
    assert len(await worker.claim()) == 3


async def test_a_smaller_limit_holds_from_the_next_claim(store: Store, worker: Worker) -> None:
    """When an edit lowers the limit, nothing is claimed until enough has ended."""
    job = await add_job(store, max_running=3)
    runs = await add_runs(store, job, 6)
    running = await worker.claim()
    await store.replace_job(job, with_limit(job, 1))
    for claimed in running[:2]:
        await worker.settle(claimed)
        assert await states(store, runs[3:]) == ["blocked"] * 3
        assert await worker.claim() == []
    await worker.settle(running[2])
    assert len(await worker.claim()) == 1


async def test_the_line_is_never_forgotten(store: Store, worker: Worker) -> None:
    """Whatever becomes of the runs before them, blocked ones all run in the end."""
    job = await add_job(store, max_running=2)
    await add_runs(store, job, 30)
    outcomes = [None, Released("later"), RetryAt(NOW), Hold("look"), Failed("broken")]
    settled = 0
    for turn in range(200):
        batch = await worker.claim(3)
        assert len(batch) <= 2
        for claimed in batch:
            await worker.settle(claimed, outcomes[settled % len(outcomes)])
            settled += 1
        if turn % 7 == 0:
            await store.promote(NOW, 10)
        if not batch and (await store.get_due(job.id)).active == 0:
            break
    assert (await store.get_due(job.id)).active == 0


async def test_a_limit_is_exact_whatever_claims_at_the_same_time(store: Store) -> None:
    """Eight nodes that claim at once get no more of a job than its limit, round after round."""
    job = await add_job(store, max_running=3)
    await add_runs(store, job, 24)
    workers = [await Worker.join(store) for _ in range(8)]
    held: list[tuple[Worker, Claimed]] = []
    ended = 0
    while ended < 24:
        batches = await asyncio.gather(*(worker.claim(2) for worker in workers))
        held += [(worker, each) for worker, batch in zip(workers, batches, strict=True) for each in batch]
        assert 1 <= len(held) <= 3
        worker, claimed = held.pop(0)
        assert await worker.settle(claimed, now=later(1)) is Verdict.APPLIED
        ended += 1
    assert held == []


async def test_a_limit_counts_what_a_dead_node_still_owns(store: Store, worker: Worker, other: Worker) -> None:
    """A dead node's run holds its place until it is settled, then frees it."""
    await add_runs(store, await add_job(store, max_running=1), 2)
    (lost,) = await worker.claim()
    await worker.die(by=other)
    assert await other.claim() == []
    await store.settle([worker.change(lost)], other.id, NOW)
    assert len(await other.claim()) == 1
