"""Huey with its RedisHuey.

Settings (its guide, "Consuming Tasks"): four workers that are threads, which it recommends for work that waits, and
blocking pops, the default. Without a result store, as it advises where no result is wanted. A task leaves Redis with
its pop: what was in hand at a crash is lost. Tasks for later are moved by a scheduler that looks every second, the
shortest interval that it allows.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

from huey import RedisHuey

from benchmarks.peer_worker import Called, main

THREADS = 4


class Huey:
    """Its own scheduler thread belongs to the worker."""

    def __init__(self, url: str, called: Called) -> None:
        self._huey = RedisHuey("peer", url=url.replace("redis+unix:", "unix:"), results=False, utc=False)
        self._nothing = self._huey.task(name="nothing")(called.now)

    async def add(self, runs: int, at: float | None) -> None:
        """One by one."""
        for _ in range(runs):
            if at is None:
                self._nothing()
            else:
                self._nothing.schedule(eta=datetime.fromtimestamp(at))

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """As `huey_consumer -w 4` does."""
        consumer = self._huey.create_consumer(workers=THREADS, worker_type="thread", periodic=False)
        consumer.start()
        yield
        consumer.stop(graceful=True)

    async def is_done(self) -> bool:
        """Nothing is in the queue, and nothing waits."""
        return not len(self._huey) and not self._huey.scheduled_count()


if __name__ == "__main__":
    main(Huey)
