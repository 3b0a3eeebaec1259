"""arq.

Settings: a hundred jobs at a time, 500 read at once, and a look every 10 ms: with its defaults, ten and half a second,
it would mostly sleep. No results are kept. A job is marked, run and removed by transactions of its own.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker, func
from redis.asyncio import Redis

from benchmarks.peer_worker import Called, main

QUEUE = "arq:queue"


class Arq:
    """Jobs of one coroutine."""

    def __init__(self, url: str, called: Called) -> None:
        self._settings = RedisSettings(unix_socket_path=urlsplit(url).path)
        self._redis = Redis(unix_socket_path=urlsplit(url).path)
        self._called = called

    async def add(self, runs: int, at: float | None) -> None:
        """One by one."""
        pool = await create_pool(self._settings)
        due = None if at is None else datetime.fromtimestamp(at, UTC)
        for _ in range(runs):
            await pool.enqueue_job("nothing", _defer_until=due)
        await pool.aclose()

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """A worker in this process."""

        async def nothing(_: dict[Any, Any]) -> None:
            self._called.now()

        worker = Worker(
            [func(nothing, name="nothing")],
            redis_settings=self._settings,
            handle_signals=False,
            max_jobs=100,
            queue_read_limit=500,
            poll_delay=0.01,
            keep_result=0,
        )
        self._called.begin()
        task = asyncio.create_task(worker.async_run())
        yield
        await worker.close()
        await asyncio.gather(task, return_exceptions=True)
        await self._redis.aclose()

    async def is_done(self) -> bool:
        """Nothing is in the queue."""
        return not await self._redis.zcard(QUEUE)


if __name__ == "__main__":
    main(Arq)
