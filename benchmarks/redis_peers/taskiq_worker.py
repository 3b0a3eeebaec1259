"""taskiq with the brokers of taskiq-redis. First argument: `list` or `stream`.

Settings (its command line's defaults): up to 100 tasks at once in one process; no results, the default. The list is the
fastest broker of its README and takes a task off with its pop: what was in hand at a crash is lost. The stream is the
one that acknowledges each task. What is due later is in a ListRedisScheduleSource, which its README recommends; its
scheduler runs beside the worker and looks every second, as its command line does.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from redis.asyncio import Redis
from taskiq import TaskiqScheduler
from taskiq.api import run_receiver_task, run_scheduler_task
from taskiq_redis import ListQueueBroker, ListRedisScheduleSource, RedisStreamBroker

from benchmarks.peer_worker import Called, main

EVERY = timedelta(seconds=1)


class Taskiq:
    """The scheduler hands what is due to the broker."""

    def __init__(self, url: str, called: Called) -> None:
        self._url = url.replace("redis+unix:", "unix:")
        self._broker = (RedisStreamBroker if "stream" in sys.argv else ListQueueBroker)(self._url)
        self._source = ListRedisScheduleSource(self._url)

        async def nothing() -> None:
            called.now()

        self._nothing = self._broker.task("nothing")(nothing)

    async def add(self, runs: int, at: float | None) -> None:
        """One by one."""
        await self._broker.startup()
        await self._source.startup()
        for _ in range(runs):
            if at is None:
                await self._nothing.kiq()
            else:
                await self._nothing.schedule_by_time(self._source, datetime.fromtimestamp(at, UTC))
        await self._broker.shutdown()

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """As `taskiq worker --workers 1` and `taskiq scheduler --update-interval 1` do."""
        await self._broker.startup()
        scheduler = TaskiqScheduler(self._broker, [self._source])
        tasks = [
            asyncio.create_task(run_receiver_task(self._broker)),
            asyncio.create_task(run_scheduler_task(scheduler, interval=EVERY, loop_interval=EVERY)),
        ]
        yield
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def is_done(self) -> bool:
        """The list is empty; of the stream all is acknowledged."""
        async with Redis.from_url(self._url) as db:
            if isinstance(self._broker, RedisStreamBroker):
                return not (await db.xpending("taskiq", "taskiq"))["pending"]
            return not await db.llen("taskiq")


if __name__ == "__main__":
    main(Taskiq)
