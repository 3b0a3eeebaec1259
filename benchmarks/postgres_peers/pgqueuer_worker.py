"""PgQueuer with its asyncpg driver.

Settings (its guide "Performance Tuning" and its page "Benchmarks"): batches of 500, one session of asyncpg for the
worker, which is the fastest of its drivers there; tables set up by `optimize_autovacuum` (`pgq autovac`), durability as
installed, which is the durable one; uvloop, as its own command line uses.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg
from pgqueuer import Job, PgQueuer, Queries

from benchmarks.peer_worker import Called, main
from benchmarks.postgres_peers.program import Question

BATCH = 500


class Pgqueuer:
    """Jobs of one entrypoint."""

    def __init__(self, url: str, called: Called) -> None:
        self._url, self._called = url, called
        self._done = Question(url, "SELECT NOT EXISTS (SELECT FROM pgqueuer)")

    async def add(self, runs: int, at: float | None) -> None:
        """All in one statement."""
        db = await asyncpg.connect(self._url)
        queries = Queries.from_asyncpg_connection(db)
        await queries.install()
        await queries.optimize_autovacuum()
        after = None if at is None else timedelta(seconds=at - time.time())
        await queries.enqueue(["nothing"] * runs, [None] * runs, [0] * runs, [after] * runs)
        await db.close()

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """A worker in this process."""
        db = await asyncpg.connect(self._url)
        worker = PgQueuer.from_asyncpg_connection(db)

        async def nothing(_: Job) -> None:
            self._called.now()

        worker.entrypoint("nothing")(nothing)
        await self._done.answer()  # its session is there before the clock starts
        self._called.begin()
        task = asyncio.create_task(worker.run(batch_size=BATCH))
        yield
        await self._done.close()
        worker.shutdown.set()
        await task
        await db.close()

    async def is_done(self) -> bool:
        """None is left in the table."""
        return await self._done.answer()


if __name__ == "__main__":
    import uvloop

    uvloop.install()
    main(Pgqueuer)
