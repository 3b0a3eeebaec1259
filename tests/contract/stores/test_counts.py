"""How far a store counts what is active, and what is kept."""

import os

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import Worker, a_request, add_job, add_runs, later
from tests.unit.examples import NEW_YEAR, a_definition, a_job, a_run
from tokimori.model.ids import RunId, uuid7
from tokimori.model.outcome import Failed, Succeeded
from tokimori.model.retention import FIRST_ID, MOST_COUNTED, day_of
from tokimori.model.run import Skip, SkipReason, manual_origin
from tokimori.ports.copying import Kind
from tokimori.ports.store import MOST_TALLIED, RunFilter, Store, Tally
from tokimori.stores.reading import COUNTS, TALLY


@pytest.mark.parametrize(("max_running", "counted"), [(0, 1001), (1200, 1100)])
async def test_a_large_limit_is_counted_up_to(store: Store, max_running: int, counted: int) -> None:
    """Where a job may run more than catch-up counts, its overlap is decided by what is really active."""
    job = a_job(a_definition(max_running=max_running))
    await store.add_jobs([job])
    ids = [RunId(uuid7(NEW_YEAR, os.urandom)) for _ in range(1100)]
    runs = [a_run(id=each, job_id=job.id, incarnation=job.incarnation, origin=manual_origin(each)) for each in ids]
    for first in range(0, len(runs), 500):
        await store.import_rows(Kind.RUNS, runs[first : first + 500])
    assert counted <= (await store.get_due(job.id)).active <= len(runs)


def count_at_most(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Let every store count so many rows instead of tens of thousands."""
    for place in ("model.retention", "stores.memory.runs", "stores.redis.runs"):
        monkeypatch.setattr(f"tokimori.{place}.MOST_COUNTED", most)
    monkeypatch.setattr("tokimori.stores.redis.runs._COUNTED_PAGE", 2)
    assert str(MOST_COUNTED + 1) in COUNTS
    monkeypatch.setattr("tokimori.stores.reading.COUNTS", COUNTS.replace(str(MOST_COUNTED + 1), str(most + 1)))


async def test_the_newest_of_many_rows_are_counted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more runs or skips than are counted the newest are, and each number says that there may be more."""
    worker, job = await Worker.join(store), await add_job(store)
    days = [later(-each * 86400) for each in (5, 4, 3, 2, 1)]
    for day in days:
        await store.add_run(a_request(job, id=RunId(uuid7(day, os.urandom))), NEW_YEAR)
        (claimed,) = await worker.claim()
        await store.settle([worker.change(claimed, Failed("no"), day)], worker.id, NEW_YEAR)
    skips = [Skip(first=day, last=day, count=3, reason=SkipReason.OVERLAP) for day in days]
    await store.replace_job(job, replace(job, version=2), skips)
    kinds = (("failed", 1), ("overlap", 3))
    whole = sorted((day_of(day), outcome, count) for day in days for outcome, count in kinds)
    assert [(each.day, each.outcome, each.count) for each in await store.counts(job.id)] == whole
    assert not any(each.more for each in await store.counts(job.id))
    count_at_most(monkeypatch, 3)
    newest = sorted((day_of(day), outcome, count) for day in days[1:] for outcome, count in kinds)
    assert [(each.day, each.outcome, each.count) for each in await store.counts(job.id)] == newest
    assert all(each.more for each in await store.counts(job.id))


async def test_a_bounded_number_of_runs_is_tallied(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more runs than are looked at the newest count."""
    worker, job = await Worker.join(store), await add_job(store)
    await add_runs(store, job, 4)
    for claimed in await worker.claim():
        await worker.settle(claimed, Failed("no"))
    assert await store.tallies([job.id], FIRST_ID) == [Tally(job.id, 0, 4)]
    for place in ("memory.runs", "redis.runs"):
        monkeypatch.setattr(f"tokimori.stores.{place}.MOST_TALLIED", 2)
    assert str(MOST_TALLIED) in TALLY
    for place in ("reading", "postgres.runs"):
        monkeypatch.setattr(f"tokimori.stores.{place}.TALLY", TALLY.replace(str(MOST_TALLIED), "2"))
    assert await store.tallies([job.id], FIRST_ID) == [Tally(job.id, 0, 2)]


async def test_runs_that_live_are_no_ends(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are, and whenever they were made: the ends of the job are counted as without them."""
    worker, job = await Worker.join(store), await add_job(store, max_running=0)
    await add_runs(store, job, 4)
    for claimed in await worker.claim():
        await worker.settle(claimed, Succeeded() if claimed.run.due % 2 else Failed("no"))
    since = min(run.id for run in await store.list_runs(RunFilter()))
    for second in (-9, -8, -7, -6, -5, 5, 6):
        run_id = RunId(uuid7(later(second), os.urandom))
        await store.add_run(a_request(job, id=run_id, due=later(second)), NEW_YEAR)
    monkeypatch.setattr("tokimori.stores.redis.runs.MOST_TALLIED", 4)
    assert await store.tallies([job.id], since) == [Tally(job.id, 2, 2)]


async def test_runs_of_a_deleted_job_that_live_are_no_ends(store: Store) -> None:
    """A run that goes on when its job is deleted counts once it has ended, also if a new job has the id."""
    worker, job = await Worker.join(store), await add_job(store)
    await add_runs(store, job, 1)
    (claimed,) = await worker.claim()
    for _ in range(2):
        await store.delete_job(job.id, NEW_YEAR)
        assert await store.tallies([job.id], FIRST_ID) == []
        await add_job(store)
        assert await store.tallies([job.id], FIRST_ID) == []
    await worker.settle(claimed)
    assert await store.tallies([job.id], FIRST_ID) == [Tally(job.id, 1, 0)]
