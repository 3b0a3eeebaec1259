"""Celery on Redis.

Settings: its pool of threads, four, so that calls can be counted; `acks_late`, without which a task that is in hand is
lost with its worker; 100 messages fetched ahead for each thread, which its guide "Optimizing" advises for short tasks;
results ignored; no gossip, mingling or heartbeats, as its guide has it for workers that are alone.
"""

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from celery import Celery
from celery.worker import WorkController
from redis.asyncio import Redis

from benchmarks.peer_worker import Called, main

THREADS = 4


class CeleryPeer:
    """Tasks of one name."""

    def __init__(self, url: str, called: Called) -> None:
        path = urlsplit(url).path
        self._redis = Redis(unix_socket_path=path)
        self._app = Celery("peer", broker=f"redis+socket://{path}", set_as_current=True)
        self._app.conf.update(
            task_acks_late=True,
            task_ignore_result=True,
            worker_prefetch_multiplier=100,
            worker_hijack_root_logger=False,
            broker_connection_retry_on_startup=True,
        )
        self._called = called

        def nothing() -> None:
            called.now()

        self._nothing: Any = self._app.task(name="nothing")(nothing)

    async def add(self, runs: int, at: float | None) -> None:
        """One by one."""
        due = None if at is None else datetime.fromtimestamp(at, UTC)
        for _ in range(runs):
            self._nothing.apply_async(eta=due)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """A worker in a thread of this process."""
        self._app.finalize()
        worker = WorkController(
            app=self._app,
            pool_cls="threads",
            concurrency=THREADS,
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
            ready_callback=lambda _: self._called.begin(),
        )
        thread = threading.Thread(target=worker.start, daemon=True)
        thread.start()
        yield
        worker.stop()
        await self._redis.aclose()

    async def is_done(self) -> bool:
        """Nothing is in the queue, and all is acknowledged."""
        return not await self._redis.llen("celery") and not await self._redis.hlen("unacked")


if __name__ == "__main__":
    main(CeleryPeer)
