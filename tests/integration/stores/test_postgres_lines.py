"""Many sessions at once on the same semaphores, keys and limits: at no commit is anything exceeded, nothing leaks."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import NOW, Held, Worker, a_job, a_request, add_job, add_runs
from tests.contract.stores.conftest import STORES, forget
from tokimori.clock import Moment
from tokimori.engine.settle import change_of
from tokimori.errors import Conflict, Refused
from tokimori.model.job import Job
from tokimori.model.outcome import Failed, Hold, Lost, Outcome, Released, RetryAt, Succeeded
from tokimori.model.transitions import RunState
from tokimori.ports.semaphores import InLine, NodeGone
from tokimori.ports.store import RunFilter, Store
from tokimori.stores.postgres.store import PostgresStore

STORES_AT_ONCE, NODES, PROGRAMS = 4, 6, 6
LIMITS = {"a": 3, "b": 2, "m": 1}
TERMS: Sequence[dict[str, Any]] = (
    {"semaphores": ("a", "m")},
    {"semaphores": ("a:2", "b"), "max_running": 2},
    {"semaphores": ("b:2",), "queue": "other"},
    {"concurrency_key": "k", "semaphores": ("m",)},
    {"concurrency_key": "k", "max_running_per_key": 2, "max_running": 3},
    {"semaphores": ("a:3",), "queue": "other"},
    {},
)
OUTCOMES: Sequence[Outcome] = (
    Succeeded(0),
    Failed("no"),
    Released("later"),
    RetryAt(NOW),
    Hold("look"),
    Succeeded(0),
)
_FAULTS = """
SELECT 'semaphore ' || s.name FROM tokimori_semaphores s JOIN tokimori_permits p ON p.semaphore = s.name AND NOT waiting
GROUP BY s.name, s."limit" HAVING sum(p.weight) > s."limit"
UNION ALL
SELECT 'limit of ' || j.id FROM tokimori_jobs j JOIN tokimori_runs r ON r.incarnation = j.incarnation
WHERE r.state = 'running' AND j.max_running > 0
GROUP BY j.id, j.max_running HAVING count(*) > j.max_running
UNION ALL
SELECT 'key of ' || j.id FROM tokimori_jobs j JOIN tokimori_runs r ON r.incarnation = j.incarnation
WHERE r.state = 'running' AND r.concurrency_key IS NOT NULL
GROUP BY j.id, j.max_per_key, r.concurrency_key HAVING count(*) > j.max_per_key
UNION ALL
SELECT 'permit of no run ' || p.id FROM tokimori_permits p
WHERE p.run_id IS NOT NULL AND NOT EXISTS (
    SELECT FROM tokimori_runs r WHERE r.id = p.run_id AND r.state = 'running' AND r.token = p.token)
UNION ALL
SELECT 'permit of no program ' || p.id FROM tokimori_permits p
WHERE p.run_id IS NULL AND NOT EXISTS (SELECT FROM tokimori_nodes n WHERE n.id = p.node_id AND n.state = 'alive')
UNION ALL
SELECT 'line of one that is not blocked ' || r.id FROM tokimori_runs r
WHERE r.blocked_on IS NOT NULL AND r.state <> 'blocked'
UNION ALL
SELECT 'units for the head of the line of ' || s.name || ', and nobody is called'
FROM tokimori_semaphores s CROSS JOIN LATERAL tokimori_heads(s.name) h
JOIN tokimori_jobs j ON j.incarnation = h.incarnation
WHERE tokimori_weight(j.semaphores, s.name) <= tokimori_unused(s.name)
    AND NOT EXISTS (SELECT FROM tokimori_runs r WHERE r.state = 'ready' AND r.lane = h.lane)
    AND NOT EXISTS (
        SELECT FROM tokimori_permits p WHERE p.semaphore = s.name AND p.waiting AND p."rank" <= h."rank")
