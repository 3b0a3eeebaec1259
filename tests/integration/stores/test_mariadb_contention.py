"""Everything that moves the lines of semaphores and keys at once, over many sessions, watched from outside."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import NOW, Held, Worker, a_request, add_job
from tests.contract.stores.conftest import STORES, forget
from tokimori.errors import Conflict, NotFound, Refused
from tokimori.model.ids import NodeId, RunId
from tokimori.model.job import JobState
from tokimori.model.outcome import Failed, Hold, Outcome, Released, RetryAt
from tokimori.model.transitions import RunState
from tokimori.ports.semaphores import Grant, InLine
from tokimori.ports.store import RunFilter, Store
from tokimori.ports.working import Claimed, Verdict
from tokimori.stores.mysql.lines import STUCK

SESSIONS = 4
"""Stores, each with sessions of its own."""
FEW, MANY = 20, 150
"""Actions of each who takes part."""
LIMITS = {"a": 1, "b": 2, "c": 3}
JOBS: dict[str, dict[str, object]] = {
    "mutex": {"semaphores": ("a",)},
    "two": {"semaphores": ("a", "b")},
    "heavy": {"semaphores": ("b:2", "c:2"), "queue": "other"},
    "keyed": {"max_running_per_key": 2},
    "all": {"semaphores": ("c",), "max_running": 2, "concurrency_key": "k"},
}
OUTCOMES: tuple[Outcome | None, ...] = (None, Hold("look"), Failed("no"), *[Released("later")] * 4, *[RetryAt(NOW)] * 3)
"""Mostly such that the run comes back."""
# Each must find nothing, at any commit.
EXCEEDED = """
SELECT s.name, s."limit", SUM(p.weight) AS used FROM tokimori_semaphores s
JOIN tokimori_permits p ON p.semaphore = s.name AND p.token IS NOT NULL GROUP BY s.name, s."limit"
HAVING used > s."limit"
"""
CROWDED = """
SELECT r.job_id, r.concurrency_key, COUNT(*) AS running FROM tokimori_runs r
JOIN tokimori_jobs j ON j.incarnation = r.incarnation WHERE r.state = 'running' AND r.concurrency_key IS NOT NULL
GROUP BY r.job_id, r.concurrency_key, j.max_per_key HAVING running > j.max_per_key
"""
LEAKED = """
SELECT p.id FROM tokimori_permits p LEFT JOIN tokimori_runs r ON r.id = p.run_id
LEFT JOIN tokimori_nodes n ON n.id = p.node_id
WHERE (p.run_id IS NOT NULL AND (r.id IS NULL OR r.state <> 'running' OR r.token <> p.token))
    OR (p.run_id IS NULL AND n.state <> 'alive')
"""
UNHELD = """
SELECT r.id FROM tokimori_runs r LEFT JOIN tokimori_permits p ON p.run_id = r.id
WHERE (r.holds AND r.state <> 'running') OR (r.state = 'running' AND r.holds AND p.id IS NULL)
    OR (r.blocked_on IS NOT NULL AND r.state <> 'blocked')
"""


@dataclass
class Arena:
    """Several stores of one database, and how many of what happened."""

    stores: list[Store]
    over: bool = False
    applied: int = 0
    granted: int = 0
    looks: int = 0
    runs: list[RunId] = field(default_factory=list)


@pytest.fixture
async def arena(tmp_path: Path) -> AsyncIterator[Arena]:
    """Jobs that want the same semaphores, with fifteen runs each."""
    async with opened(tmp_path) as stores:
        for name, limit in LIMITS.items():
            await stores[0].put_semaphore(name, limit, NOW)
        arena = Arena(stores)
        for name, terms in JOBS.items():
            job = await add_job(stores[0], name, **terms)
            for n in range(15):
                key = f"k{n % 2}" if name == "keyed" else job.definition.concurrency_key
                run = await stores[0].add_run(a_request(job, concurrency_key=key), NOW)
                arena.runs.append(run.id)
        yield arena
    forget("mariadb", tmp_path)


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[list[Store]]:
    """So many stores of one database."""
    stores = [STORES["mariadb"](folder) for _ in range(SESSIONS)]
    for store in stores:
        await store.open()
    await stores[0].migrate()
    yield stores
    for store in stores:
        await store.close()


async def work(arena: Arena, store: Store, random: Random, actions: int) -> None:
    """A node: claims, holds what it has for a moment, and settles it in some way; now and then it dies."""
    worker = await Worker.join(store)
    for _ in range(actions):
        claimed = await worker.claim(random.randint(1, 6))
        await asyncio.sleep(random.random() * 0.01)
        if random.random() < 0.05:
            worker = await _die(arena, worker, store, claimed)
            continue
        changes = [worker.change(each, random.choice(OUTCOMES)) for each in claimed]
        verdicts = await store.settle(changes, worker.id, NOW)
        assert set(verdicts) <= {Verdict.APPLIED}
        arena.applied += len(verdicts)
        if random.random() < 0.3:
            await store.promote(NOW, 10)
        if random.random() < 0.2:
            await worker.tick()


async def _die(arena: Arena, worker: Worker, store: Store, claimed: list[Claimed]) -> Worker:
    """Another one takes over, while the dead one's own settle comes too late."""
    heir = await Worker.join(store)
    await worker.die(by=heir)
    late, taken = await asyncio.gather(
        store.settle([worker.change(each) for each in claimed], worker.id, NOW),
        store.settle([worker.change(each, Released("lost")) for each in claimed], heir.id, NOW),
    )
    assert set(late) <= {Verdict.LOST}
    arena.applied += len(taken)
    return heir


