"""Semaphores and keys on a Redis server: exact with many connections, and cheap."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from random import Random

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import NOW, Held, Worker, a_request, add_job, add_runs, later
from tests.servers.redis import Server
from tokimori.clock import Moment, SystemClock
from tokimori.errors import Conflict, Refused
from tokimori.model.ids import JobId
from tokimori.model.job import JobState
from tokimori.model.outcome import Failed, Hold, Lost, Outcome, Released, RetryAt, Succeeded
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.store import RunFilter, Store
from tokimori.ports.working import Claimed
from tokimori.stores.open import open_store

P = "{tokimori}:"
CHECK = """
local P, faults = '{tokimori}:', {}
local function sum_of(name)
    local sum = 0
    for _, id in ipairs(redis.call('ZRANGE', P .. 'holders:' .. name, 0, -1)) do
        local run = string.match(id, '^(.-)/')
        local found = 0
        if run then
            local state, holds = unpack(redis.call('HMGET', P .. 'run:' .. run, 'state', 'holds'))
            for each, weight in string.gmatch(holds or '', '(%S+) (%d+)') do
                found = each == name and state == 'running' and tonumber(weight) or found
            end
        else
            local weight, node = unpack(redis.call('HMGET', P .. 'permit:' .. id, 'weight', 'node_id'))
            found = redis.call('HGET', P .. 'node:' .. (node or ''), 'state') == 'alive' and tonumber(weight) or 0
        end
        if found == 0 then
            faults[#faults + 1] = name .. ' is held by ' .. id
        end
        sum = sum + found
    end
    return sum
end
for _, name in ipairs(redis.call('ZRANGE', P .. 'semaphores', 0, -1)) do
    local limit, used = unpack(redis.call('HMGET', P .. 'semaphore:' .. name, 'limit', 'used'))
    local sum = sum_of(name)
    if tonumber(used) ~= sum or sum > tonumber(limit) then
        faults[#faults + 1] = table.concat({name, 'limit', limit, 'used', used, 'sum', sum}, ' ')
    end
end
for _, key in ipairs(redis.call('KEYS', P .. 'running:*:*')) do
    if redis.call('SCARD', key) > 1 then
        faults[#faults + 1] = key .. ' has ' .. redis.call('SCARD', key)
    end
end
return table.concat(faults, ', ')
"""


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of the test's own."""
    server = Server()
    yield server
    server.remove()


@pytest.fixture
async def store(server: Server) -> AsyncIterator[Store]:
    """An open store with its schema."""
    store = await opened(server)
    yield store
    await store.close()


async def opened(server: Server) -> Store:
    """A store with connections of its own."""
    store = open_store(server.url(), SystemClock())
    await store.open()
    await store.migrate()
    return store


def check(server: Server) -> None:
    """At this moment every unit is held once, by somebody who runs or lives, and no limit is exceeded."""
    faults = server.command("EVAL", CHECK, "0")
    assert faults == "$0\r\n\r\n", faults


def commands(server: Server) -> int:
    """How many commands the server has carried out, those of scripts included."""
    lines = server.command("INFO", "commandstats").split("\r\n")
    return sum(int(line.partition("calls=")[2].partition(",")[0]) for line in lines if line.startswith("cmdstat_"))


class Crowd:
    """Workers and programs on many connections, that do whatever comes to mind."""

    def __init__(self, store: Store, server: Server, seed: int) -> None:
        self.store = store
        self.server = server
        self.random = Random(seed)
        self.running: list[tuple[Worker, Claimed]] = []
        self.held: list[tuple[Worker, Held]] = []

    async def act(self, rounds: int) -> None:
        """So many acts, one after the other, with a look at the whole after each."""
        self.worker = await Worker.join(self.store)
        acts = [self.claim, self.claim, self.settle, self.settle, self.acquire, self.release, self.order, self.edit]
        for _ in range(rounds):
            with suppress(Conflict, Refused):
                await self.random.choice([*acts, self.die] if self.random.random() < 0.1 else acts)()
            check(self.server)

    async def claim(self) -> None:
        self.running += [(self.worker, each) for each in await self.worker.claim(self.random.randint(1, 6))]

    async def settle(self) -> None:
        outcomes: list[Outcome] = [Succeeded(0), Failed("no"), Released("later"), RetryAt(NOW), Hold("look")]
        mine, self.running = self.running[:3], self.running[3:]
        for worker, claimed in mine:
            await worker.settle(claimed, self.random.choice(outcomes))
        await self.store.promote(NOW, 10)

    async def acquire(self) -> None:
        name, weight = self.random.choice("ab"), self.random.randint(1, 2)
        self.held.append((self.worker, await self.worker.acquire(name, weight, rank=NOW - self.random.randint(0, 99))))

    async def release(self) -> None:
        if self.held:
            worker, held = self.held.pop(self.random.randrange(len(self.held)))
            await worker.release(held)

    async def order(self) -> None:
        runs = await self.store.list_runs(RunFilter(states=frozenset(RunState) - ENDS, limit=200))
        run = self.random.choice(runs)
        match self.random.randrange(4):
            case 0:
                await self.store.hold_run(run.id, "wait")
            case 1:
                await self.store.cancel_run(run.id, "enough", NOW)
            case _:
                await self.store.resume_run(run.id)

    async def edit(self) -> None:
        old = await self.store.get_job(JobId(f"j{self.random.randrange(6)}"))
        state = JobState.PAUSED if self.random.random() < 0.2 else JobState.ENABLED
        semaphores = self.random.choice([("a",), ("a:2", "b"), ("b:2",), ("a", "b")])
        definition = replace(old.definition, semaphores=semaphores)
        await self.store.replace_job(old, replace(old, definition=definition, state=state, version=old.version + 1))

    async def die(self) -> None:
        """The worker is declared dead, and another one takes over what it left."""
        heir = await Worker.join(self.store)
        await self.worker.die(by=heir)
        lost = await self.store.orphans(100)
        changes = [replace(heir.change(each, Lost("dead")), owner=each.run.node_id) for each in lost]
        await self.store.settle(changes, heir.id, NOW)
        self.worker, self.running, self.held = heir, [], []


@pytest.mark.prove
async def test_nothing_is_exceeded_and_nothing_leaks(server: Server) -> None:
    """Whatever six crowds with connections of their own do at once, units are exact at every look, and all end."""
    stores = [await opened(server) for _ in range(6)]
    for name, limit in (("a", 3), ("b", 2)):
        await stores[0].put_semaphore(name, limit, NOW)
    for n in range(6):
        job = await add_job(stores[0], f"j{n}", semaphores=("a",), max_running=n % 3, queue="xy"[n % 2])
        for m in range(20):
            key = "kl"[m % 2] if n % 2 else None
            await stores[0].add_run(a_request(job, due=Moment(NOW - m), concurrency_key=key), NOW)
    crowds = [Crowd(store, server, seed) for seed, store in enumerate(stores)]
    await asyncio.gather(*(crowd.act(60) for crowd in crowds))
    await drain(stores[0], crowds)
    check(server)
    for found in await stores[0].list_semaphores():
        assert (found.used, found.waiting, found.holders) == (0, 0, ())
    for store in stores:
        await store.close()


async def drain(store: Store, crowds: list[Crowd]) -> None:
    """Programs give back, what is held or paused goes on, and everything runs to its end."""
    for crowd in crowds:
        for worker, held in crowd.held:
            await worker.release(held)
        for worker, claimed in crowd.running:
            await worker.settle(claimed)
    for job in await store.list_jobs():
        await store.replace_job(job, replace(job, state=JobState.ENABLED, version=job.version + 1))
    worker = await Worker.join(store)
    for _ in range(1000):
        for run in await store.list_runs(RunFilter(states=frozenset({RunState.HELD}), limit=1000)):
            await store.resume_run(run.id)
        await store.promote(later(999), 1000)
        for claimed in await worker.claim():
            await worker.settle(claimed)
        if not await store.list_runs(RunFilter(states=frozenset(RunState) - ENDS)):
            return
    left = await store.list_runs(RunFilter(states=frozenset(RunState) - ENDS))
    raise AssertionError([(run.id, run.state, run.blocked_on) for run in left])


async def test_a_long_line_costs_nothing(server: Server, store: Store) -> None:
    """Freeing a unit takes no more commands with 500 runs in line than with 20."""
    worker = await Worker.join(store)
    job = await add_job(store, "many", semaphores=("db",))
    costs = []
    for number in (20, 480):
        await add_runs(store, job, number)
        claimed = await worker.claim(1)
        while await worker.claim(1):
            pass
        before = commands(server)
        for each in claimed:
            await worker.settle(each)
        await worker.tick()
        costs.append(commands(server) - before)
        for each in await worker.claim(1):
            await worker.settle(each)
    assert costs[1] <= costs[0]


async def test_who_wants_no_semaphore_pays_for_none(server: Server, store: Store) -> None:
    """Beside 300 runs in the line of a mutex a claim and a settle of another job take no more commands."""
    worker = await Worker.join(store)
    free = await add_job(store, "free", queue="free")
    costs = []
    for _ in range(2):
        await add_runs(store, free, 100)
        before = commands(server)
        claimed = [each for each in await worker.claim(100) if each.run.job_id == "free"]
        await store.settle([worker.change(each) for each in claimed], worker.id, NOW)
        costs.append(commands(server) - before)
        await add_runs(store, await add_job(store, f"full-{len(costs)}", semaphores=("db",)), 300)
        for _ in range(5):
            await worker.claim(100)
    assert costs[1] <= costs[0]
