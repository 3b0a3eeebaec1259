"""W11: what runs that wait for others cost those that don't: behind a full mutex, and for labels that no node has."""

import asyncio
import gc
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.comparison import TOKIMORI, AtLeast, Figures, Quantity, Trial, Workload
from benchmarks.in_process_node import CONCURRENCY, opened_store
from benchmarks.postgres_peers.program import LOOK_EVERY, Watch
from benchmarks.store_servers import Place, each_on_its_own, mariadb_server, postgres_server, redis_server
from tokimori.clock import SystemClock
from tokimori.executors.executors import executors_of
from tokimori.model.ids import NodeId, PermitId, uuid7
from tokimori.model.job import Definition
from tokimori.model.target import Noop
from tokimori.node.membership import Identity
from tokimori.node.node import Node
from tokimori.ports.nodes import Beat, NodeRecord, NodeState
from tokimori.ports.semaphores import Grant, UnitRequest
from tokimori.ports.store import Store
from tokimori.ports.working import Change, Verdict
from tokimori.service.definitions.definitions import fields_of
from tokimori.service.service import service_on

RATE, ALONE = "drained", "nobody waits"
AT_LEAST = 0.9
RUNS = 10_000
AT_ONCE = 500
DRAINS = 5
"""How often so many are drained beside the same ones that wait: one takes but a second, so the median counts."""
SETTLE = 2.0
"""Seconds for the server to write what was asked for: that is not what is measured."""
Beating = asyncio.Task[None]
"""Lets a program live, for as long as it is not cancelled."""
Wait = Callable[[Store, Path, int], Awaitable[Beating]]
"""Has so many runs wait."""


@contextmanager
def sqlite_file() -> Iterator[Place]:
    """A file of its own."""
    with tempfile.TemporaryDirectory(prefix="tokimori-bench-") as folder:
        yield Place(f"sqlite://{folder}/tokimori.db", os.getpid())


async def ask_for(store: Store, name: str, definition: Definition, runs: int) -> None:
    """A job, and so many requests for it."""
    service = service_on(store, SystemClock(), os.urandom)
    await service.jobs.add(name, **fields_of(definition))
    for first in range(0, runs, AT_ONCE):
        await asyncio.gather(*(service.jobs.trigger(name) for _ in range(min(AT_ONCE, runs - first))))


class Counting:
    """A store that counts the runs whose ends it wrote: nobody else has to look."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.settled = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def settle(self, changes: Sequence[Change], by: NodeId, now: int) -> list[Verdict]:
        """See `Working.settle`."""
        verdicts = await self._store.settle(changes, by, now)  # type: ignore[arg-type]
        self.settled += verdicts.count(Verdict.APPLIED)
        return verdicts


@asynccontextmanager
async def a_node(store: Store, folder: Path) -> AsyncIterator[Counting]:
    """A node at work."""
    clock, counting = SystemClock(), Counting(store)
    executors = executors_of(clock, folder)
    identity = Identity(host="bench", boot_id="bench", pid=os.getpid(), version="0", concurrency=CONCURRENCY)
    node = Node(counting, executors, clock, os.urandom, identity)  # type: ignore[arg-type]
    await executors.open(node.receive)
    await node.start()
    task = asyncio.create_task(node.run())
    try:
        yield counting
    finally:
        node.stop()
        await task
        await executors.close()


async def behind_a_mutex(store: Store, folder: Path, runs: int) -> Beating:
    """A program holds the mutex, and beats; so many runs have been sent to its line."""
    clock = SystemClock()
    program = NodeRecord(
        id=NodeId(uuid7(clock.now(), os.urandom)),
        host="bench",
        boot_id="bench",
        pid=os.getpid(),
        concurrency=0,
        version="0",
        started=clock.now(),
        state=NodeState.ALIVE,
    )
    await store.register(program)
    wish = UnitRequest(id=PermitId(uuid7(clock.now(), os.urandom)), node=program.id, semaphore="mutex", rank=0)
    assert isinstance(await store.acquire(wish, clock.now()), Grant)
    beating = asyncio.create_task(beat(store, program.id))
    await ask_for(store, "waits", Definition(target=Noop(), semaphores=("mutex",)), runs)
    async with a_node(store, folder):
        while (await store.survey(SystemClock().now())).lanes:  # noqa: ASYNC110  the node is watched from outside
            await asyncio.sleep(LOOK_EVERY)
    return beating


async def beat(store: Store, program: NodeId) -> None:
    """Tell every second that the program lives."""
    while True:
        await store.tick(Beat(node=program), SystemClock().now())
        await asyncio.sleep(1)


async def for_others(store: Store, _folder: Path, runs: int) -> Beating:
    """So many ready runs of a job whose labels no node has."""
    await ask_for(store, "waits", Definition(target=Noop(), labels={"gpu": "yes"}), runs)
    return asyncio.create_task(asyncio.sleep(0))


async def not_at_all(_store: Store, _folder: Path, _runs: int) -> Beating:
    """There are no others."""
    return asyncio.create_task(asyncio.sleep(0))


def drained(wait: Wait, number: int, runs: int, place: Place, folder: Path) -> Figures:
    """How fast a node ends `runs` due no-ops, while `number` others wait in this way."""
    return {RATE: runs / asyncio.run(_drained(wait, number, runs, place, folder))}


async def _drained(wait: Wait, number: int, runs: int, place: Place, folder: Path) -> float:
    async with opened_store(place.url) as store:
        beating = await wait(store, folder, number)
        seconds = [await _drain(store, folder, f"noop-{drain}", runs) for drain in range(DRAINS)]
        beating.cancel()
    return median(seconds)


async def _drain(store: Store, folder: Path, name: str, runs: int) -> float:
    await ask_for(store, name, Definition(target=Noop()), runs)
    await asyncio.sleep(SETTLE)
    gc.collect()
    watch = Watch()
    async with a_node(store, folder) as node:
        while node.settled < runs:  # noqa: ASYNC110  the node is watched from outside
            await asyncio.sleep(LOOK_EVERY)
        seconds = watch.drained().seconds
    assert node.settled == runs, f"{node.settled} runs were settled, not {runs}"
    return seconds


STORES: Mapping[str, Callable[[], AbstractContextManager[Place]]] = {
    "SQLite": sqlite_file,
    "PostgreSQL": postgres_server,
    "MariaDB": mariadb_server,
    "Redis": redis_server,
}
WAITING: Mapping[str, tuple[Wait, int]] = {
    "behind one mutex": (behind_a_mutex, 10_000),
    "for labels that no node has": (for_others, 100_000),
}


def trials(quick: bool) -> Sequence[Trial]:
    """One for each store and each way to wait."""
    return [_trial(store, words, 10 if quick else 1) for store in STORES for words in WAITING]


def _trial(store: str, words: str, part: int) -> Trial:
    wait, number = WAITING[words]
    contenders = {
        TOKIMORI: partial(drained, wait, number // part, RUNS // part),
        ALONE: partial(drained, not_at_all, 0, RUNS // part),
    }
    return Trial(
        title=f"drain of {RUNS // part:,} due no-ops while {number // part:,} wait {words}, {store}",
        quantities=[Quantity(RATE, "runs/s", more=True)],
        targets=[AtLeast(RATE, ALONE, AT_LEAST)],
        measure=each_on_its_own(STORES[store], contenders),
    )


WORKLOAD = Workload("W11", "what those who wait cost the others", trials)
