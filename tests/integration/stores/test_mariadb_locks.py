"""Methods that meet on MariaDB alone."""

import asyncio
from unittest.mock import Mock

import pytest

from tests.contract.stores.actors import (
    NOW,
    a_request,
    add_job,
    add_runs,
    state_of,
)
from tests.contract.stores.test_limits import with_limit
from tests.integration.stores.scenes import GOES_AROUND, Scene, waits
from tokimori.errors import StoreUnavailable
from tokimori.model.job import Job
from tokimori.ports.working import Verdict
from tokimori.stores.mysql import moves, statements
from tokimori.stores.mysql.sessions import Sessions, Transaction, connect
from tokimori.stores.mysql.statements import SHARED, sql


async def test_a_beat_goes_around_runs_that_others_hold(scene: Scene) -> None:
    """While somebody has locked runs that are to follow their job, a beat moves none of them, and does not wait."""
    job = await add_job(scene.store)
    run = (await add_runs(scene.store, job, 3))[0]
    for statement in (moves.begin(job.incarnation), "UPDATE tokimori_jobs SET lane = 'other||'"):
        await scene.store.db.ask(statement)  # type: ignore[attr-defined]
    async with scene.held_open() as db:
        await db.db.ask(sql("SELECT 1 FROM tokimori_runs WHERE id = %s FOR UPDATE", run.id))
        async with asyncio.timeout(GOES_AROUND):
            await scene.worker.tick()
        assert (await scene.store.get_run(run.id)).lane == run.lane
    await scene.worker.tick()
    assert (await scene.store.get_run(run.id)).lane == "other||"


async def test_a_limit_that_comes_while_runs_end_is_counted_alone(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A settle that finds that its job has got a limit meanwhile begins anew, with the gate that it did not ask for."""
    lock_gates = Mock(wraps=statements.lock_gates)
    monkeypatch.setattr(statements, "lock_gates", lock_gates)
    job = await add_job(scene.store, max_running=0)
    await add_runs(scene.store, job, 3)
    first, second = await scene.worker.claim(2)
    async with scene.held_open() as db:
        await db.replace_job(job, with_limit(job, 1))
        settle = await waits(scene.store.settle([scene.worker.change(first)], scene.worker.id, NOW))
    assert await settle == [Verdict.APPLIED]
    assert lock_gates.call_count == 2
    assert await scene.other.claim() == []
    await scene.worker.settle(second)
    assert len(await scene.other.claim()) == 1


async def test_a_delete_finds_what_was_added_while_it_waited(scene: Scene) -> None:
    """A run that is added before the job's deletion gets hold of the gate is cancelled with the others."""
    job = await add_job(scene.store)
    async with scene.held_open() as db:
        await db.db.ask(sql(f"SELECT 1 FROM tokimori_jobs WHERE incarnation = %s {SHARED}", job.incarnation))
        delete = await waits(scene.store.delete_job(job.id, NOW))
        run = await db.add_run(a_request(job), NOW)
    await delete
    assert await state_of(scene.store, run) == "cancelled"


async def test_places_are_counted_as_of_now(scene: Scene) -> None:
    """A transaction that read before it waited for a gate sees what was committed meanwhile."""
    job = await add_job(scene.store, max_running=2)
    await add_runs(scene.store, job, 2)

    async def look_twice(transaction: Transaction) -> list[statements.Places]:
        places = []
        for _ in range(2):
            (counted,) = await transaction.ask(statements.count_places([job.incarnation]))
            places.append(statements.places_of(counted)[job.incarnation])
            await scene.worker.claim(1)
        return places

    assert [place.running for place in await scene.store.db.transact(look_twice)] == [0, 1]  # type: ignore[attr-defined]


async def test_methods_that_deadlock_are_tried_again(scene: Scene) -> None:
    """Of two transactions that wait for each other one is undone and tried again, unseen."""
    first, second = await add_job(scene.store, "a"), await add_job(scene.store, "b")
    both = asyncio.Barrier(2)
    tried = 0

    async def work(transaction: Transaction, *jobs: Job) -> None:
        nonlocal tried
        tried += 1
        for job in jobs:
            await transaction.ask(sql("UPDATE tokimori_jobs SET version = 9 WHERE incarnation = %s", job.incarnation))
            if tried <= 2 and job is jobs[0]:
                await both.wait()
        await transaction.commit()

    db: Sessions = scene.store.db  # type: ignore[attr-defined]
    orders = ((first, second), (second, first))
    await asyncio.gather(*(db.transact(lambda transaction, jobs=jobs: work(transaction, *jobs)) for jobs in orders))  # type: ignore[misc]
    assert tried == 3
    assert [job.version for job in await scene.store.list_jobs()] == [9, 9]


async def test_who_freezes_holds_nothing_for_long(scene: Scene) -> None:
    """A session that says nothing within a transaction is ended by the server, and what it held is free within 4 s."""
    job = await add_job(scene.store)
    session = await connect(scene.store.db._address)  # type: ignore[attr-defined]
    await session.ask("START TRANSACTION", sql("SELECT 1 FROM tokimori_jobs FOR UPDATE"))
    began = asyncio.get_running_loop().time()
    while True:
        try:
            await scene.store.delete_job(job.id, NOW)
            break
        except StoreUnavailable as error:
            assert "locked for over 2 s" in error.message
    assert asyncio.get_running_loop().time() - began < 6
    session.cut()
    await asyncio.sleep(0)
