"""Lists leave out long texts where they are asked to: these don't leave the store."""

import tracemalloc
from collections.abc import Awaitable, Callable, Sequence

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import NOW, Worker, a_request, add_job, add_runs
from tokimori.model.ids import JobId
from tokimori.model.job import Job
from tokimori.model.outcome import Failed, Succeeded
from tokimori.model.run import Details, Run, brief
from tokimori.model.transitions import RunState
from tokimori.ports.store import OCCURRENCES, Most, RunFilter, Store
from tokimori.service.jobs.ledger import pages_of_runs
from tokimori.stores.memory.store import MemoryStore

BOUNDS = (None, 0, 3, 12, 10**6)
FILTERS = (
    RunFilter(limit=50),
    RunFilter(job_id=JobId("job"), limit=50),
    *(RunFilter(states=frozenset({state}), limit=50) for state in RunState),
    *(RunFilter(job_id=JobId("job"), states=frozenset({state}), limit=50) for state in RunState),
)
RUNS, SIZE = 200, 50_000


async def _runs_with_texts(store: Store, worker: Worker) -> Job:
    """Runs of which some have a payload, details, a result or an error: a short, a long or an empty one."""
    job = await add_job(store)
    for text in (None, "", "é", "payload", "pay\nload " * 9):
        await store.add_run(replace(a_request(job), payload=text), NOW)
        await store.add_run(replace(a_request(job), details=Details(payload=text, tzdata="2030a")), NOW)
        for run in await worker.claim(2):
            await worker.settle(run, Succeeded(result=text) if run.run.payload == text else Failed(text or "no"))
    await add_runs(store, job, 3)
    await worker.claim(1)
    await store.hold_run((await store.add_run(a_request(job), NOW)).id, "look at it")
    return job


async def test_long_texts_are_left_out(store: Store, worker: Worker) -> None:
    """By every filter, of the last runs and of those of some origins; what is not longer than the bound is there."""
    job = await _runs_with_texts(store, worker)
    for longest in BOUNDS:
        for wanted in FILTERS:
            runs = await store.list_runs(wanted)
            found = await store.list_runs(replace(wanted, longest=longest))
            assert found == [brief(run, longest) for run in runs], (longest, wanted)
        last = await store.last_runs([job.id], 50)
        assert await store.last_runs([job.id], 50, longest) == [brief(run, longest) for run in last]
        origins = [run.origin for run in last]
        assert await _of(store, job, origins, longest) == [brief(run, longest) for run in last]


async def test_who_only_wants_to_know_which_runs_there_are(store: Store, worker: Worker) -> None:
    """Gets which occurrences they are of, and how they stand; texts are never there."""
    job = await _runs_with_texts(store, worker)
    for wanted in FILTERS:
        runs = await store.list_runs(wanted)
        found = await store.list_runs(replace(wanted, longest=OCCURRENCES))
        assert list(map(_facts, found)) == list(map(_facts, runs))
    found = await store.last_runs([job.id], 50, OCCURRENCES)
    assert list(map(_facts, found)) == list(map(_facts, await store.last_runs([job.id], 50)))
    assert await _of(store, job, [run.origin for run in found], OCCURRENCES) == found
    assert not any(brief(run, 0) != run for run in found)


def _facts(run: Run) -> tuple[object, ...]:
    return run.id, run.job_id, run.incarnation, run.origin, run.nominal, run.state, run.created


async def _of(store: Store, job: Job, origins: Sequence[str], longest: Most) -> list[Run]:
    found = await store.runs_of(job.incarnation, origins, longest)
    return sorted(found, key=lambda run: run.id, reverse=True)


async def test_what_nobody_looks_at_does_not_leave_the_store(store: Store) -> None:
    """200 runs with large payloads are listed in a tenth of the memory that the payloads take."""
    if isinstance(store, MemoryStore):
        pytest.skip("it holds all runs in memory, and copies none of them")
    job = await add_job(store)
    made = [replace(a_request(job, f"{n}"), payload="x" * SIZE) for n in range(RUNS)]
    await store.add_runs(made[: RUNS // 2], NOW)
    await store.add_runs(made[RUNS // 2 :], NOW)

    async def looked_at() -> None:
        async for _ in pages_of_runs(store, job, NOW, NOW, NOW):
            pass

    whole = RunFilter(job_id=job.id, limit=RUNS)
    assert await _taken(lambda: store.list_runs(whole)) > RUNS * SIZE
    for asked in (
        lambda: store.list_runs(replace(whole, longest=0)),
        lambda: store.list_runs(replace(whole, longest=100)),
        lambda: store.last_runs([job.id], RUNS, 0),
        lambda: store.runs_of(job.incarnation, [run.origin for run in made], 0),
        looked_at,
    ):
        assert await _taken(asked) < RUNS * SIZE / 10


async def _taken(ask: Callable[[], Awaitable[object]]) -> int:
    """The most bytes of memory that were in use at a time."""
    await ask()  # what is read for the first time is kept
    tracemalloc.start()
    try:
        await ask()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
