"""APScheduler 3 with its SQLAlchemy job store: one-time jobs that are all due.

Settings (its user guide, "Configuring the scheduler"): the SQLAlchemy store, which the guide recommends on PostgreSQL,
and a pool of 20 threads as in the guide's example. A job is handed to the pool and removed from the store, each with a
commit of its own; nothing can be set about that.
"""

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from benchmarks.postgres_peers.program import Drained, Watch, main, until_done

if TYPE_CHECKING:
    from apscheduler.schedulers.background import BackgroundScheduler

THREADS = 20


async def fill(url: str, runs: int) -> None:
    """It adds jobs one by one, and nobody measures that."""
    scheduler = _scheduler(url, "off")
    scheduler.start(paused=True)
    now = datetime.now(UTC)
    for _ in range(runs):
        scheduler.add_job(nothing, "date", run_date=now, misfire_grace_time=None)


async def drain(url: str, runs: int) -> Drained:
    """From the scheduler's start to the last removal."""
    from apscheduler.events import EVENT_JOB_EXECUTED

    logging.disable(logging.CRITICAL)  # it would log two lines a job
    scheduler = _scheduler(url, "on")
    executed: list[object] = []
    scheduler.add_listener(executed.append, EVENT_JOB_EXECUTED)
    watch = Watch()
    scheduler.start()
    await until_done(url, executed, runs, "SELECT NOT EXISTS (SELECT FROM apscheduler_jobs)")
    drained = watch.drained()
    scheduler.shutdown()
    return drained


def _scheduler(url: str, synchronous_commit: str) -> "BackgroundScheduler":
    from apscheduler.executors.pool import ThreadPoolExecutor
    from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
    from apscheduler.schedulers.background import BackgroundScheduler

    options = {"connect_args": {"options": f"-c synchronous_commit={synchronous_commit}"}}
    store = SQLAlchemyJobStore(url.replace("postgresql:", "postgresql+psycopg:"), engine_options=options)
    executors = {"default": ThreadPoolExecutor(THREADS)}
    return BackgroundScheduler(timezone=UTC, jobstores={"default": store}, executors=executors)


def nothing() -> None:
    """What its jobs do. It finds it by its name."""


if __name__ == "__main__":
    main(fill, drain)
