"""PgQueuer with its asyncpg driver.

Settings (its guide "Performance Tuning" and its page "Benchmarks"): batches of 500, one session of asyncpg for the
worker, which is the fastest of its drivers there; tables set up by `optimize_autovacuum` (`pgq autovac`), durability as
installed, which is the durable one; uvloop, as its own command line uses.
"""

import asyncio
from typing import TYPE_CHECKING

import asyncpg

from benchmarks.postgres_peers.program import Drained, Watch, main, until_done

if TYPE_CHECKING:
    from pgqueuer import Job

BATCH = 500


async def fill(url: str, runs: int) -> None:
    """All in one statement."""
    from pgqueuer import Queries

    db = await asyncpg.connect(url)
    queries = Queries.from_asyncpg_connection(db)
    await queries.install()
    await queries.optimize_autovacuum()
    await queries.enqueue(["nothing"] * runs, [None] * runs, [0] * runs)
    await db.close()


async def drain(url: str, runs: int) -> Drained:
    """From the worker's start to the last commit."""
    from pgqueuer import PgQueuer

    executed: list[None] = []
    db = await asyncpg.connect(url)
    worker = PgQueuer.from_asyncpg_connection(db)

    async def nothing(_: "Job") -> None:
        executed.append(None)

    worker.entrypoint("nothing")(nothing)
    watch = Watch()
    task = asyncio.create_task(worker.run(batch_size=BATCH))
    await until_done(url, executed, runs, "SELECT NOT EXISTS (SELECT FROM pgqueuer)")
    drained = watch.drained()
    worker.shutdown.set()
    await task
    await db.close()
    return drained


if __name__ == "__main__":
    import uvloop

    uvloop.install()
    main(fill, drain)
