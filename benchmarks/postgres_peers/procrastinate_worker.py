"""Procrastinate with its asynchronous psycopg connector.

Settings (its guide "Execute multiple jobs at the same time"): 30 jobs at a time as in its example, and a pool with as
many sessions; LISTEN/NOTIFY as it is by default. Ended jobs stay in the table, which is the default. A job is fetched,
and then finished, with a commit of its own; nothing can be set about that.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from benchmarks.postgres_peers.program import Drained, Watch, main, until_done

if TYPE_CHECKING:
    from procrastinate import App
    from procrastinate.tasks import Task

CONCURRENCY = 30
DONE = "SELECT NOT EXISTS (SELECT FROM procrastinate_jobs WHERE status <> 'succeeded')"


async def fill(url: str, runs: int) -> None:
    """All in one statement."""
    app, nothing = _app(url, [])
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await nothing.batch_defer_async(*({} for _ in range(runs)))


async def drain(url: str, runs: int) -> Drained:
    """From the worker's start to the last commit."""
    logging.disable(logging.CRITICAL)  # it would log two lines a job
    executed: list[None] = []
    app, _ = _app(url, executed)
    async with app.open_async():
        watch = Watch()
        worker = asyncio.create_task(app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False))
        await until_done(url, executed, runs, DONE)
        drained = watch.drained()
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
    return drained


def _app(url: str, executed: list[None]) -> "tuple[App, Task[[], None, []]]":
    from procrastinate import App, PsycopgConnector

    app = App(connector=PsycopgConnector(conninfo=url, max_size=CONCURRENCY))

    async def nothing() -> None:
        executed.append(None)

    return app, app.task(name="nothing")(nothing)


if __name__ == "__main__":
    main(fill, drain)
