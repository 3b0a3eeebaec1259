"""Semaphores and keys where methods meet: what one holds open the other waits for, or goes around."""

import asyncio

import pytest

from tests.contract.stores.actors import (
    EVERY_SECOND,
    NOW,
    Worker,
    a_claim,
    a_request,
    add_job,
    add_runs,
    later,
    planned,
    state_of,
)
from tests.contract.stores.test_limits import states
from tests.integration.stores.scenes import GOES_AROUND, Scene, paused, waits
from tokimori.model.lanes import lane_of
from tokimori.model.policies import Overlap
from tokimori.model.run import Run
from tokimori.ports.semaphores import Grant, InLine, NodeGone
from tokimori.ports.store import Store
from tokimori.ports.working import Claimed, Verdict
from tokimori.stores.mysql.lines import RATES_OF_QUEUES
from tokimori.stores.mysql.sessions import TransactionSession
from tokimori.stores.mysql.statements import Answer, sql

CLAIM_PACKETS, SETTLE_PACKETS = 3, 2
TABLES = ("tokimori_permits", "tokimori_semaphores", "tokimori_runs_blocked", "tokimori_runs_keys")


async def one(store: Store, name: str, *semaphores: str) -> Claimed:
    """A run of a job of its own, not claimed yet: what a claim of it will be."""
    job = await add_job(store, name, semaphores=semaphores)
    return Claimed(run=await store.add_run(a_request(job), NOW), definition=job.definition)


async def test_a_claim_goes_around_a_semaphore_that_is_being_taken(scene: Scene) -> None:
    """While somebody takes units nobody else counts them: who wants some stays ready, and others are claimed."""
    wants = await one(scene.store, "wants", "db")
    await one(scene.store, "free")
    await scene.store.put_semaphore("db", 2, NOW)
    async with scene.held_open() as db:
        await Worker(db, scene.other.id).acquire("db", 2)
        async with asyncio.timeout(GOES_AROUND):
            assert [each.run.job_id for each in await scene.worker.claim()] == ["free"]
        assert await state_of(scene.store, wants) == "ready"
    assert await scene.worker.claim() == []
    assert await state_of(scene.store, wants) == "blocked"


async def test_a_claim_goes_around_one_of_the_same_key(scene: Scene) -> None:
    """While a run of a key is being claimed nobody counts those that run, though the job has no limit."""
    job = await add_job(scene.store)
    runs = [await scene.store.add_run(a_request(job, concurrency_key="a"), NOW) for _ in range(2)]
    lanes = [lane_of(job.definition)]
    async with scene.held_open() as db:
        assert len(await db.claim(a_claim(scene.worker.id, lanes, 1), NOW)) == 1
        async with asyncio.timeout(GOES_AROUND):
            assert await scene.other.claim() == []
    assert await scene.other.claim() == []
    assert sorted(await states(scene.store, runs)) == ["blocked", "running"]


async def test_of_two_programs_at_once_one_is_granted(scene: Scene) -> None:
    """Who asks for a unit that is just being granted waits, and finds it taken."""
    async with scene.held_open() as db:
        assert (await Worker(db, scene.worker.id).acquire("db")).answer == Grant(token=1)
        second = await waits(scene.other.acquire("db"))
    assert (await second).answer == InLine(ahead=0)


async def test_a_unit_that_is_given_back_finds_who_joins_meanwhile(scene: Scene) -> None:
    """A run that ends while a program joins the line waits, and grants it the unit."""
    await one(scene.store, "holder", "db")
    (holder,) = await scene.worker.claim()
    async with scene.held_open() as db:
        waiting = await Worker(db, scene.other.id).acquire("db")
        assert waiting.answer == InLine(ahead=0)
        settle = await waits(scene.worker.settle(holder))
    assert await settle is Verdict.APPLIED
    assert (await scene.store.get_semaphore("db")).holders[0].id == waiting.wish.id


async def test_two_that_end_at_once_wake_two(scene: Scene) -> None:
    """Two units that are given back at the same time serve the line one after the other."""
    await scene.store.put_semaphore("db", 2, NOW)
    runs = await add_runs(scene.store, await add_job(scene.store, semaphores=("db",)), 4)
    first, second = await scene.worker.claim()
    async with scene.held_open() as db:
        change = scene.worker.change(first)
        assert await db.settle([change], scene.worker.id, NOW) == [Verdict.APPLIED]
        settle = await waits(scene.worker.settle(second))
    assert await settle is Verdict.APPLIED
    assert await states(scene.store, runs[2:]) == ["ready", "ready"]


async def test_a_head_that_is_cancelled_while_a_unit_is_given_back_loses_it_to_the_next(scene: Scene) -> None:
    """A cancel of the first in line waits for who is waking it, and passes its turn on."""
    runs = await add_runs(scene.store, await add_job(scene.store, semaphores=("db",)), 3)
    (holder,) = await scene.worker.claim()
    async with scene.held_open() as db:
        await db.settle([scene.worker.change(holder)], scene.worker.id, NOW)
        cancel = await waits(scene.store.cancel_run(runs[1].id, "enough", NOW))
    await cancel
    assert await states(scene.store, runs[1:]) == ["cancelled", "ready"]


