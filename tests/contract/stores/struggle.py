"""Nodes and programs that struggle for units and keys: what each does, and what must be true of it all."""

import asyncio
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

import msgspec

from tests.contract.stores.actors import NOW, Held, Worker, a_job, a_node, a_request
from tests.contract.stores.fight import every_run
from tokimori.clock import Moment, SystemClock
from tokimori.model.ids import JobId
from tokimori.model.outcome import Outcome, Released, RetryAt, Succeeded
from tokimori.model.semaphores import wanted
from tokimori.ports.semaphores import Grant
from tokimori.ports.store import Store
from tokimori.ports.working import Claimed, Verdict
from tokimori.stores.open import open_store

LIMITS = {"mutex": 1, "three": 3}
KEY_LIMIT = 2
JOBS = {
    "light": ("three",),
    "heavy": ("three:3",),
    "both": ("three:2", "mutex"),
    "single": ("mutex",),
    "keyed": (),
}
OUTCOMES: list[Outcome] = [Released("later"), RetryAt(NOW), *[Succeeded(0)] * 4]
WISHES = 15
"""Of each program."""


@dataclass(frozen=True, slots=True)
class Use:
    """Units, or a place of a key, that somebody had between these nanoseconds of the machine's monotonic clock."""

    name: str
    units: int
    began: int
    ended: int


async def add_work(store: Store, runs: int) -> None:
    """So many runs of each job, that want the same few units, some of them all."""
    for name, limit in LIMITS.items():
        await store.put_semaphore(name, limit, NOW)
    for name, semaphores in JOBS.items():
        job = a_job(name, semaphores=semaphores, max_running_per_key=KEY_LIMIT, max_running=5)
        await store.add_jobs([job])
        for number in range(runs):
            key = f"key-{number % 2}" if name == "keyed" else None
            await store.add_run(a_request(job, due=Moment(NOW - number), concurrency_key=key), NOW)


async def take_part(store: Store, seed: int) -> list[Use]:
    """Claim, settle, acquire and release until nothing is left; what this node and its program had."""
    random = Random(seed)
    worker = await _join(store)
    node, program = await asyncio.gather(_run(store, worker, random), _lock(store, random))
    assert await store.leave(worker.id, NOW)
    return node + program


async def _join(store: Store) -> Worker:
    node = a_node(pid=os.getpid())
    await store.register(node)
    return Worker(store, node.id)


async def _run(store: Store, worker: Worker, random: Random) -> list[Use]:
    uses: list[Use] = []
    while await _some_are_left(store):
        await store.promote(NOW, 100)
        claimed = await worker.claim(random.randint(1, 4))
        began = time.monotonic_ns()
        await asyncio.sleep(random.random() * 0.003)
        uses += [Use(name, units, began, time.monotonic_ns()) for each in claimed for name, units in _had(each)]
        changes = [worker.change(each, random.choice(OUTCOMES)) for each in claimed]
        assert set(await store.settle(changes, worker.id, NOW)) <= {Verdict.APPLIED}
    return uses


async def _some_are_left(store: Store) -> bool:
    return any([(await store.get_due(JobId(name))).active for name in JOBS])


def _had(claimed: Claimed) -> list[tuple[str, int]]:
    """What the run holds while it runs."""
    assert claimed.definition is not None
    key = claimed.run.concurrency_key
    return [*wanted(claimed.definition.semaphores), *([] if key is None else [(key, 1)])]


async def _lock(store: Store, random: Random) -> list[Use]:
    """A program's session: takes units one wish after the other, and goes while it still holds some."""
    session = await _join(store)
    uses: list[Use] = []
    for _ in range(WISHES):
        name = random.choice([*LIMITS])
        held = await session.acquire(name, random.randint(1, LIMITS[name]), rank=NOW - random.randint(0, WISHES))
        while not isinstance(held.answer, Grant):
            await asyncio.sleep(0.002)
            held = Held(held.wish, await store.acquire(held.wish, NOW))
        began = time.monotonic_ns()
        await asyncio.sleep(random.random() * 0.003)
        uses.append(Use(name, held.wish.weight, began, time.monotonic_ns()))
        assert await session.release(held)
    await session.acquire("three")
    assert await store.leave(session.id, NOW)
    return uses


async def check(store: Store, runs: int, uses: Iterable[Use]) -> None:
    """Fail unless all runs ended, nothing is held or waited for, and no limit was exceeded at any moment."""
    assert [str(run.state) for run in await every_run(store)] == ["succeeded"] * runs * len(JOBS)
    for semaphore in await store.list_semaphores():
        assert (semaphore.used, semaphore.waiting, semaphore.limit) == (0, 0, LIMITS[semaphore.name])
    by_name: dict[str, list[Use]] = defaultdict(list)
    for use in uses:
        by_name[use.name].append(use)
    assert by_name.keys() > LIMITS.keys()
    for name, found in by_name.items():
        assert most_at_once(found) <= LIMITS.get(name, KEY_LIMIT), name


def most_at_once(uses: Iterable[Use]) -> int:
    """How many units were had at the same time, at most. An end counts before a start at the same nanosecond."""
    changes = sorted(change for use in uses for change in ((use.began, use.units), (use.ended, -use.units)))
    had = most = 0
    for _, units in changes:
        had += units
        most = max(most, had)
    return most


async def main(url: str, seed: int) -> bytes:
    """Take part from a process of its own, when told to."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    store = open_store(url, SystemClock())
    await store.open()
    try:
        return msgspec.json.encode(await take_part(store, seed))
    finally:
        await store.close()


if __name__ == "__main__":
    sys.stdout.buffer.write(asyncio.run(main(sys.argv[1], int(sys.argv[2]))))
