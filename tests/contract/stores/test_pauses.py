"""Paused queues: once a pause is acknowledged nothing of the queue is claimed, and all of it waits for the resume."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.contract.stores.actors import NOW, Worker, a_claim, add_job, add_runs, fire, later, state_of
from tokimori.model.ids import JobId
from tokimori.model.lanes import EVERYTHING, Pause, lane_of
from tokimori.model.outcome import Lost
from tokimori.model.run import Run
from tokimori.model.transitions import RunState
from tokimori.ports.store import RunFilter, Store
from tokimori.ports.working import Verdict

MAIL = Pause(queue="mail", since=NOW, reason="Störung „eins“", by="ann")
ALL = Pause(queue=EVERYTHING, since=later(1))


async def test_a_pause_is_read_as_it_was_made(store: Store) -> None:
    """Pauses are listed by queue, everything first; a second one changes nothing; a resume may repeat."""
    assert await store.list_pauses() == []
    assert await store.add_pause(MAIL) == MAIL
    assert await store.add_pause(ALL) == ALL
    assert await store.add_pause(Pause(queue="mail", since=later(9), reason="another", by="bob")) == MAIL
    assert await store.add_pause(Pause(queue="Mail", since=NOW)) == Pause(queue="Mail", since=NOW)
    assert await store.list_pauses() == [ALL, Pause(queue="Mail", since=NOW), MAIL]
    for _ in range(2):
        await store.delete_pause(EVERYTHING)
    assert await store.list_pauses() == [Pause(queue="Mail", since=NOW), MAIL]


async def test_a_paused_queue_waits(store: Store, worker: Worker) -> None:
    """Nothing of it is claimed or told of, other queues go on, and after its resume it goes on in its order."""
    mail, rest = await add_job(store, "mail", queue="mail"), await add_job(store, "rest", queue="mails")
    runs = await add_runs(store, mail, 3)
    await add_runs(store, rest, 1)
    await store.add_pause(MAIL)
    lanes = [lane_of(mail.definition), lane_of(rest.definition)]
    assert (await worker.tick()).survey.lanes == (await store.survey(NOW)).lanes == (lanes[1],)
    claimed = await store.claim(a_claim(worker.id, lanes, 10), NOW)
    assert [each.run.job_id for each in claimed] == ["rest"]
    assert await store.claim(a_claim(worker.id, lanes, 10), NOW) == []
    runs += await add_runs(store, mail, 1)
    await store.delete_pause("mail")
    assert (await worker.tick()).survey.lanes == (lanes[0],)
    order = sorted(runs, key=lambda run: (run.rank, run.id))
    assert [each.run.id for each in await worker.claim()] == [run.id for run in order]


async def test_a_claim_that_looks_again_stays_out_of_it(store: Store, worker: Worker) -> None:
    """Where most of what it finds does not fit, it looks for more, and takes nothing of a paused queue then either."""
    mail, full = await add_job(store, "mail", queue="mail"), await add_job(store, "full", max_running=1)
    await add_runs(store, mail, 12)
    await add_runs(store, full, 12)
    await store.add_pause(MAIL)
    lanes = [lane_of(mail.definition), lane_of(full.definition)]
    assert [each.run.job_id for each in await store.claim(a_claim(worker.id, lanes, 10), NOW)] == ["full"]


async def test_everything_waits(store: Store, worker: Worker) -> None:
    """While everything is paused nothing is claimed; its resume leaves a queue's own pause."""
    jobs = [await add_job(store, name, queue=name) for name in ("mail", "other")]
    for job in jobs:
        await add_runs(store, job, 1)
    await store.add_pause(ALL)
    await store.add_pause(MAIL)
    lanes = [lane_of(job.definition) for job in jobs]
    assert (await worker.tick()).survey.lanes == ()
    assert await store.claim(a_claim(worker.id, lanes, 10), NOW) == []
    await store.delete_pause(EVERYTHING)
    assert [each.run.job_id for each in await store.claim(a_claim(worker.id, lanes, 10), NOW)] == ["other"]


async def test_what_runs_goes_on(store: Store, worker: Worker) -> None:
    """A claim asked for again after the pause gives what it took before; its end counts; what comes back waits."""
    job = await add_job(store, queue="mail")
    await add_runs(store, job, 2)
    claim = a_claim(worker.id, [lane_of(job.definition)], 2)
    first, second = await store.claim(claim, NOW)
    await store.add_pause(MAIL)
    assert await store.claim(claim, NOW) == [first, second]
    assert await worker.settle(first) is Verdict.APPLIED
    await worker.settle(second, Lost("gone"))
    assert await state_of(store, second) is RunState.READY
    assert await worker.claim() == []


async def test_occurrences_become_runs_that_wait(store: Store, worker: Worker) -> None:
    """A paused queue is no paused job: its occurrences are decided as ever, and what became a run is run later."""
    await add_job(store, schedule="* * * * * *", next_due=later(1), max_running=0, queue="mail")
    await store.add_pause(MAIL)
    await fire(store, later(3))
    assert await worker.claim(now=later(3)) == []
    await store.delete_pause("mail")
    assert [each.run.nominal for each in await worker.claim(now=later(3))] == [later(1), later(2), later(3)]


async def test_a_node_is_woken_by_a_resume(store: Store) -> None:
    """Whoever watches hears of a resume: what waits is claimed without delay."""
    woken = asyncio.Event()
    store.watch(woken.set)
    await store.add_pause(MAIL)
    woken.clear()
    await store.delete_pause("mail")
    async with asyncio.timeout(5):
        await woken.wait()


async def test_nothing_is_claimed_after_the_acknowledgement(store: Store) -> None:
    """While four nodes claim all the time: whatever is running when a pause has returned, no more is afterwards."""
    job = await add_job(store, queue="mail")
    await add_runs(store, job, 120)
    workers = [await Worker.join(store) for _ in range(4)]
    for pause in (MAIL, ALL) * 3:
        async with _claiming(workers, job.id):
            await asyncio.sleep(0.01)
            await store.add_pause(pause)
            before = await _running(store)
            await asyncio.sleep(0.02)
            assert await _running(store) == before
        await store.delete_pause(pause.queue)
    assert await _running(store)


@asynccontextmanager
async def _claiming(workers: list[Worker], job: JobId) -> AsyncIterator[None]:
    """Each node takes one run after the other of what it knew when it began, whatever surveys say."""
    (store,) = {worker.store for worker in workers}
    lanes = [lane_of((await store.get_job(job)).definition)]

    async def claim(worker: Worker) -> None:
        while True:
            await store.claim(a_claim(worker.id, lanes, 1), NOW)
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(claim(worker)) for worker in workers]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _running(store: Store) -> set[str]:
    running: list[Run] = await store.list_runs(RunFilter(states=frozenset({RunState.RUNNING}), limit=1000))
    return {run.id for run in running}
