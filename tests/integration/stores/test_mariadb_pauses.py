"""Claims that meet the pause of a queue: one is held open in a transaction of its own."""

import asyncio

from tests.contract.stores.actors import NOW, add_job, add_runs
from tests.integration.stores.scenes import GOES_AROUND, Scene, claimed_in, waits
from tokimori.model.lanes import Pause


async def test_a_pause_of_a_queue_waits_for_claims_under_way(scene: Scene) -> None:
    """It is acknowledged after what is being claimed was claimed."""
    job = await add_job(scene.store, queue="mail")
    await add_runs(scene.store, job, 2)
    async with scene.held_open() as db:
        assert len(await claimed_in(db, scene.worker.id, job)) == 2
        pause = await waits(scene.store.add_pause(Pause(queue="mail", since=NOW)))
    await pause


async def test_claims_share_the_gate(scene: Scene) -> None:
    """Two nodes claim at the same time: no claim keeps another from the pauses."""
    job = await add_job(scene.store)
    await add_runs(scene.store, job, 12)
    async with scene.held_open() as db:
        assert len(await claimed_in(db, scene.worker.id, job)) == 10
        assert len(await scene.other.claim()) == 2


async def test_a_claim_does_not_wait_for_a_pause_of_a_queue(scene: Scene) -> None:
    """While a pause is being written nothing is claimed, and nothing waits for it."""
    job = await add_job(scene.store)
    await add_runs(scene.store, job, 1)
    async with scene.held_open() as db:
        await db.add_pause(Pause(queue="mail", since=NOW))
        async with asyncio.timeout(GOES_AROUND):
            assert await scene.worker.claim() == []
    assert len(await scene.worker.claim()) == 1
