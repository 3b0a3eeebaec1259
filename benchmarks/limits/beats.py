"""Nodes that do nothing but live: one in this process on the same store, one in a process of its own.

`python -m benchmarks.limits.beats URL` is the second one: it prints when each beat was sent and how long it took.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic
from typing import NamedTuple

from tokimori.clock import SystemClock
from tokimori.errors import StoreUnavailable
from tokimori.model.ids import NodeId, uuid7
from tokimori.model.lease import TICK_BUSY
from tokimori.ports.nodes import Beat, NodeRecord, NodeState
from tokimori.ports.store import Store
from tokimori.stores.open import open_store


class Beaten(NamedTuple):
    """A beat: when it should have been sent, and when it was answered (seconds of the machine's monotonic clock)."""

    wanted: float
    answered: float


class Beats:
    """What all that beat have told so far."""

    def __init__(self, beaters: int) -> None:
        self._told: list[list[Beaten]] = [[] for _ in range(beaters)]

    def tell(self, beater: int, beaten: Beaten) -> None:
        self._told[beater].append(beaten)

    async def latest(self, since: float) -> float:
        """How late the latest beat since then was; waits for one of each that was due after what is measured."""
        until = monotonic()
        while any(not told or told[-1].wanted < until for told in self._told):  # noqa: ASYNC110  others are watched
            await asyncio.sleep(TICK_BUSY / 10)
        late = [beaten.answered - beaten.wanted for told in self._told for beaten in told if beaten.answered >= since]
        return max(late)


async def joined(store: Store) -> NodeId:
    """A new node."""
    now = SystemClock().now()
    node = NodeRecord(
        id=NodeId(uuid7(now, os.urandom)),
        host="bench",
        boot_id="bench",
        pid=os.getpid(),
        concurrency=1,
        version="0",
        started=now,
        state=NodeState.ALIVE,
    )
    await store.register(node)
    return node.id


async def beat(store: Store, node: NodeId, tell: Callable[[Beaten], None]) -> None:
    """For ever, as a node that has runs in hand."""
    wanted = monotonic()
    while True:
        try:
            assert await store.tick(Beat(node=node), SystemClock().now()) is not None, "it was declared dead"
        except StoreUnavailable:  # it is as late as the next one that is answered
            continue
        answered = monotonic()
        tell(Beaten(wanted, answered))
        wanted = max(wanted + TICK_BUSY, answered)
        await asyncio.sleep(wanted - answered)


@asynccontextmanager
async def beating(store: Store, url: str, node: NodeId) -> AsyncIterator[Beats]:
    """Both beat."""
    beats = Beats(2)
    other = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.limits.beats", url, stdout=asyncio.subprocess.PIPE
    )
    tasks = [
        asyncio.create_task(beat(store, node, lambda beaten: beats.tell(0, beaten))),
        asyncio.create_task(_read(other, lambda beaten: beats.tell(1, beaten))),
    ]
    try:
        yield beats
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        other.kill()
        await other.wait()


async def _read(process: asyncio.subprocess.Process, tell: Callable[[Beaten], None]) -> None:
    assert process.stdout is not None
    async for line in process.stdout:
        wanted, answered = map(float, line.split())
        tell(Beaten(wanted, answered))


async def _main(url: str) -> None:
    store = open_store(url, SystemClock())
    await store.open()
    await beat(store, await joined(store), lambda beaten: print(*beaten, flush=True))


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
