"""A copy: between any two stores all rows arrive as they are, once, and work goes on where it stood."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import EVERY_SECOND, NOW, Worker, a_job, a_request, add_job, add_runs, fire, later
from tests.contract.stores.conftest import STORES, forget
from tokimori.errors import Conflict, Refused, StoreError
from tokimori.model.calendar import Calendar
from tokimori.model.dependents import Join, Parent
from tokimori.model.ids import JobId
from tokimori.model.job import JobState
from tokimori.model.outcome import Cancelled, Failed, Lost, Outcome, Succeeded
from tokimori.model.policies import Retry
from tokimori.model.run import Output, Skip, SkipReason
from tokimori.model.transitions import RunState
from tokimori.ports.copying import Copied, Kind, key_of
from tokimori.ports.store import RunFilter, Store
from tokimori.service.copying import KindCopied, Step, copy_store

OPEN = {RunState.WAITING, RunState.READY, RunState.BLOCKED, RunState.HELD}


@asynccontextmanager
async def opened(name: str, folder: Path) -> AsyncIterator[Store]:
    """An open, empty store of that kind."""
    folder.mkdir()  # noqa: ASYNC240
    store = STORES[name](folder)
    await store.open()
    await store.migrate()
    try:
        yield store
    finally:
        await store.close()
        forget(name, folder)


async def fill(store: Store) -> None:
    """Rows of every kind, and a run in every state but running; nobody works there any more."""
    worker = await Worker.join(store)
    await store.put_calendar(Calendar(name="de", description="Feiertage „de“", dates=("12-25",)))
    await _end_some(store, worker)
    await _keep_some_open(store, worker)
    await _skip_some(store)
    assert await store.leave(worker.id, later(100))


async def _end_some(store: Store, worker: Worker) -> None:
    """Runs of every end, with attempts and outputs, and a child whose other parent has not run yet."""
    mother, failing = await add_job(store, "mother"), await add_job(store, "failing")
    await add_job(store, "father")
    child = a_job("child", parents=(Parent(job="mother"), Parent(job="father")), join=Join.ALL)
    await store.add_jobs([child], (await store.family()).version)
    ends: Sequence[tuple[object, Outcome]] = (
        (failing, Failed("nö\n")),
        (failing, Cancelled("enough")),
        (mother, Succeeded(0, result='{"x": 1}')),
    )
    for job, outcome in ends:
        await store.add_run(a_request(job, payload='{"ü": null}'), NOW)  # type: ignore[arg-type]
        (claimed,) = await worker.claim()
        output = Output(run_id=claimed.run.id, attempt=1, size=9, head=b"\x00\xff\r\n", tail=b"tail\xc3")
        await store.settle([worker.change(claimed, outcome, output=output)], worker.id, NOW)


async def _keep_some_open(store: Store, worker: Worker) -> None:
    """Runs that wait, for their moment or a retry, are ready, blocked or held, or stand still with their job."""
    again = await add_job(store, "again", retry=Retry(attempts=2, delay=60.0))
    await store.add_run(a_request(again), NOW)
    (claimed,) = await worker.claim()
    await worker.settle(claimed, Failed("once more"))
    limited = await add_job(store, "limited", max_running=1)
    await add_runs(store, limited, 4)
    (claimed,) = await worker.claim()
    await worker.settle(claimed, Lost("gone"))
    await store.add_run(a_request(limited, "later", due=later(30)), NOW)
    await store.hold_run((await store.add_run(a_request(limited, "held"), NOW)).id, "später")
    paused = await add_job(store, "paused")
    await add_runs(store, paused, 2)
    changed = replace(paused, version=2, state=JobState.PAUSED, reason="why", by="ann")
    await store.replace_job(paused, changed)


async def _skip_some(store: Store) -> None:
    """Rows of the ledger, and a job that has fired."""
    every = await add_job(store, "every", schedule=EVERY_SECOND, next_due=later(1))
    skips = [Skip(first=later(-n), last=later(-n), count=1, reason=SkipReason.PAUSED) for n in (3, 2, 1)]
    await store.replace_job(every, replace(every, version=2), skips)
    await fire(store, later(3))


async def copied(source: Store, target: Store) -> dict[Kind, KindCopied]:
    """Copy, and say how much."""
    steps: list[Step] = []
    return {each.kind: each for each in await copy_store(source, target, steps.append)}


async def rows_of(store: Store, kind: Kind, limit: int = 1000) -> list[Copied]:
    """All rows of a kind, in pages of that size."""
    rows: list[Copied] = []
    while page := await store.export_rows(kind, key_of(rows[-1]) if rows else None, limit):
        assert len(page) <= limit
        rows += page
    return rows


async def test_rows_are_read_in_pages(store: Store) -> None:
    """Whatever the size of a page, it gives the same rows, in the order of their keys, each once."""
    await fill(store)
    for kind in set(Kind) - {Kind.JOBS, Kind.CALENDARS}:
        rows = await rows_of(store, kind)
        assert [key_of(row) for row in rows] == sorted({key_of(row) for row in rows})
        assert rows
        for limit in (1, 2, 3):
            assert await rows_of(store, kind, limit) == rows
    assert {run.state for run in await store.list_runs(RunFilter())} > OPEN


async def test_a_row_that_exists_stays(store: Store, tmp_path: Path) -> None:
    """Importing again what is there changes nothing: a reply may have been lost."""
    async with opened("memory", tmp_path / "from") as source:
        await fill(source)
        await copied(source, store)
        for kind in set(Kind) - {Kind.JOBS, Kind.CALENDARS}:
            rows = await rows_of(source, kind)
            await store.import_rows(kind, rows)
            assert await rows_of(store, kind) == rows


@pytest.mark.parametrize("target", STORES)
@pytest.mark.parametrize("source", STORES)
async def test_a_copy_is_the_same(source: str, target: str, tmp_path: Path) -> None:
    """Between any two stores all arrives; a second copy finds nothing to write; edges and claims work there as here."""
    async with opened(source, tmp_path / "from") as old, opened(target, tmp_path / "to") as new:
        await fill(old)
        first = await copied(old, new)
        assert all(each.rows == each.written > 0 for each in first.values())
        second = await copied(old, new)
        assert {kind: (each.rows, each.written, each.digest) for kind, each in second.items()} == {
            kind: (each.rows, 0, each.digest) for kind, each in first.items()
        }
        assert (await new.family()).edges == (await old.family()).edges
        assert await _worked(new) == await _worked(old)


async def _worked(store: Store) -> list[tuple[str, str, str, int, int]]:
    """How all stands after a node has worked off what it may: runs without their random ids."""
    worker = await Worker.join(store)
    await store.add_run(a_request(await store.get_job(JobId("father")), "last"), NOW)
    await fire(store, later(100))
    while claimed := await worker.claim(now=later(100)):
        for each in claimed:
            await worker.settle(each, now=later(100))
    runs = await store.list_runs(RunFilter())
    return sorted((run.job_id, str(run.state), run.origin[:2], run.nominal, run.attempt) for run in runs)


class Breaking:
    """A store that breaks off at the nth page that is written to it."""

    def __init__(self, store: Store, pages: int) -> None:
        self._store = store
        self._left = pages

    def __getattr__(self, name: str) -> object:
        if name in {"import_rows", "add_jobs", "put_calendar"}:
            self._left -= 1
            if self._left < 0:
                raise StoreError("killed")
        return getattr(self._store, name)


@pytest.mark.parametrize("pages", [0, 1, 3, 6])
async def test_a_broken_copy_goes_on(store: Store, tmp_path: Path, pages: int) -> None:
    """A copy that was broken off writes, asked for again, only what is missing."""
    async with opened("memory", tmp_path / "from") as source:
        await fill(source)
        with pytest.raises(StoreError, match="killed"):
            await copied(source, Breaking(store, pages))  # type: ignore[arg-type]
        found = (await copied(source, store)).values()
        assert sum(each.written == 0 for each in found) == pages
        assert all(each.written in {0, each.rows} for each in found)


async def test_nothing_is_mixed(store: Store, tmp_path: Path) -> None:
    """A store with a job, a calendar or a run of its own gets nothing; one that was used since is not the copy."""
    async with opened("memory", tmp_path / "from") as source:
        await fill(source)
        await store.put_calendar(Calendar(name="mine"))
        with pytest.raises(Conflict, match="calendars"):
            await copied(source, store)
        assert await store.list_jobs() == []
        await store.delete_calendar("mine")
        await copied(source, store)
        await store.add_run(a_request(await store.get_job(JobId("father"))), NOW)
        with pytest.raises(Conflict, match="runs are not those of FROM"):
            await copied(source, store)


async def test_nobody_may_work_meanwhile(store: Store, worker: Worker, tmp_path: Path) -> None:
    """Neither a store where a node lives is copied nor one where a run was left running, nor copied to."""
    async with opened("memory", tmp_path / "other") as other:
        for source, target, name in ((store, other, "FROM"), (other, store, "TO")):
            with pytest.raises(Refused, match=rf"{name}: the node {worker.id} .* works there"):
                await copied(source, target)
        run = await store.add_run(a_request(await add_job(store)), NOW)
        await worker.claim()
        second = await Worker.join(store)
        await worker.die(second)
        await store.leave(second.id, NOW)
        with pytest.raises(Refused, match=rf"the run {run.id} of 'job' was left running"):
            await copied(store, other)
