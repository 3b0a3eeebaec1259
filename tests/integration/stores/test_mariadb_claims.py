"""What a claim on MariaDB locks, what of it stays when it is cut short, and what it and lists of waiting runs read."""

from itertools import count

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import NOW, a_claim, a_job, a_request, add_job, add_runs
from tests.integration.stores.scenes import Scene
from tokimori.model.lanes import lane_of
from tokimori.model.transitions import RunState
from tokimori.ports.store import RunFilter
from tokimori.stores.mysql import runs, working
from tokimori.stores.mysql.sessions import TransactionSession
from tokimori.stores.mysql.statements import Answer, sql
from tokimori.stores.mysql.store import MysqlStore

_LOCKED = "SELECT trx_rows_locked FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = CONNECTION_ID()"


@pytest.mark.parametrize("limit", [2, 10])
async def test_a_claim_locks_no_more_than_it_judges(scene: Scene, limit: int) -> None:
    """From fifty queues with ten runs each, a claim locks the few runs that it takes, not so many of every queue."""
    jobs = [a_job(f"job-{n}", queue=f"q{n}") for n in range(50)]
    await scene.store.add_jobs(jobs)
    for n in range(500):
        await scene.store.add_run(a_request(jobs[n % 50], rank=n), NOW)
    claim = a_claim(scene.worker.id, [lane_of(job.definition) for job in jobs], limit)
    async with scene.held_open() as db:
        assert [each.run.rank for each in await db.claim(claim, NOW)] == [*range(limit)]
        ((locked,),) = await db.db.rows(_LOCKED)
    assert locked <= 10 * limit


async def test_a_claim_ends_soon(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim that has sent runs to the line for 0.05 s looks at no others, and the next one goes on from there."""
    full = await add_job(scene.store, "full", max_running=1)
    await add_runs(scene.store, full, 60)
    assert len(await scene.other.claim(1)) == 1
    monkeypatch.setattr(working, "_MOST_AT_ONCE", 10)
    monkeypatch.setattr(working, "monotonic", count(0, 0.06).__next__)
    left, woken = [], list[bool]()
    scene.store.watch(lambda: woken.append(True))
    for _ in range(3):
        assert await scene.worker.claim(10) == []
        waiting = await scene.store.list_runs(RunFilter(states=frozenset({RunState.BLOCKED}), limit=100))
        left.append((59 - len(waiting), len(woken)))
    assert left == [(39, 1), (19, 2), (0, 2)]


async def test_a_full_job_before_many_queues_costs_few_looks(
    scene: Scene,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A claim passes hundreds of runs of a full job in a few looks at the heads of all queues, and keeps the order."""
    full, others = a_job("full", max_running=1, queue="full"), [a_job(f"job-{n}", queue=f"q{n}") for n in range(50)]
    await scene.store.add_jobs([full, *others])
    await scene.store.add_runs([a_request(full, rank=n) for n in range(300)], NOW)
    for n, other in enumerate(others):
        await scene.store.add_runs([a_request(other, rank=1000 + n), a_request(other, rank=1050 + n)], NOW)
    monkeypatch.setattr(working, "_MOST_AT_ONCE", 40)
    monkeypatch.setattr(working, "monotonic", lambda: 0.0)
    asked, looks = TransactionSession.ask, list[str]()

    async def watched(session: TransactionSession, *statements: str) -> list[Answer]:
        looks.extend(each for each in statements if " AS head" in each)
        return await asked(session, *statements)

    monkeypatch.setattr(TransactionSession, "ask", watched)
    claim = a_claim(scene.worker.id, [lane_of(job.definition) for job in (full, *others)], 8)
    taken = await scene.store.claim(claim, NOW)
    assert [each.run.rank for each in taken] == [0, *range(1000, 1007)]
    assert len(looks) <= 25


async def test_a_claim_passes_few_runs_of_a_job_that_others_hold(scene: Scene) -> None:
    """Behind a thousand runs of a job whose gate somebody holds it looks for nothing: it looked at all that waited."""
    held, free = await add_job(scene.store, "held"), await add_job(scene.store, "free")
    await scene.store.add_runs([a_request(held, rank=n) for n in range(3000)], NOW)
    await scene.store.add_run(a_request(free, rank=500), NOW)
    async with scene.held_open() as db, scene.held_open() as claims:
        await db.db.ask(sql("SELECT 1 FROM tokimori_jobs WHERE incarnation = %s FOR UPDATE", held.incarnation))
        claim = a_claim(scene.worker.id, [lane_of(held.definition)], 4)
        assert [each.run.job_id for each in await claims.claim(claim, NOW)] == ["free"]
        assert await _read_so_far(claims) < 1500


async def test_the_last_page_of_many_ready_runs_reads_few(
    scene: Scene,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether few are ready is known after so many entries: a count of the older ones read a million of the newer."""
    monkeypatch.setattr(runs, "MOST_SORTED", 20)
    job = await add_job(scene.store)
    await scene.store.add_runs([a_request(job) for _ in range(500)], NOW)
    ready = RunFilter(states=frozenset({RunState.READY}), limit=500)
    *_, second, oldest = await scene.store.list_runs(ready)
    async with scene.held_open() as db:
        before = await _read_so_far(db)
        assert [run.id for run in await db.list_runs(replace(ready, before=second.id))] == [oldest.id]
        assert await _read_so_far(db) - before < 100


async def _read_so_far(db: MysqlStore) -> int:
    """How many entries of indexes were read one after the other."""
    ((_, read),) = await db.db.rows("SHOW SESSION STATUS LIKE 'Handler_read_next'")
    return int(read)
