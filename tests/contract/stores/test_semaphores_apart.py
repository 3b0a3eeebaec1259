"""Jobs in one store and their semaphores in another: nodes on both keep limits and order, whatever the stores are."""

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.contract.stores.conftest import forget
from tests.servers import mariadb, postgres, redis
from tokimori.clock import Moment, SystemClock
from tokimori.locks.holdings import Wanted
from tokimori.locks.membership import Program
from tokimori.locks.session import Session
from tokimori.model.ids import RunId, Token
from tokimori.model.lanes import APART_LABEL
from tokimori.model.outcome import Succeeded
from tokimori.model.semaphores import wanted
from tokimori.model.transitions import ENDS, RunState
from tokimori.node.membership import Identity
from tokimori.node.node import Node
from tokimori.node.semaphores_apart import ApartExecutor, ApartSource
from tokimori.node.units import Stock
from tokimori.ports.executor import AttemptTask, Ended, Report, StopReason
from tokimori.ports.store import RunFilter, Store
from tokimori.service.schema import StoreOnDemand, open_prepared
from tokimori.service.service import Service, service_on
from tokimori.stores.memory.store import MemoryStore
from tokimori.stores.open import open_store

CLOCK = SystemClock()
JOBS: dict[str, tuple[str, ...]] = {
    "free": (),
    "a": ("table",),
    "b": ("api", "table"),
    "heavy": ("api:2",),
    "light": ("api",),
}
LIMITS = {"api": 3, "table": 1}
RUNS = 8
"""Of each job."""
PATIENCE = 60.0
"""Seconds."""
SERVERS = {"postgres": postgres, "mariadb": mariadb, "redis": redis}
HALVES = ("jobs", "semaphores")


class Pair:
    """The two stores; each node opens them anew, as a process does. Memory is opened once."""

    def __init__(self, jobs: Callable[[], Store], semaphores: Callable[[], Store]) -> None:
        self.jobs = jobs
        self.semaphores = semaphores


def pair_of(name: str, folder: Path) -> Pair:
    """The stores of a pair."""
    if name == "memory+memory":
        jobs, semaphores = MemoryStore(CLOCK), MemoryStore(CLOCK)
        return Pair(lambda: jobs, lambda: semaphores)
    urls = [url_of(store, folder / half) for half, store in zip(HALVES, name.split("+"), strict=True)]
    return Pair(lambda: open_store(urls[0], CLOCK), lambda: open_store(urls[1], CLOCK))


def url_of(store: str, folder: Path) -> str:
    """Of an empty store for half of a pair."""
    return f"sqlite://{folder}.db" if store == "sqlite" else SERVERS[store].loans.url_of(folder)


@pytest.fixture(
    params=[
        "memory+memory",
        "sqlite+sqlite",
        "postgres+redis",
        *(
            pytest.param(pair, marks=pytest.mark.prove)
            for pair in ("redis+postgres", "mariadb+redis", "postgres+mariadb")
        ),
    ]
)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    """Two empty stores."""
    yield pair_of(request.param, tmp_path)
    for half, store in zip(HALVES, request.param.split("+"), strict=True):
        forget(store, tmp_path / half)


class Holding:
    """An executor whose attempts take 20 ms; all of them count together what they hold."""

    def __init__(self, held: Counter[str], most: Counter[str], order: list[RunId]) -> None:
        self._held, self._most, self._order = held, most, order
        self._report: Callable[[Report], None] = print

    async def open(self, report: Callable[[Report], None]) -> None:
        """See `Executor.open`."""
        self._report = report

    def start(self, tasks: Sequence[AttemptTask]) -> None:
        """See `Executor.start`."""
        for task in tasks:
            self._order.append(task.run_id)
            self._held.update(dict(wanted(JOBS[task.job_id])))
            for name, units in self._held.items():
                self._most[name] = max(self._most[name], units)
            asyncio.get_running_loop().call_later(0.02, self._end, task)

    def _end(self, task: AttemptTask) -> None:
        self._held.subtract(dict(wanted(JOBS[task.job_id])))
        now = CLOCK.now()
        self._report(Ended(run_id=task.run_id, token=task.token, outcome=Succeeded(0), at=now, started=now))

    def stop(self, run_id: RunId, token: Token, reason: StopReason, *, grace: float | None = None) -> None:
        """Nothing runs for long."""

    def renew(self, sent: float) -> None:
        """Nothing outlives a lease."""

    def forget(self, before: Moment) -> None:
        """Nothing is left."""

    async def close(self) -> None:
        """Nothing is left."""


async def opened(stack: AsyncExitStack, pair: Pair) -> tuple[Store, StoreOnDemand]:
    """Both stores, for one process."""
    jobs, semaphores = pair.jobs(), StoreOnDemand(pair.semaphores())
    await open_prepared(jobs)
    stack.push_async_callback(jobs.close)
    stack.push_async_callback(semaphores.close)
    return jobs, semaphores


