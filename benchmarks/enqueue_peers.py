"""Contenders that are asked for runs one by one by one process: `NAME enqueue URL RUNS AT_ONCE` prints the seconds.

Each run is a call of its own that is acknowledged: `AT_ONCE` callers on one event loop make them, after some that warm
up. Nobody works on them. Settings: Procrastinate and PgQueuer have a pool of ten sessions, as pg-boss and SQLAlchemy
have by default; PgQueuer runs on uvloop, as its command line does. Tokimori is as it is without any setting.
"""

import asyncio
import logging
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from benchmarks.function_app import app, moment

SESSIONS = 10
WARM_UP = 100
Enqueue = Callable[[int], Awaitable[object]]


@asynccontextmanager
async def tokimori(url: str) -> AsyncIterator[Enqueue]:
    """`await fn.aenqueue(n)`; `tokimori app check` has stored its job."""
    os.environ["TOKIMORI_STORE"] = url
    await asyncio.to_thread(app.client.db.migrate)
    yield moment.aenqueue
    await asyncio.to_thread(app.client.close)


@asynccontextmanager
async def procrastinate(url: str) -> AsyncIterator[Enqueue]:
    """`await task.defer_async(number=n)`."""
    from procrastinate import App, PsycopgConnector

    peer = App(connector=PsycopgConnector(conninfo=url, min_size=SESSIONS, max_size=SESSIONS))

    async def moment(number: int) -> float:
        return time.time()

    task = peer.task(name="moment")(moment)
    async with peer.open_async():
        await peer.schema_manager.apply_schema_async()
        yield lambda number: task.defer_async(number=number)


@asynccontextmanager
async def pgqueuer(url: str) -> AsyncIterator[Enqueue]:
    """`await queries.enqueue("moment", payload)`."""
    import asyncpg
    from pgqueuer import AsyncpgPoolDriver, Queries

    async with asyncpg.create_pool(url, min_size=SESSIONS, max_size=SESSIONS) as pool:
        queries = Queries(AsyncpgPoolDriver(pool))
        await queries.install()
        yield lambda number: queries.enqueue("moment", b"%d" % number)


PEERS = {"tokimori": tokimori, "procrastinate": procrastinate, "pgqueuer": pgqueuer}


async def _measure(name: str, url: str, runs: int, at_once: int) -> float:
    async with PEERS[name](url) as enqueue:
        await _asked(enqueue, WARM_UP, at_once)
        begun = time.perf_counter()
        await _asked(enqueue, runs, at_once)
        return time.perf_counter() - begun


async def _asked(enqueue: Enqueue, runs: int, callers: int) -> None:
    numbers = iter(range(runs))

    async def call() -> None:
        for number in numbers:
            await enqueue(number)

    await asyncio.gather(*(call() for _ in range(callers)))


def main() -> None:
    """Do what the command line says."""
    logging.disable(logging.CRITICAL)
    name, _, url, runs, at_once = sys.argv[1:]
    if name == "pgqueuer":
        import uvloop

        uvloop.install()
    print(asyncio.run(_measure(name, url, int(runs), int(at_once))))


if __name__ == "__main__":
    main()
