"""Methods that meet on PostgreSQL alone."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.contract.stores.actors import (
    NOW,
    a_claim,
    a_request,
    add_job,
    add_runs,
    later,
    state_of,
)
from tests.contract.stores.test_dependents import runs_of
from tests.contract.stores.test_joins import settle, two_rounds
from tests.integration.stores.scenes import GOES_AROUND, Scene, claimed_in, paused, waits
from tokimori.model.lanes import lane_of
from tokimori.model.run import Run
from tokimori.ports.working import Claimed, Verdict


async def test_a_claim_passes_few_runs_of_a_job_that_others_hold(scene: Scene) -> None:
    """Behind a thousand runs of a job whose gate somebody holds it looks for nothing: it looked at all that waited."""
    held, free = await add_job(scene.store, "held"), await add_job(scene.store, "free")
    await scene.store.add_runs([a_request(held, rank=n) for n in range(3000)], NOW)
    await scene.store.add_run(a_request(free, rank=500), NOW)
    read = "SELECT idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'tokimori_runs'"
    claim = a_claim(scene.worker.id, [lane_of(held.definition)], 4)
    taken = list[Claimed]()
    async with scene.held_open() as db, asyncio.timeout(30):
        await db.db.rows("SELECT FROM tokimori_jobs WHERE incarnation = $1 FOR UPDATE", held.incarnation)
        while not taken:  # a busy machine cuts a claim short, which says nothing of that where it got no gate
            async with scene.held_open() as claims:
                before = await claims.db.value(read)
                taken = await claims.claim(claim, NOW)
                assert await claims.db.value(read) - before < 3000
    assert [each.run.job_id for each in taken] == ["free"]


async def a_line(scene: Scene, name: str) -> tuple[Claimed, list[Run]]:
    """A run that holds this semaphore, and two that stand in its line."""
    job = await add_job(scene.store, semaphores=(name,))
    waiting = (await add_runs(scene.store, job, 3))[1:]
    (holder,) = await scene.worker.claim()
    return holder, waiting


@pytest.mark.parametrize("what", ["cancel", "hold", "edit", "delete"])
async def test_who_changes_a_line_locks_its_semaphore_first(scene: Scene, what: str) -> None:
    """What touches runs in a line waits for who serves it, and has locked none of them: nobody waits in a circle."""
    holder, (head, _) = await a_line(scene, "db")
    job = await scene.store.get_job(holder.run.job_id)
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "cancel": lambda: scene.store.cancel_run(head.id, "enough", NOW),
        "hold": lambda: scene.store.hold_run(head.id, "wait"),
        "edit": lambda: scene.store.replace_job(job, paused(job)),
        "delete": lambda: scene.store.delete_job(job.id, NOW),
    }
    async with scene.held_open() as db:
        await db.db.rows("SELECT FROM tokimori_semaphores WHERE name = 'db' FOR NO KEY UPDATE")
        call = await waits(calls[what]())
        assert len(await db.db.rows("SELECT id FROM tokimori_runs FOR UPDATE NOWAIT")) == 3
    await call


async def test_methods_that_deadlock_are_tried_again(scene: Scene) -> None:
    """A method that the server undoes because it met another one is tried again, unseen."""
    tried = 0

    async def work(session: Any) -> int:
        nonlocal tried
        tried += 1
        if tried < 3:
            await session.execute("DO $$ BEGIN RAISE EXCEPTION 'undone' USING ERRCODE = '40P01'; END $$")
        return tried

    assert await scene.store.db.use(work) == 3  # type: ignore[attr-defined]


async def test_a_claim_goes_around_a_key_that_somebody_counts(scene: Scene) -> None:
    """While one claim counts the runs of a job's keys no other one does; what has a key stays ready."""
    job = await add_job(scene.store)
    await scene.store.add_run(a_request(job, concurrency_key="k"), NOW)
    async with scene.held_open() as db:
        assert len(await claimed_in(db, scene.worker.id, job)) == 1
        late = await scene.store.add_run(a_request(job, concurrency_key="k"), NOW)
        async with asyncio.timeout(GOES_AROUND):
            assert await scene.other.claim() == []
        assert await state_of(scene.store, late) == "ready"
    assert await scene.other.claim() == []
    assert (await scene.store.get_run(late.id)).blocked_on == "key"


async def test_a_claim_does_not_wait_for_who_makes_a_semaphore(scene: Scene) -> None:
    """Two claims that make semaphores at a time do not wait for each other, in whatever order they would."""
    both, back = [await add_job(scene.store, name, semaphores=("a", "b")) for name in ("both", "back")]
    await add_runs(scene.store, both, 1)
    async with scene.held_open() as db:
        assert len(await claimed_in(db, scene.worker.id, both)) == 1
        await add_runs(scene.store, back, 1)
        async with asyncio.timeout(GOES_AROUND):
            assert await scene.other.claim() == []
    assert [each.limit for each in await scene.store.list_semaphores()] == [1, 1]


async def test_a_join_that_is_complete_again_waits_for_no_run(scene: Scene) -> None:
    """While its run is being settled the same parents end once more: they wait for nobody, and make no second run."""
    _, first, again = await two_rounds(scene.store, scene.worker)
    await settle(scene.store, scene.worker, *first)
    (born,) = await scene.worker.claim(now=later(1))
    async with scene.held_open() as db:
        assert await db.settle([scene.worker.change(born)], scene.worker.id, NOW) == [Verdict.APPLIED]
        async with asyncio.timeout(GOES_AROUND):
            await settle(scene.store, scene.worker, *again)
    assert [run.id for run in await runs_of(scene.store, "child")] == [born.run.id]
