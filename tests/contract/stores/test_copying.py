"""A copy: between any two stores all rows arrive as they are, once, and work goes on where it stood."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path

import msgspec
import pytest

from tests.contract.stores.actors import NOW, Worker, a_request, add_job, fire, later
from tests.contract.stores.conftest import STORES, forget
from tests.contract.stores.filled import OPEN, PRUNED, fill
from tests.contract.stores.test_pruning import totals
from tokimori.clock import Moment
from tokimori.engine.unfinished import refuse_unfinished
from tokimori.errors import Conflict, Refused, StoreError
from tokimori.model.document import Document
from tokimori.model.ids import Incarnation, JobId
from tokimori.model.outcome import Lost
from tokimori.model.retention import expiry_of_deleted
from tokimori.model.run import Run, Skip, SkipReason
from tokimori.ports.copying import Copied, DeletedJob, DeletedSkip, Kind, PrunedCount, key_of
from tokimori.ports.nodes import Beat, NodeState
from tokimori.ports.store import RunFilter, Store
from tokimori.ports.working import Verdict
from tokimori.service.copying import CopyStep, KindCopied, copy_store

A_COUNT = PrunedCount(job_id=JobId("mine"), incarnation=Incarnation(1), day=Moment(0), outcome="failed", count=1)


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
    steps: list[CopyStep] = []
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
    for kind in set(Kind) - {Kind.JOBS, Kind.PAUSES}:
        rows = await rows_of(store, kind)
        assert [key_of(row) for row in rows] == sorted({key_of(row) for row in rows})
        assert rows
        for limit in (1, 2, 3):
            assert await rows_of(store, kind, limit) == rows
    assert {run.state for run in await store.list_runs(RunFilter())} > OPEN


async def test_a_page_of_large_runs_is_written(store: Store) -> None:
    """However much their payloads are together, no step of the loop takes them all."""
    job = await add_job(store)
    runs = [a_request(job, payload=json.dumps([f"it's \\ {n}"] * 5_000)) for n in range(50)]
    await store.import_rows(Kind.RUNS, runs)
    found = [row.payload for row in await rows_of(store, Kind.RUNS) if isinstance(row, Run)]
    assert found == [each.payload for each in sorted(runs, key=key_of)]


async def test_keys_are_in_the_same_order(store: Store) -> None:
    """Jobs, lives, days and outcomes are ordered alike by every store, and a count that is known is not replaced."""
    lives = [Incarnation(number) for number in (9, 10, 2**53 + 1, 2**53 + 2, 2**62)]
    names = [JobId(name) for name in ("a", "a:b", "A", "a-b", "Z", "a.", "aa")]
    rows: dict[Kind, list[Copied]] = {
        Kind.DELETED_JOBS: [DeletedJob(incarnation=life, job_id=names[n]) for n, life in enumerate(lives)],
        Kind.DELETED_SKIPS: [
            DeletedSkip(incarnation=life, skip=Skip(first=first, last=first, count=2, reason=SkipReason.GRACE))
            for life in lives
            for first in (NOW, later(1), later(100))
        ],
        Kind.COUNTS: [
            PrunedCount(job_id=name, incarnation=life, day=Moment(day), outcome=outcome, count=n)
            for n, (name, life, day, outcome) in enumerate(
                product(names, lives, (0, 86400_000_000, NOW), ("cancelled", "misfire", "succeeded")), 1
            )
        ],
    }
    for kind, all_rows in rows.items():
        await store.import_rows(kind, all_rows)
        for limit in (7, 1000):
            assert await rows_of(store, kind, limit) == sorted(all_rows, key=key_of)
    assert await store.deleted_jobs(None, 10) == list(zip(lives, names, strict=False))
    before = await totals(store, names[0])
    more = [msgspec.structs.replace(row, count=10**6) for row in rows[Kind.COUNTS] if isinstance(row, PrunedCount)]
    await store.import_rows(Kind.COUNTS, more)
    assert await totals(store, names[0]) == before


async def test_a_row_that_exists_stays(store: Store, tmp_path: Path) -> None:
    """Importing again what is there changes nothing: a reply may have been lost."""
    async with opened("memory", tmp_path / "from") as source:
        await fill(source)
        await copied(source, store)
        for kind in set(Kind) - {Kind.JOBS, Kind.PAUSES}:
            rows = await rows_of(source, kind)
            listed = await store.list_runs(RunFilter())
            await store.import_rows(kind, rows)
            assert await rows_of(store, kind) == rows
            assert await store.list_runs(RunFilter()) == listed


@pytest.mark.parametrize(
    ("source", "target"),
    [
        pytest.param(source, target, marks=[] if (m - n) % len(STORES) == 1 else pytest.mark.prove)
        for n, source in enumerate(STORES)
        for m, target in enumerate(STORES)
    ],
)
async def test_a_copy_is_the_same(source: str, target: str, tmp_path: Path) -> None:
    """Between any two stores all arrives; a second copy finds nothing to write; edges, claims, counts are as here."""
    async with opened(source, tmp_path / "from") as old, opened(target, tmp_path / "to") as new:
        await fill(old)
        first = await copied(old, new)
        assert all(each.rows == each.written > 0 for each in first.values())
        second = await copied(old, new)
        assert {kind: (each.rows, each.written, each.digest) for kind, each in second.items()} == {
            kind: (each.rows, 0, each.digest) for kind, each in first.items()
        }
        assert (await new.family()).edges == (await old.family()).edges
        await _check_counted(old, new)
        assert await _worked(new) == await _worked(old)


async def _check_counted(old: Store, new: Store) -> None:
    """Every job that ever was has the same counts there, and what a deleted one left is still found by retention."""
    for job_id in [*(job.id for job in await old.list_jobs()), *map(JobId, PRUNED)]:
        assert await new.counts(job_id) == await old.counts(job_id)
    gone = await old.deleted_jobs(None, 10)
    assert sorted(job_id for _, job_id in gone) == ["gone", "gone", "z-gone"]
    assert await new.deleted_jobs(None, 10) == gone
    expiries = [expiry_of_deleted(job_id, incarnation, later(86400 * 11)) for incarnation, job_id in gone]
    for store in (old, new):
        before = {job_id: await totals(store, JobId(job_id)) for job_id in PRUNED}
        assert all(before.values())
        assert not await store.prune(expiries, 100)
        assert await store.deleted_jobs(None, 10) == []
        assert {job_id: await totals(store, JobId(job_id)) for job_id in PRUNED} == before


async def test_what_runs_at_that_moment_is_taken_over(store: Store, worker: Worker, tmp_path: Path) -> None:
    """A copy of one moment has the runs as they ran; its nodes are dead in the copy, and another one takes over."""
    async with opened("memory", tmp_path / "from") as source:
        node = await Worker.join(source)
        job = await add_job(source, max_running=1)
        ids = {(await source.add_run(a_request(job), NOW)).id for _ in range(2)}
        (claimed,) = await node.claim()
        with pytest.raises(Refused, match=r"FROM: the node .* works there"):
            await copied(source, store)
        await store.leave(worker.id, NOW)
        await copy_store(source, store, lambda _: None, still=True)
        assert [each.run.id for each in await store.orphans(10)] == [claimed.run.id]
        dead = next(each for each in await store.list_nodes() if each.id == node.id)
        assert (dead.id, dead.state) == (node.id, NodeState.DEAD)
        assert await store.tick(Beat(node=node.id), NOW) is None
        second = await Worker.join(store)
        assert (await second.tick()).orphans
        assert await second.claim() == []
        change = Worker(store, node.id).change(claimed, Lost("as after a crash"))
        assert await store.settle([change], second.id, NOW) == [Verdict.APPLIED]
        assert {each.run.id for each in await second.claim(now=later(100))} <= ids
        assert not (await second.tick()).orphans


async def test_a_moment_is_read_while_others_write(store: Store) -> None:
    """What is read is what was there then, and nothing is written; where a server can't do that it says so."""
    await add_job(store, "a")
    async with store.snapshot() as frozen:
        if frozen is None:
            return
        await add_job(store, "b")
        assert [each.id for each in await frozen.list_jobs()] == ["a"]
        await frozen.finish_moves()
        with pytest.raises(StoreError):
            await add_job(frozen, "c")
        with pytest.raises(StoreError):
            await frozen.import_rows(Kind.COUNTS, [A_COUNT])
    assert [each.id for each in await store.list_jobs()] == ["a", "b"]


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
        if name in {"import_rows", "add_jobs", "add_pause"}:
            self._left -= 1
            if self._left < 0:
                raise StoreError("killed")
        return getattr(self._store, name)


