"""What the Python peers on Redis, MariaDB and PostgreSQL have in common: their command line, and how they are watched.

`fill URL RUNS` stores due no-ops. `drain URL RUNS` prints in how many seconds a worker ends them, and the seconds of
CPU of its process. `share URL RUNS` is one of several workers that drain together: it says `up`, waits for a line, ends
what it gets until nothing is left, and prints as well how many no-ops it called. `late URL JOBS MOMENT` stores no-ops
for a moment in seconds, and prints how many milliseconds later the worker called each. `idle URL JOBS MOMENT` stores
them, says `up` when the worker has begun, and goes on until it is told to stop.
"""

import asyncio
import logging
import signal
import sys
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from benchmarks.postgres_peers.program import Watch

VERBS = ("fill", "drain", "share", "late", "idle")
LOOK_EVERY = 0.02
"""Seconds between two looks at whether the work is done."""


@dataclass(slots=True)
class Called:
    """When its no-op was called, in seconds since 1970."""

    times: list[float] = field(default_factory=list)
    watch: Watch = field(default_factory=Watch)
    """Since when its worker works."""

    def begin(self) -> None:
        """Its worker begins now: what had to be opened for it before is not its work."""
        self.watch = Watch()

    def now(self) -> None:
        """It is called now: by one of its threads, perhaps."""
        self.times.append(time.time())


class Peer(Protocol):
    """A scheduler or queue that is to call a no-op."""

    async def add(self, runs: int, at: float | None) -> None:
        """Store so many runs of it, due now or at a moment in seconds since 1970."""

    def working(self) -> AbstractAsyncContextManager[None]:
        """A worker takes runs; in the end it stops."""

    async def is_done(self) -> bool:
        """Whether nothing is left of the runs in its keys or tables."""


def main(make: Callable[[str, Called], Peer]) -> None:
    """Do what the command line says."""
    logging.disable(logging.CRITICAL)  # some would log two lines a run
    verb, url, runs, *at = sys.argv[next(place for place, word in enumerate(sys.argv) if word in VERBS) :]
    called = Called()
    asyncio.run(_do(verb, make(url, called), called, int(runs), float(at[0]) if at else None))


async def _do(verb: str, peer: Peer, called: Called, runs: int, at: float | None) -> None:
    match verb:
        case "fill":
            await peer.add(runs, None)
        case "drain":
            await _drain(peer, called, runs)
        case "share":
            await _share(peer, called)
        case "late" if at is not None:
            await _late(peer, called, runs, at)
        case "idle":
            await _idle(peer, runs, at)
        case _:
            raise ValueError(f"no such verb: {verb}")


async def _drain(peer: Peer, called: Called, runs: int) -> None:
    called.begin()
    async with peer.working():
        await _until_done(peer, called, runs)
        drained = called.watch.drained()
    sys.stdout.write(f"{drained.seconds} {drained.cpu}\n")


async def _share(peer: Peer, called: Called) -> None:
    print("up", flush=True)
    sys.stdin.readline()
    called.begin()
    async with peer.working():
        while not await peer.is_done():  # noqa: ASYNC110  the worker is watched from outside
            await asyncio.sleep(LOOK_EVERY)
        drained = called.watch.drained()
    print(drained.seconds, drained.cpu, len(called.times))


async def _late(peer: Peer, called: Called, runs: int, at: float) -> None:
    await peer.add(runs, at)
    async with peer.working():
        left = at - time.time()
        assert left > 0, "it took too long to get ready"
        await asyncio.sleep(left)
        await _until_done(peer, called, runs)
    sys.stdout.write(" ".join(str((each - at) * 1000) for each in called.times) + "\n")


async def _idle(peer: Peer, runs: int, at: float | None) -> None:
    await peer.add(runs, at)
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    async with peer.working():
        print("up", flush=True)
        await told.wait()


async def _until_done(peer: Peer, called: Called, runs: int) -> None:
    """While no-ops are still called the server is not disturbed by a look at it."""
    while len(called.times) < runs:  # noqa: ASYNC110  the worker is watched from outside
        await asyncio.sleep(LOOK_EVERY)
    while not await peer.is_done():  # noqa: ASYNC110
        await asyncio.sleep(LOOK_EVERY / 4)
    assert len(called.times) == runs, f"{len(called.times)} no-ops were called for {runs} runs"