async def program(arena: Arena, store: Store, random: Random, actions: int) -> None:
    """A program: asks for units, waits for a while, and gives them back; now and then its session dies."""
    session = await Worker.join(store)
    for _ in range(actions // 2):
        name = random.choice(list(LIMITS))
        held = await session.acquire(name, random.randint(1, LIMITS[name]), rank=NOW + random.randint(-20, 20))
        for _ in range(random.randint(0, 6)):
            if not isinstance(held.answer, InLine):
                break
            await asyncio.sleep(0.005)
            held = Held(held.wish, await store.acquire(held.wish, NOW))
        arena.granted += isinstance(held.answer, Grant)
        if random.random() < 0.1:
            heir = await Worker.join(store)
            await session.die(by=heir)
            assert not await session.release(held)
            session = heir
        else:
            assert await session.release(held)
    assert await store.leave(session.id, NOW)


async def meddle(arena: Arena, store: Store, random: Random, actions: int) -> None:
    """People: cancel, hold and resume runs, edit and pause jobs, change a limit."""
    for _ in range(actions):
        run_id = random.choice(arena.runs)
        try:
            match random.randint(0, 5):
                case 0:
                    await store.hold_run(run_id, "wait")
                case 1 | 2:
                    await store.resume_run(run_id)
                case 3 if random.random() < 0.2:
                    await store.cancel_run(run_id, "enough", NOW)
                case 3 | 4:
                    await _edit(store, random)
                case _:
                    await store.put_semaphore("c", random.randint(2, 3) + 1, NOW)
        except (Refused, Conflict, NotFound):
            pass
        await asyncio.sleep(0.005)


async def _edit(store: Store, random: Random) -> None:
    job = random.choice(await store.list_jobs())
    state = JobState.PAUSED if job.state is JobState.ENABLED and random.random() < 0.3 else JobState.ENABLED
    wants = JOBS[job.id].get("semaphores", ()) if random.random() < 0.7 else ("c",)
    definition = replace(job.definition, semaphores=wants)
    await store.replace_job(job, replace(job, version=job.version + 1, state=state, definition=definition))


async def watch(arena: Arena, store: Store) -> None:
    """Look at what is committed, again and again."""
    while not arena.over:
        for statement in (CROWDED, LEAKED, UNHELD):
            assert await asked(store, statement) == []
        assert [row for row in await asked(store, EXCEEDED) if row[0] != "c" or int(str(row[2])) > 4] == []
        arena.looks += 1


async def asked(store: Store, statement: str) -> list[tuple[object, ...]]:
    """What the server answers."""
    return await store.db.rows(statement)  # type: ignore[attr-defined, no-any-return]


@pytest.mark.prove
async def test_nothing_is_exceeded_nor_leaked_whatever_happens_at_once(arena: Arena) -> None:
    """At no commit is a limit exceeded, and in the end everything has run and nothing is held or waits."""
    await fight(arena, 0, FEW)


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(1, 7))
async def test_nothing_is_exceeded_nor_leaked_for_long(arena: Arena, seed: int) -> None:
    """The same, over thousands of actions."""
    await fight(arena, seed, MANY)


async def fight(arena: Arena, seed: int, actions: int) -> None:
    """All at once, and then whatever is left, to its end."""
    actors = [
        actor(arena, store, Random(f"{seed} {number} {actor.__name__}"), actions)
        for number, store in enumerate(arena.stores)
        for actor in (work, work, program, meddle)
    ]
    async with asyncio.TaskGroup() as group:
        group.create_task(watch(arena, arena.stores[0]))
        await asyncio.gather(*actors)
        arena.over = True
    await _nobody_waits_in_vain(arena.stores[0])
    await _run_the_rest(arena.stores[0])
    assert min(arena.applied, arena.granted, arena.looks) > 20
    assert await asked(arena.stores[0], "SELECT id FROM tokimori_permits") == []
    assert await arena.stores[0].list_runs(RunFilter(states=frozenset({RunState.BLOCKED, RunState.RUNNING}))) == []


async def _nobody_waits_in_vain(store: Store) -> None:
    """Where units are free, nobody who fits waits in a lane in which nothing is ready."""
    before = await asked(store, "SELECT COUNT(*) FROM tokimori_runs WHERE state = 'ready'")
    lanes = (await store.survey(NOW)).lanes
    stuck = [row for row in await asked(store, STUCK) if row[1] is not None and row[1] not in lanes]
    worker = await Worker.join(store)
    await worker.tick()
    assert await asked(store, "SELECT COUNT(*) FROM tokimori_runs WHERE state = 'ready'") == before, stuck
    assert await store.leave(worker.id, NOW)


async def _run_the_rest(store: Store) -> None:
    """Resume all, and work until nothing is left."""
    for job in await store.list_jobs():
        await store.replace_job(job, replace(job, version=job.version + 1, state=JobState.ENABLED))
    for name in ("b", "c"):
        await store.put_semaphore(name, 4, NOW)
    for run in await store.list_runs(RunFilter(states=frozenset({RunState.HELD}), limit=1000)):
        await store.resume_run(run.id)
    worker = await Worker.join(store)
    for orphan in await store.orphans(1000):
        await store.settle([replace(worker.change(orphan), owner=NodeId(orphan.run.node_id or ""))], worker.id, NOW)
    for _ in range(1000):
        await store.promote(NOW, 1000)
        claimed = await worker.claim()
        for each in claimed:
            await worker.settle(each)
        if not claimed and not sum([(await store.get_due(job.id)).active for job in await store.list_jobs()]):
            break
    assert sum([(await store.get_due(job.id)).active for job in await store.list_jobs()]) == 0
    assert await store.leave(worker.id, NOW)
