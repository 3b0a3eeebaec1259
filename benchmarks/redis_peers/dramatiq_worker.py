"""Dramatiq with its RedisBroker.

Settings (its command line's defaults): eight threads; one process, as Tokimori's node is one. The middleware is that of
a broker which is told nothing. A message is fetched with others, and acknowledged alone when its actor has returned.
"""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from benchmarks.peer_worker import Called, main


class Dramatiq:
    """A delayed message is kept by the worker that has fetched it, until it is due."""

    def __init__(self, url: str, called: Called) -> None:
        self._broker = RedisBroker(url=url.replace("redis+unix:", "unix:"))
        dramatiq.set_broker(self._broker)
        self._nothing = dramatiq.actor(called.now, broker=self._broker, actor_name="nothing")

    async def add(self, runs: int, at: float | None) -> None:
        """One by one."""
        for _ in range(runs):
            self._nothing.send_with_options(delay=None if at is None else max(0, round((at - time.time()) * 1000)))

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """As `dramatiq --processes 1` does."""
        worker = dramatiq.Worker(self._broker, worker_threads=8)
        worker.start()
        yield
        worker.stop()

    async def is_done(self) -> bool:
        """No message is left, acknowledged or not."""
        keys = ("dramatiq:default.msgs", "dramatiq:default.DQ.msgs")
        return not any(self._broker.client.hlen(key) for key in keys)


if __name__ == "__main__":
    main(Dramatiq)
