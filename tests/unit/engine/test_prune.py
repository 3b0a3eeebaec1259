"""Walking over what is old, a step at a time."""

from collections.abc import Sequence

import pytest

from tests.unit.examples import NEW_YEAR, a_definition, a_job, a_run, seconds
from tokimori.clock import DAY, Moment
from tokimori.engine.prune import BATCH, EVERY, PAGE, PAUSE, REST, Pruner, walk
from tokimori.errors import StoreRefused, StoreTooSlow, StoreUnavailable
from tokimori.model.ids import Incarnation, JobId, NodeId, RunId, uuid7
from tokimori.model.retention import Expiry
from tokimori.model.transitions import RunState
from tokimori.ports.store import RunFilter
from tokimori.stores.memory.store import MemoryStore
from tokimori.testing.manual import VirtualClock

NODE = NodeId("node")


async def a_store(runs: int, **terms: object) -> MemoryStore:
    """A store with a job whose runs ended 40 days before the new year."""
    store = MemoryStore(VirtualClock())
    job = a_job(a_definition(keep_runs=0, **terms))
    await store.add_jobs([job])
    ended = Moment(NEW_YEAR - 40 * DAY)
    for n in range(runs):
        run_id = RunId(uuid7(ended, lambda size, n=n: (n << 6).to_bytes(size)))  # type: ignore[misc]
        await store.add_run(a_run(id=run_id, origin=f"s:{n}", state=RunState.READY), ended)
        await store.cancel_run(run_id, "enough", ended)
    return store


async def left(store: MemoryStore) -> int:
    """How many runs have a row."""
    return len(await store.list_runs(RunFilter(limit=10_000)))


async def test_a_walk_goes_in_small_steps() -> None:
    """No step takes more than a batch, and the last leaves nothing that is old."""
    store = await a_store(2 * BATCH + 1)
    sizes = [await left(store) async for _ in walk(store, NEW_YEAR, lambda _before: None)]
    assert sizes == [BATCH + 1, 1, 0]


async def test_a_walk_takes_deleted_jobs() -> None:
    """What a deleted job left goes, too."""
    store = await a_store(3)
    await store.delete_job(JobId("job"), NEW_YEAR)
    async for _ in walk(store, NEW_YEAR, lambda _before: None):
        pass
    assert (await left(store), await store.deleted_jobs(None, 9)) == (0, [])
    assert sum(each.pruned for each in await store.counts(JobId("job"))) == 3


@pytest.mark.parametrize(("retention", "days"), [("P1D", 30), ("P90D", 90)])
async def test_files_stay_as_long_as_any_run(retention: str, days: int) -> None:
    """At its end a walk has those files removed that are older than every job's retention, and than a month."""
    store = await a_store(0, retention=retention)
    await store.add_jobs([a_job(a_definition(), id=JobId("other"), incarnation=Incarnation(2))])
    told: list[Moment] = []
    async for _ in walk(store, NEW_YEAR, told.append):
        pass
    assert told == [NEW_YEAR - days * DAY]


async def test_walks_begin_by_chance_and_pause_between_steps() -> None:
    """A node begins its first walk at a moment by chance, pauses after each step, and begins the next minutes later."""
    store = await a_store(BATCH)
    pruner = Pruner(store, 0.0, lambda: 0.5, lambda _before: None)
    assert pruner.next_at == EVERY / 2
    await pruner.step(NODE, NEW_YEAR, EVERY / 2 - 1)
    assert await left(store) == BATCH
    await pruner.step(NODE, NEW_YEAR, EVERY / 2)
    assert (await left(store), pruner.next_at) == (0, EVERY / 2 + PAUSE)
    for _ in range(5):
        if pruner.next_at < EVERY:
            await pruner.step(NODE, seconds(1), pruner.next_at)
    assert pruner.next_at > EVERY


async def test_looking_at_many_jobs_is_slow_work() -> None:
    """A node that finds nothing old looks at the next page of jobs after a rest: idle work does not grow with jobs."""
    store = await a_store(0)
    await store.add_jobs(
        [a_job(a_definition(), id=JobId(f"job{n:04}"), incarnation=Incarnation(n + 2)) for n in range(PAGE)]
    )
    pruner = Pruner(store, 0.0, lambda: 0.0, lambda _before: None)
    for step in range(2):
        assert pruner.next_at == step * REST
        await pruner.step(NODE, NEW_YEAR, pruner.next_at)
    assert pruner.next_at == 2 * REST


class Broken(MemoryStore):
    """A store that fails to prune."""

    fault: Exception = StoreUnavailable("away")

    async def prune(self, *_asked: object) -> Sequence[Expiry]:
        """Fail."""
        raise self.fault


@pytest.mark.parametrize("fault", [StoreUnavailable("away"), MemoryError()])
async def test_a_walk_that_fails_hinders_nobody(fault: Exception) -> None:
    """Whatever goes wrong is told in the log, and tried again minutes later."""
    store = Broken(VirtualClock())
    store.fault = fault
    await store.add_jobs([a_job(a_definition())])
    pruner = Pruner(store, 0.0, lambda: 0.0, lambda _before: None)
    await pruner.step(NODE, NEW_YEAR, 0.0)
    assert pruner.next_at == EVERY / 2


class Choosy(MemoryStore):
    """A store that refuses, or can't in time, whatever some jobs are part of."""

    refused: frozenset[JobId]
    fault: Exception
    asked = 0

    async def prune(self, expiries: Sequence[Expiry], limit: int) -> Sequence[Expiry]:
        """Fail for these jobs."""
        self.asked += 1
        if self.refused & {expiry.job_id for expiry in expiries}:
            raise self.fault
        return await super().prune(expiries, limit)


async def a_choosy_store(jobs: int, refused: int, fault: Exception) -> Choosy:
    """A store of so many deleted jobs, all of them to be forgotten, but for the first of them."""
    store = Choosy(VirtualClock())
    store.refused = frozenset(JobId(f"job{n}") for n in range(refused))
    store.fault = fault
    for n in range(jobs):
        await store.add_jobs([a_job(a_definition(), id=JobId(f"job{n}"), incarnation=Incarnation(n + 2))])
        await store.delete_job(JobId(f"job{n}"), NEW_YEAR)
    return store


@pytest.mark.parametrize("fault", [StoreRefused("no"), StoreTooSlow("3 s"), ZeroDivisionError()])
async def test_one_job_hinders_no_other(fault: Exception) -> None:
    """Where the store can't prune a job, all jobs beside it and behind it are pruned, and few questions find it."""
    store = await a_choosy_store(PAGE + 9, 1, fault)
    async for _ in walk(store, NEW_YEAR, lambda _before: None):
        pass
    assert await store.deleted_jobs(None, PAGE) == [(Incarnation(2), JobId("job0"))]
    assert store.asked < 20


async def test_a_slow_store_is_left_alone() -> None:
    """A store that is too slow for any job is not asked for each of them: the walk is broken off."""
    store = await a_choosy_store(PAGE, PAGE, StoreTooSlow("3 s"))
    with pytest.raises(StoreTooSlow):
        async for _ in walk(store, NEW_YEAR, lambda _before: None):
            pass
    assert store.asked < 20
