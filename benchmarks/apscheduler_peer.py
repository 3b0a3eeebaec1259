"""APScheduler 3 with its SQLAlchemy job store on SQLite, set to be as durable and as fast as it can be."""

import logging
import sqlite3
import time
from collections.abc import Callable, Sized
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.in_process_node import LOOK_EVERY, is_empty

if TYPE_CHECKING:
    from apscheduler.events import JobExecutionEvent
    from apscheduler.schedulers.background import BackgroundScheduler

APSCHEDULER = "APScheduler 3"
LOOKING = "APScheduler 3, looks every 2 s"
FILE = "apscheduler.db"


def with_jobs_due(folder: Path, jobs: int, at: datetime) -> "BackgroundScheduler":
    """A scheduler, not started yet, whose store holds that many one-time no-ops."""
    logging.disable(logging.CRITICAL)  # it would log two lines a job
    filling = _scheduler(folder, "OFF")  # it adds them one by one, and nobody measures that
    filling.start(paused=True)  # and for good: one that is shut down first runs what is due
    for _ in range(jobs):
        filling.add_job(nothing, "date", run_date=at, misfire_grace_time=None)
    return _scheduler(folder, "FULL")


def on_executed(scheduler: "BackgroundScheduler", told: Callable[["JobExecutionEvent"], None]) -> None:
    """Tell of every job that has run."""
    from apscheduler.events import EVENT_JOB_EXECUTED

    scheduler.add_listener(told, EVENT_JOB_EXECUTED)


def until_done(folder: Path, executed: Sized, jobs: int) -> None:
    """Wait until so many jobs have run and none is left in the store."""
    db = sqlite3.connect(folder / FILE)
    while len(executed) < jobs or not is_empty(db, "apscheduler_jobs"):
        time.sleep(LOOK_EVERY)
    db.close()


def _scheduler(folder: Path, synchronous: str) -> "BackgroundScheduler":
    from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
    from apscheduler.schedulers.background import BackgroundScheduler
    from sqlalchemy import create_engine, event

    def settings(connection: sqlite3.Connection, _: object) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {synchronous}")

    engine = create_engine(f"sqlite:///{folder / FILE}")
    event.listen(engine, "connect", settings)
    return BackgroundScheduler(timezone=UTC, jobstores={"default": SQLAlchemyJobStore(engine=engine)})


def nothing() -> None:
    """What its jobs do. It finds it by its name."""
