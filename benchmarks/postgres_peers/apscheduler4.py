"""APScheduler 4, a pre-release, with its SQLAlchemy data store on asyncpg. It needs an environment of its own.

Settings (its API reference, `AsyncScheduler` and `configure_task`): a task without a limit of instances, run in the
scheduler's own loop (`job_executor="async"`); 100 jobs at once, which is the default and also how many are fetched at a
time. No results are kept, which is the default too. Each job is released with a commit of its own.
"""

import logging
from typing import TYPE_CHECKING

from benchmarks.postgres_peers.program import Drained, Watch, main, until_done

if TYPE_CHECKING:
    from apscheduler import AsyncScheduler

TASK = "nothing"
COLUMNS = "task_id, args, kwargs, executor, result_expiration_time, metadata, created_at"
COPY = f"""
INSERT INTO jobs (id, {COLUMNS})
SELECT gen_random_uuid(), {COLUMNS} FROM jobs, generate_series(2, %s)
"""


async def fill(url: str, runs: int) -> None:
    """One job is added by its API and copied: one after the other would take minutes."""
    import asyncpg

    async with _scheduler(url) as scheduler:
        await _configure(scheduler, [])
        await scheduler.add_job(TASK)
    db = await asyncpg.connect(url)
    await db.execute(COPY % int(runs))
    await db.close()


async def drain(url: str, runs: int) -> Drained:
    """From the scheduler's start to the last release."""
    logging.disable(logging.CRITICAL)  # it would log two lines a job
    executed: list[None] = []
    async with _scheduler(url) as scheduler:
        await _configure(scheduler, executed)
        watch = Watch()
        await scheduler.start_in_background()
        await until_done(url, executed, runs, "SELECT NOT EXISTS (SELECT FROM jobs)")
        return watch.drained()


def _scheduler(url: str) -> "AsyncScheduler":
    from apscheduler import AsyncScheduler
    from apscheduler.datastores.sqlalchemy import SQLAlchemyDataStore

    return AsyncScheduler(SQLAlchemyDataStore(url.replace("postgresql:", "postgresql+asyncpg:")))


async def _configure(scheduler: "AsyncScheduler", executed: list[None]) -> None:
    async def nothing() -> None:
        executed.append(None)

    await scheduler.configure_task(TASK, func=nothing, job_executor="async", max_running_jobs=None)


if __name__ == "__main__":
    main(fill, drain)
