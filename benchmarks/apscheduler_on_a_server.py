"""APScheduler 3 with its SQLAlchemy job store on MariaDB or PostgreSQL.

Settings (its user guide, "Configuring the scheduler"): a pool of 20 threads as in the guide's example. The drivers are
those that SQLAlchemy names: PyMySQL, psycopg. A job is handed to the pool and removed from the store, each with a
commit of its own; nothing can be set about that. While it sleeps until its next job it sees nothing of what others
store; `looking` has it see that within 2 s, as a node of Tokimori does at the latest: a job of that interval, which is
only in its memory, wakes it up.
"""

import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from apscheduler.events import EVENT_JOB_EXECUTED
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy import create_engine, text

from benchmarks.peer_worker import Called, main

THREADS = 20
LOOK = "looking"
DRIVERS = {"mariadb": "pymysql", "postgresql": "psycopg"}


class Apscheduler:
    """One-time jobs that are all due at one moment."""

    def __init__(self, url: str, called: Called) -> None:
        self._called = called
        scheme, _, rest = url.partition(":")
        self._engine = create_engine(f"{scheme}+{DRIVERS[scheme]}:{rest}")

    def _scheduler(self) -> BackgroundScheduler:
        stores = {"default": SQLAlchemyJobStore(engine=self._engine)}
        return BackgroundScheduler(timezone=UTC, jobstores=stores, executors={"default": ThreadPoolExecutor(THREADS)})

    async def add(self, runs: int, at: float | None) -> None:
        """One by one."""
        filling = self._scheduler()
        filling.start(paused=True)  # and for good: one that is shut down first runs what is due
        due = datetime.fromtimestamp(time.time() if at is None else at, UTC)
        for _ in range(runs):
            filling.add_job(nothing, "date", run_date=due, misfire_grace_time=None)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """The scheduler in threads of this process."""
        scheduler = self._scheduler()
        scheduler.add_listener(lambda _: self._called.now(), EVENT_JOB_EXECUTED)
        if LOOK in sys.argv:
            scheduler.add_jobstore("memory", alias=LOOK)
            scheduler.add_job(nothing, "interval", seconds=2, jobstore=LOOK)
        scheduler.start()
        yield
        scheduler.shutdown()

    async def is_done(self) -> bool:
        """No job is left in the table."""
        with self._engine.connect() as db:
            return not db.execute(text("SELECT EXISTS (SELECT 1 FROM apscheduler_jobs)")).scalar()


def nothing() -> None:
    """What its jobs do. It finds it by its name."""


if __name__ == "__main__":
    main(Apscheduler)