"""
_DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[list[PostgresStore]]:
    """Several programs' stores on one database, each with sessions of its own."""
    async with AsyncExitStack() as closing:
        opened = []
        for _ in range(STORES_AT_ONCE):
            store = STORES["postgres"](tmp_path)
            assert isinstance(store, PostgresStore)
            await store.open()
            closing.push_async_callback(store.close)
            opened.append(store)
        await opened[0].migrate()
        yield opened
    forget("postgres", tmp_path)


async def work(store: Store, random: Random) -> None:
    """Claim and settle; now and then be declared dead, and have a successor take over."""
    worker = await Worker.join(store)
    for turn in range(40):
        claimed = await worker.claim(random.randint(1, 6))
        await asyncio.sleep(random.random() * 0.004)
        if turn % 13 == 12:
            heir = await Worker.join(store)
            await worker.die(by=heir)
            orphans = [each for each in await store.orphans(100) if each.run.node_id == worker.id]
            assert {each.run.id for each in claimed} <= {each.run.id for each in orphans}
            changes = [change_of(each, Lost("dead"), owner=worker.id, now=NOW, chance=0.0) for each in orphans]
            await store.settle(changes, heir.id, NOW)
            worker = heir
            continue
        await store.settle([worker.change(each, random.choice(OUTCOMES)) for each in claimed], worker.id, NOW)
        await store.promote(NOW, 50)
        await worker.tick()
    assert await store.leave(worker.id, NOW)


async def hold_units(store: Store, random: Random) -> None:
    """Ask, wait a while, give back; now and then go without a word."""
    session = await Worker.join(store)
    for turn in range(40):
        name = random.choice([*LIMITS])
        held = await session.acquire(
            name, random.randint(1, LIMITS[name]), rank=Moment(NOW - random.randint(-200, 200))
        )
        for _ in range(random.randint(0, 6)):
            if isinstance(held.answer, InLine):
                held = Held(held.wish, await store.acquire(held.wish, NOW))
            await asyncio.sleep(random.random() * 0.003)
        assert not isinstance(held.answer, NodeGone)
        if turn % 9 == 8:
            assert await store.leave(session.id, NOW)
            session = await Worker.join(store)
        elif turn % 10 == 9:
            heir = await Worker.join(store)
            await session.die(by=heir)
            session = heir
        else:
            assert await session.release(held)
    assert await store.leave(session.id, NOW)


async def meddle(store: Store, random: Random, jobs: Sequence[Job]) -> None:
    """Edit, cancel, hold, resume, delete, and add more."""
    for turn in range(60):
        runs = await store.list_runs(RunFilter(states=frozenset({RunState.READY, RunState.BLOCKED, RunState.HELD})))
        run = random.choice(runs) if runs else None
        try:
            match turn % 6:
                case 0 if run is not None:
                    await store.cancel_run(run.id, "enough", NOW)
                case 1 if run is not None:
                    await store.hold_run(run.id, "wait")
                case 2 if run is not None:
                    await store.resume_run(run.id)
                case 3:
                    job = await store.get_job(random.choice(jobs).id)
                    terms = {**random.choice(TERMS), "queue": random.choice(["default", "other"])}
                    definition = replace(job.definition, **terms)
                    # What runs holds by the old terms: only a new key or a smaller limit could be exceeded by it.
                    definition = replace(
                        definition,
                        max_running=job.definition.max_running,
                        max_running_per_key=job.definition.max_running_per_key,
                    )
                    await store.replace_job(job, replace(job, definition=definition, version=job.version + 1))
                case 4:
                    await store.put_semaphore(random.choice([*LIMITS]), 3, NOW)
                case _:
                    passing = await add_job(store, f"passing-{turn}", semaphores=("a", "b"))
                    await add_runs(store, passing, 3)
                    await asyncio.sleep(0.01)
                    await store.delete_job(passing.id, NOW)
        except (Conflict, Refused):
            continue  # somebody was quicker
        await asyncio.sleep(random.random() * 0.01)


