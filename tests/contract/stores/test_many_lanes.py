"""Claims from many lanes at once."""

from random import Random

from msgspec.structs import replace

from tests.contract.stores.actors import NOW, Worker, a_claim, a_job, a_request
from tokimori.model.ids import Lane
from tokimori.model.lanes import lane_of
from tokimori.ports.store import Store

QUEUES, RUNS = 30, 5


async def test_the_first_of_all_lanes_are_claimed_first(store: Store, worker: Worker) -> None:
    """However many lanes a claim names, and however few runs it wants, it gets the first of all of them, in order."""
    random = Random(1)
    jobs = [a_job(f"job-{n}", queue=f"q{n}", max_running=n % 3 and 40) for n in range(QUEUES)]
    await store.add_jobs(jobs)
    runs = [a_request(job) for job in jobs for _ in range(random.randrange(2 * RUNS))]
    runs = [replace(run, rank=random.randrange(40)) for run in runs]
    for run in runs:
        await store.add_run(run, NOW)
    expected = [run.id for run in sorted(runs, key=lambda run: (run.rank, run.id))]
    lanes: list[Lane] = [lane_of(job.definition) for job in jobs]
    got: list[str] = []
    for limit in (1, 2, 7, 29, 40, 1000):
        got += [each.run.id for each in await store.claim(a_claim(worker.id, lanes, limit), NOW)]
        assert got == expected[: len(got)]
    assert got == expected


async def test_a_full_job_in_front_of_many_lanes_keeps_nobody_waiting(store: Store, worker: Worker) -> None:
    """What a limit refuses goes to the line, and claims one after the other find what is behind it."""
    full = a_job("full", queue="q0", max_running=1)
    jobs = [a_job(f"job-{n}", queue=f"q{n}") for n in range(QUEUES)]
    await store.add_jobs([full, *jobs])
    await store.add_runs([a_request(full, rank=1) for _ in range(300)], NOW)
    for job in jobs:
        await store.add_run(a_request(job), NOW)
    lanes = [lane_of(job.definition) for job in jobs]
    first, *others = [each for _ in range(20) for each in await store.claim(a_claim(worker.id, lanes, 5), NOW)][:5]
    assert first.run.job_id == "full"
    assert len(others) == 4
