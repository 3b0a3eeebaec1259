"""What is measured of a drain, and the command line of peers that have nothing but a drain."""

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine, Sized
from typing import NamedTuple

import asyncpg

LOOK_EVERY = 0.02
"""Seconds between two looks at whether the work is done."""

Fill = Callable[[str, int], Coroutine[None, None, None]]
Drain = Callable[[str, int], Coroutine[None, None, "Drained"]]


class Drained(NamedTuple):
    """Seconds from a worker's start to its last commit, and the seconds of CPU that its process spent on it."""

    seconds: float
    cpu: float


class Watch:
    """Tells how long it is since it was made."""

    def __init__(self) -> None:
        self._began, self._cpu = time.perf_counter(), time.process_time()

    def drained(self) -> Drained:
        """What it took up to now."""
        return Drained(time.perf_counter() - self._began, time.process_time() - self._cpu)


def main(fill: Fill, drain: Drain) -> None:
    """`fill URL RUNS` stores due no-ops; `drain URL RUNS` prints what it took a worker to end them."""
    verb, url, runs = sys.argv[1:]
    if verb == "fill":
        asyncio.run(fill(url, int(runs)))
    else:
        drained = asyncio.run(drain(url, int(runs)))
        sys.stdout.write(f"{drained.seconds} {drained.cpu}\n")


class Question:
    """What a database is asked again and again, in one session."""

    def __init__(self, url: str, query: str) -> None:
        self._url, self._query = url, query
        self._session: asyncpg.Connection | None = None

    async def answer(self) -> bool:
        """Yes or no, for now."""
        if self._session is None:
            self._session = await asyncpg.connect(self._url)
        return bool(await self._session.fetchval(self._query))

    async def close(self) -> None:
        """It is not asked any more."""
        if self._session is not None:
            await self._session.close()


async def until_done(url: str, executed: Sized, runs: int, done: str) -> None:
    """Wait until so many no-ops have been called, and then until the peer's tables say that all have ended.

    `done` is a query for that; while no-ops are still called nobody is disturbed by it.
    """
    while len(executed) < runs:  # noqa: ASYNC110  the worker is watched from outside
        await asyncio.sleep(LOOK_EVERY)
    question = Question(url, done)
    while not await question.answer():  # noqa: ASYNC110
        await asyncio.sleep(LOOK_EVERY / 4)
    await question.close()
    assert len(executed) == runs, f"{len(executed)} no-ops were called for {runs} runs"
