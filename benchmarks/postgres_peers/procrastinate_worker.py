"""Procrastinate with its asynchronous psycopg connector.

Settings (its guide "Execute multiple jobs at the same time"): 30 jobs at a time as in its example, and a pool with as
many sessions; LISTEN/NOTIFY as it is by default, and a look every 5 s, also by default, which is how it finds what has
become due. Ended jobs stay in the table, which is the default. A job is fetched, and then finished, with a commit of
its own; nothing can be set about that.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from procrastinate import App, PsycopgConnector
from procrastinate.tasks import Task

from benchmarks.peer_worker import Called, main
from benchmarks.postgres_peers.program import Question

CONCURRENCY = 30
DONE = "SELECT NOT EXISTS (SELECT FROM procrastinate_jobs WHERE status <> 'succeeded')"


class Procrastinate:
    """Jobs of one task."""

    def __init__(self, url: str, called: Called) -> None:
        self._url, self._called = url, called
        self._done = Question(url, DONE)

    async def add(self, runs: int, at: float | None) -> None:
        """All in one statement."""
        app, nothing = self._app()
        async with app.open_async():
            await app.schema_manager.apply_schema_async()
            due = None if at is None else datetime.fromtimestamp(at, UTC)
            await nothing.configure(schedule_at=due).batch_defer_async(*({} for _ in range(runs)))

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """A worker in this process."""
        app, _ = self._app()
        async with app.open_async():
            self._called.begin()
            worker = asyncio.create_task(app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False))
            yield
            await self._done.close()
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)

    async def is_done(self) -> bool:
        """All have succeeded."""
        return await self._done.answer()

    def _app(self) -> tuple[App, Task[[], None, []]]:
        app = App(connector=PsycopgConnector(conninfo=self._url, max_size=CONCURRENCY))

        async def nothing() -> None:
            self._called.now()

        return app, app.task(name="nothing")(nothing)


if __name__ == "__main__":
    main(Procrastinate)
