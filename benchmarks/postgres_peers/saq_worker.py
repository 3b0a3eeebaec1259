"""SAQ with its PostgreSQL queue, on psycopg.

Settings: ten jobs at a time and a pool of up to 20 sessions, its defaults; a coroutine, which is what its worker calls.
It takes as many jobs as it has room for in one statement, and writes for each by itself that it began and ended.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from saq import Queue, Worker
from saq.types import Context

from benchmarks.peer_worker import Called, main
from benchmarks.postgres_peers.program import Question

AT_ONCE = 20
DONE = "SELECT NOT EXISTS (SELECT FROM saq_jobs WHERE status <> 'complete')"


class Saq:
    """Jobs of one function."""

    def __init__(self, url: str, called: Called) -> None:
        self._url, self._called = url, called
        self._done = Question(url, DONE)

    async def add(self, runs: int, at: float | None) -> None:
        """As many at a time as it has sessions."""
        queue = Queue.from_url(self._url)
        await queue.connect()
        for _ in range(0, runs, AT_ONCE):
            await asyncio.gather(*(queue.enqueue("nothing", scheduled=int(at or 0)) for _ in range(AT_ONCE)))
        await queue.disconnect()

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """A worker in this process."""
        queue = Queue.from_url(self._url)
        await queue.connect()

        async def nothing(_: Context) -> None:
            self._called.now()

        worker: Worker[Context] = Worker(queue, [("nothing", nothing)])
        self._called.begin()
        task = asyncio.create_task(worker.start())
        yield
        await self._done.close()
        await worker.stop()
        await task
        await queue.disconnect()

    async def is_done(self) -> bool:
        """All are complete."""
        return await self._done.answer()


if __name__ == "__main__":
    main(Saq)
