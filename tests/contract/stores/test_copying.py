"""A copy: between any two stores all rows arrive as they are, once, and work goes on where it stood."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.contract.stores.actors import NOW, Worker, a_request, add_job, fire, later
from tests.contract.stores.conftest import STORES, forget
from tests.contract.stores.filled import OPEN, fill
from tokimori.errors import Conflict, Refused, StoreError
from tokimori.model.calendar import Calendar
from tokimori.model.ids import JobId
from tokimori.ports.copying import Copied, Kind, key_of
from tokimori.ports.store import RunFilter, Store
from tokimori.service.copying import KindCopied, Step, copy_store


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
        await add_job(store, "zz-last")
        with pytest.raises(Conflict, match="jobs are not those of FROM, as zz-last shows"):
            await copied(source, store)


class Forgetful(Breaking):
    """A store that keeps all but the last row of each page."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, 100)

    async def import_rows(self, kind: Kind, rows: Sequence[Copied]) -> None:
        """See `Copying.import_rows`."""
        await self._store.import_rows(kind, rows[:-1])


async def test_what_did_not_arrive_is_noticed(store: Store, tmp_path: Path) -> None:
    """Both sides are read again at the end: a row that was lost on the way is told, by its kind."""
    async with opened("memory", tmp_path / "from") as source:
        await fill(source)
        with pytest.raises(Conflict, match=r"the skips differ after the copy: 4 rows .* 3 with"):
            await copied(source, Forgetful(store))  # type: ignore[arg-type]


async def test_nobody_may_work_meanwhile(store: Store, worker: Worker, tmp_path: Path) -> None:
    """Neither a store where a node lives is copied nor one where a run was left running, nor copied to."""
    async with opened("memory", tmp_path / "other") as other:
        run = await store.add_run(a_request(await add_job(store)), NOW)
        await add_job(other, "theirs")
        for source, target, name in ((store, other, "FROM"), (other, store, "TO")):
            with pytest.raises(Refused, match=rf"{name}: the node {worker.id} .* works there"):
                await copied(source, target)
        await worker.claim()
        second = await Worker.join(store)
        await worker.die(second)
        await store.leave(second.id, NOW)
        with pytest.raises(Refused, match=rf"the run {run.id} of 'job' was left running"):
            await copied(store, other)