async def in_an_old_line(scene: Scene, name: str, **terms: object) -> Run:
    """A scheduled run that waits for `db`, which its job does not want any more: the change has not reached it."""
    job = await add_job(scene.store, name, semaphores=("db",), **terms)
    run = await scene.store.add_run(a_request(job, origin=f"s:{name}"), NOW)
    assert await scene.worker.claim() == []
    await scene.store.db.ask(  # type: ignore[attr-defined]
        sql(
            "INSERT INTO tokimori_moves (incarnation, origin, woken, names, since) VALUES (%s, '', 0, %s, 0)",
            job.incarnation,
            '[["db", 1]]',
        ),
        sql("UPDATE tokimori_jobs SET semaphores = NULL WHERE incarnation = %s", job.incarnation),
    )
    return run


async def test_a_run_leaves_an_old_line_when_nobody_moves_that(scene: Scene) -> None:
    """A cancel, and a plan that replaces runs, wait for who moves a line in which a run stands by its old job alone."""
    await one(scene.store, "holder", "db")
    (holder,) = await scene.worker.claim()
    cancelled = await in_an_old_line(scene, "cancelled")
    terms = {"schedule": EVERY_SECOND, "max_running": 1, "on_overlap": Overlap.REPLACE, "next_due": later(1)}
    replaced = await in_an_old_line(scene, "replaced", **terms)
    (due,) = await scene.store.due(later(1), 10)
    async with scene.held_open() as db:
        await db.settle([scene.worker.change(holder)], scene.worker.id, NOW)
        cancel = await waits(scene.store.cancel_run(cancelled.id, "enough", NOW))
        plan = await waits(scene.store.apply([planned(due, later(1))], later(1)))
    await cancel
    assert await plan == [True]
    assert await states(scene.store, [cancelled, replaced]) == ["cancelled", "cancelled"]


async def test_a_pause_waits_for_who_moves_the_line(scene: Scene) -> None:
    """A job that is paused while its blocked run is being woken leaves the unit to others."""
    job = await add_job(scene.store, "first", semaphores=("db",))
    holder, woken = await add_runs(scene.store, await add_job(scene.store, "holder", semaphores=("db",)), 1), None
    (running,) = await scene.worker.claim()
    (woken,) = await add_runs(scene.store, job, 1)
    behind = await one(scene.store, "behind", "db")
    assert await scene.worker.claim() == []
    async with scene.held_open() as db:
        await db.settle([scene.worker.change(running)], scene.worker.id, NOW)
        pause = await waits(scene.store.replace_job(job, paused(job)))
    await pause
    assert (await scene.store.get_run(woken.id)).lane is None
    assert await states(scene.store, [*holder, behind.run]) == ["succeeded", "ready"]


async def test_a_program_waits_for_its_nodes_burial(scene: Scene) -> None:
    """Who asks while it is being declared dead is told that it is."""
    async with scene.held_open() as db:
        assert await db.bury(scene.worker.id, 0, scene.other.id, NOW)
        asked = await waits(scene.worker.acquire("db"))
    assert (await asked).answer == NodeGone()
    assert await scene.store.list_semaphores() == []


async def test_a_burial_takes_what_is_being_granted(scene: Scene) -> None:
    """A node that is declared dead while a program of it is granted units keeps none."""
    async with scene.held_open() as db:
        await Worker(db, scene.worker.id).acquire("db")
        burial = await waits(scene.store.bury(scene.worker.id, 0, scene.other.id, NOW))
    assert await burial
    assert (await scene.store.get_semaphore("db")).used == 0


async def test_claims_at_once_make_a_semaphore_once(scene: Scene) -> None:
    """Nodes that are the first to want a semaphore find the same one, and hold its unit one after the other."""
    runs = await add_runs(scene.store, await add_job(scene.store, semaphores=("new",)), 6)
    batches = await asyncio.gather(*(worker.claim() for worker in [scene.worker, scene.other] * 3))
    assert sum(map(len, batches)) <= 1
    assert (await scene.store.get_semaphore("new")).used <= 1
    assert {str(await state_of(scene.store, run)) for run in runs} <= {"running", "blocked", "ready"}


async def test_what_wants_no_semaphore_asks_for_none(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims and settles of jobs without semaphores and keys ask which queues have a rate, and nothing else of them."""
    asked: list[tuple[str, ...]] = []
    ask = TransactionSession.ask

    async def noted(session: TransactionSession, *statements: str) -> list[Answer]:
        asked.append(statements)
        return await ask(session, *statements)

    await add_runs(scene.store, await add_job(scene.store, max_running=5), 3)
    lanes = (await scene.store.survey(NOW)).lanes
    monkeypatch.setattr(TransactionSession, "ask", noted)
    claimed = await scene.store.claim(a_claim(scene.worker.id, lanes, 10), NOW)
    changes = [scene.worker.change(each) for each in claimed]
    assert await scene.store.settle(changes, scene.worker.id, NOW) == [Verdict.APPLIED] * 3
    assert len(asked) == CLAIM_PACKETS + SETTLE_PACKETS
    said = [text for packet in asked for text in packet if text != RATES_OF_QUEUES]
    assert not any(table in text for text in said for table in TABLES)