@pytest.mark.parametrize("pages", [0, 3, *(pytest.param(n, marks=pytest.mark.prove) for n in (1, 6, 9))])
async def test_a_broken_copy_goes_on(store: Store, tmp_path: Path, pages: int) -> None:
    """A copy that was broken off writes, asked for again, only what is missing."""
    async with opened("memory", tmp_path / "from") as source:
        await fill(source)
        with pytest.raises(StoreError, match="killed"):
            await copied(source, Breaking(store, pages))  # type: ignore[arg-type]
        async with opened("memory", tmp_path / "third") as third:
            for target in (third, source):
                with pytest.raises(StoreError, match="the store holds a part of a copy"):
                    await copied(store, target)
        found = (await copied(source, store)).values()
        assert sum(each.written == 0 for each in found) == pages
        assert all(each.written in {0, each.rows} for each in found)
        await refuse_unfinished(store)


async def test_a_node_that_joins_meanwhile_is_seen(store: Store, tmp_path: Path) -> None:
    """Who joins between the look for living nodes and the mark is found before the first row is written."""
    async with opened("memory", tmp_path / "from") as source:
        await fill(source)
        with pytest.raises(Refused, match=r"TO: the node .* works there"):
            await copied(source, Joined(store))  # type: ignore[arg-type]
        assert await store.list_jobs() == []