def session_on(
    store: StoreOnDemand, renewed: Callable[[float], None] = lambda _sent: None, *, rests: bool = True
) -> Session:
    """A program in the store of the semaphores."""
    program = Program(host="h", boot_id="b", pid=1, version="0")
    return Session(store.store, CLOCK, os.urandom, program, renewed=renewed, prepare=store.opened, rests=rests)


async def start_node(stack: AsyncExitStack, pair: Pair, executor: Holding) -> None:
    """A node at work until the stack is unwound."""
    jobs, semaphores = await opened(stack, pair)
    service = service_on(jobs, CLOCK, os.urandom, semaphore_store=semaphores)
    stock = Stock(
        executor,
        lambda renewed: session_on(semaphores, renewed, rests=False),
        clock=CLOCK,
        random=os.urandom,
        claims=lambda: True,
    )
    source, apart = ApartSource(jobs, stock, os.urandom, service.jobs.refresh), ApartExecutor(executor, stock, CLOCK)
    identity = Identity(host="h", boot_id="b", pid=1, version="0", concurrency=4, labels={APART_LABEL: "yes"})
    node = Node(jobs, apart, CLOCK, os.urandom, identity, source=source)
    await apart.open(node.receive)
    stack.push_async_callback(apart.close)
    await node.start()
    running = asyncio.get_running_loop().create_task(node.run())

    async def stop() -> None:
        node.stop()
        await running

    stack.push_async_callback(stop)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait."""
    end = CLOCK.monotonic() + PATIENCE
    while not await holds():
        assert CLOCK.monotonic() < end, "it took too long"
        await asyncio.sleep(0.05)


async def have_ended(jobs: Store) -> bool:
    """Whether all runs have."""
    return all(run.state in ENDS for run in await jobs.list_runs(RunFilter(limit=100)))


async def has_ended(jobs: Store, run_id: RunId) -> bool:
    """Whether the run has."""
    return (await jobs.get_run(run_id)).state in ENDS


async def are_free(service: Service) -> bool:
    """Whether nobody holds anything."""
    return not any(each.used for each in await service.semaphores.list())


async def test_limits_hold_across_two_stores(pair: Pair) -> None:
    """Two nodes and a program share units: never more than there are, each lane in order, and nothing is left."""
    held, most, order = Counter[str](), Counter[str](), list[RunId]()
    async with AsyncExitStack() as stack:
        jobs, semaphores = await opened(stack, pair)
        service = service_on(jobs, CLOCK, os.urandom, semaphore_store=semaphores)
        await service.semaphores.set("api", LIMITS["api"])
        for name, names in JOBS.items():
            await service.jobs.add(name, noop=True, semaphores=names)
        asked = {name: [(await service.jobs.trigger(name)).id for _ in range(RUNS)] for name in JOBS}
        program = session_on(semaphores)
        await program.acquire(Wanted(name="table"), "ada")
        for _ in range(2):
            await start_node(stack, pair, Holding(held, most, order))
        await asyncio.sleep(1)
        assert held["table"] == 0
        await program.release("ada", "table")
        await until(lambda: have_ended(jobs))
        await program.close()
        try:
            await until(lambda: are_free(service))
        except AssertionError:
            left = [await service.semaphores.get(each.name) for each in await service.semaphores.list()]
            raise AssertionError(f"units are still held: {left}; the programs: {await service.nodes.list()}") from None
        runs = await jobs.list_runs(RunFilter(limit=100))
        assert [run.state for run in runs] == [RunState.SUCCEEDED] * RUNS * len(JOBS)
        assert {each.name: each.limit for each in await service.semaphores.list()} == LIMITS
        assert await jobs.list_semaphores() == []
    assert all(most[name] <= limit for name, limit in LIMITS.items()), most
    for name in ("a", "b", "heavy"):
        began = [run_id for run_id in order if run_id in asked[name]]
        assert began == asked[name]


async def test_only_the_other_store_is_missed(pair: Pair) -> None:
    """What wants no units runs while nobody answers for them."""
    held, most, order = Counter[str](), Counter[str](), list[RunId]()
    async with AsyncExitStack() as stack:
        lame = Pair(pair.jobs, lambda: open_store("redis://127.0.0.1:1/0", CLOCK))
        jobs, semaphores = await opened(stack, lame)
        service = service_on(jobs, CLOCK, os.urandom, semaphore_store=semaphores)
        await service.jobs.add("a", noop=True, semaphores=["table"])
        await service.jobs.add("free", noop=True)
        await start_node(stack, lame, Holding(held, most, order))
        waits, goes = await service.jobs.trigger("a"), await service.jobs.trigger("free")
        await until(lambda: has_ended(jobs, goes.id))
        assert (await jobs.get_run(waits.id)).state is RunState.READY
