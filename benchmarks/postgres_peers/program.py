"""What the Python peers have in common: their command line, and when a drain has ended."""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Sized

import asyncpg

LOOK_EVERY = 0.02
"""Seconds between two looks at whether the work is done."""

Fill = Callable[[str, int], Coroutine[None, None, None]]
Drain = Callable[[str, int], Coroutine[None, None, float]]


def main(fill: Fill, drain: Drain) -> None:
    """`fill URL RUNS` stores due no-ops; `drain URL RUNS` prints the seconds in which a worker ends them."""
    verb, url, runs = sys.argv[1:]
    if verb == "fill":
        asyncio.run(fill(url, int(runs)))
    else:
        sys.stdout.write(f"{asyncio.run(drain(url, int(runs)))}\n")


async def until_done(url: str, executed: Sized, runs: int, done: str) -> None:
    """Wait until so many no-ops have been called, and then until the peer's tables say that all have ended.

    `done` is a query for that; while no-ops are still called nobody is disturbed by it.
    """
    while len(executed) < runs:  # noqa: ASYNC110  the worker is watched from outside
        await asyncio.sleep(LOOK_EVERY)
    db = await asyncpg.connect(url)
    while not await db.fetchval(done):  # noqa: ASYNC110
        await asyncio.sleep(LOOK_EVERY / 4)
    await db.close()
    assert len(executed) == runs, f"{len(executed)} no-ops were called for {runs} runs"