class Joined(Breaking):
    """A store that a node joins just before the mark is put."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, 100)

    async def put_document(self, document: Document, replaces: int | None) -> None:
        """See `Documents.put_document`."""
        await Worker.join(self._store)
        await self._store.put_document(document, replaces)


async def test_nothing_is_mixed(store: Store, tmp_path: Path) -> None:
    """A store with a job, a calendar or a run of its own gets nothing; one that was used since is not the copy."""
    async with opened("memory", tmp_path / "from") as source:
        await fill(source)
        await store.put_document(Document(kind="calendar", name="mine", text="", version=1), None)
        with pytest.raises(Conflict, match="documents are not those of FROM, as calendar mine shows"):
            await copied(source, store)
        assert await store.list_jobs() == []
        await store.delete_document("calendar", "mine", 1)
        await copied(source, store)
        await add_job(store, "zz-last")
        with pytest.raises(Conflict, match="jobs are not those of FROM, as zz-last shows"):
            await copied(source, store)


async def test_a_store_whose_jobs_are_gone_is_not_empty(store: Store, tmp_path: Path) -> None:
    """Where nothing but a count is left, nothing is copied to: whose it is could not be told any more."""
    async with opened("memory", tmp_path / "from") as source:
        await fill(source)
        await store.import_rows(Kind.COUNTS, [A_COUNT])
        with pytest.raises(Conflict, match="counts are not those of FROM, as mine 1 0 failed shows"):
            await copied(source, store)
        assert await store.list_jobs() == []


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
        with pytest.raises(Conflict, match=r"the documents differ after the copy: 4 rows .* 3 with"):
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


@pytest.mark.parametrize("name", [name for name in STORES if name != "memory"])
async def test_a_store_is_not_copied_onto_itself(name: str, tmp_path: Path) -> None:
    """However it is named: what is written there is not to be here; nothing of it stays, and another is copied to."""
    async with opened(name, tmp_path / "one") as source:
        await fill(source)
        same = STORES[name](tmp_path / "one")
        await same.open()
        before = await rows_of(source, Kind.DOCUMENTS)
        try:
            with pytest.raises(Refused, match="TO: it is the store FROM itself"):
                await copied(source, same)
        finally:
            await same.close()
        assert await rows_of(source, Kind.DOCUMENTS) == before
        async with opened(name, tmp_path / "two") as target:
            await target.put_document(
                Document(kind="copy", name="probe", text="of a copy that was killed", version=3), None
            )
            assert (await copied(source, target))[Kind.DOCUMENTS].rows == len(before)
            assert await rows_of(target, Kind.DOCUMENTS) == before