async def sample(store: PostgresStore, found: set[str]) -> None:
    """Look, from another session, at what is committed, again and again."""
    while True:
        found |= {fault for (fault,) in await store.db.rows(_FAULTS)}
        await asyncio.sleep(0)


async def end_all(store: Store) -> None:
    """Carry everything out that is left, whatever it waits for."""
    worker = await Worker.join(store)
    for run in await store.list_runs(RunFilter(states=frozenset({RunState.HELD}), limit=10_000)):
        await store.resume_run(run.id)
    idle = 0
    while idle < 3:
        await store.promote(NOW, 1000)
        claimed = await worker.claim(5)
        await store.settle([worker.change(each) for each in claimed], worker.id, NOW)
        idle = 0 if claimed else idle + 1


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("seed", "runs"), [(0, 12), pytest.param(1, 40, marks=pytest.mark.prove)])
async def test_nothing_is_exceeded_and_nothing_leaks_whatever_happens_at_once(
    stores: list[PostgresStore], seed: int, runs: int
) -> None:
    """Claims, settles, burials, programs, edits and cancels at once exceed nothing at any commit, and all ends well."""
    first = stores[0]
    (deadlocks,) = await first.db.row(_DEADLOCKS) or (0,)
    for name, limit in LIMITS.items():
        await first.put_semaphore(name, limit, NOW)
    jobs = [a_job(f"job-{n}", **terms) for n, terms in enumerate(TERMS)]
    await first.add_jobs(jobs)
    for job in jobs:
        for n in range(runs):
            key = f"k{n % 3}" if job.definition.concurrency_key else None
            due = Moment(NOW - 1000 + n)
            await first.add_run(a_request(job, due=due, concurrency_key=key), NOW)
    found: set[str] = set()
    sampler = asyncio.create_task(sample(stores[-1], found))
    at = [stores[n % STORES_AT_ONCE] for n in range(NODES + PROGRAMS + 1)]
    await asyncio.gather(
        *(work(at[n], Random(f"{seed}/{n}")) for n in range(NODES)),
        *(hold_units(at[n], Random(f"{seed}/p{n}")) for n in range(PROGRAMS)),
        meddle(at[-1], Random(seed), jobs),
    )
    await end_all(first)
    sampler.cancel()
    assert found == set()
    for semaphore in await first.list_semaphores():
        assert (semaphore.used, semaphore.waiting, semaphore.holders) == (0, 0, ())
    assert await first.db.rows("SELECT FROM tokimori_permits") == []
    assert {str(run.state) for run in await first.list_runs(RunFilter(limit=10_000))} <= {
        "succeeded",
        "failed",
        "cancelled",
    }
    assert await first.db.row(_DEADLOCKS) == (deadlocks,)


async def test_a_line_is_served_in_order_by_whoever_comes(stores: list[PostgresStore]) -> None:
    """Eight nodes that race for what a mutex frees start its runs in the order of their ranks."""
    first = stores[0]
    session = await Worker.join(first)
    held = await session.acquire("db", rank=NOW - 10**6)
    jobs = [await add_job(first, f"job-{n}", semaphores=("db",)) for n in range(4)]
    wanted = [
        await first.add_run(a_request(jobs[n % 4], due=Moment(NOW - 1000 + n)), NOW)
        for n in Random(7).sample(range(60), 60)
    ]
    workers = [await Worker.join(stores[n % STORES_AT_ONCE]) for n in range(8)]
    assert await workers[0].claim(100) == []
    started: list[int] = []

    async def race(worker: Worker) -> None:
        while len(started) < len(wanted):
            for claimed in await worker.claim(3):
                started.append(claimed.run.rank)
                await worker.settle(claimed)

    assert await session.release(held)
    await asyncio.gather(*(race(worker) for worker in workers))
    assert started == sorted(run.rank for run in wanted)
