"""A Tokimori node as `tokimori serve` wires it, but within the measuring process, so that only its work is timed."""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
from redis.asyncio import Redis

from benchmarks.postgres_peers.program import Drained, Watch
from tokimori.clock import Moment, SystemClock
from tokimori.executors.executors import executors_of
from tokimori.model.ids import JobId, new_incarnation
from tokimori.model.job import Definition
from tokimori.model.run import Run
from tokimori.model.transitions import RunState
from tokimori.node.membership import Identity
from tokimori.node.node import Node
from tokimori.node.wiring import spare_the_collector
from tokimori.ports.store import RunFilter, Store
from tokimori.service.definitions.definitions import fields_of
from tokimori.service.definitions.edits import new_job
from tokimori.service.service import service_on
from tokimori.stores.mysql.address import address_of as mysql_address
from tokimori.stores.mysql.sessions import TransactionSession
from tokimori.stores.mysql.sessions import connect as mysql_session
from tokimori.stores.open import open_store

LOOK_EVERY = 0.02
"""Seconds between two looks at whether the work is done: looking costs the one who is watched."""
CONCURRENCY = 16 * (os.cpu_count() or 1)
"""What a node has unless it is told otherwise."""
LIVE, LIVE_KEY = "SELECT 1 FROM tokimori_runs LIMIT 1", "{tokimori}:live"
SUCCEEDED = "SELECT count(*) FROM tokimori_history WHERE state = 'succeeded'"

HasLive = Callable[[], Awaitable[object]]
"""Something that is true while there are runs which have not ended."""


def store_url(folder: Path) -> str:
    """The SQLite store of a contender that has this folder."""
    return f"sqlite://{folder / 'tokimori.db'}"


@asynccontextmanager
async def opened_store(url: str) -> AsyncIterator[Store]:
    """A store, with its tables."""
    store = open_store(url, SystemClock())
    await store.open()
    try:
        await store.migrate()
        yield store
    finally:
        await store.close()


async def add_jobs(store: Store, jobs: Sequence[tuple[str, Definition]]) -> None:
    """Add jobs as `Service.import_all` does, so many that it would take long to ask whether each is new."""
    now = SystemClock().now()
    await store.add_jobs([new_job(JobId(id_), each, new_incarnation(os.urandom), now) for id_, each in jobs])


async def fill(url: str, definition: Definition, runs: int) -> None:
    """Trigger a job of this definition so many times."""
    async with opened_store(url) as store:
        service = service_on(store, SystemClock(), os.urandom)
        await service.jobs.add("job", **fields_of(definition))
        await asyncio.gather(*(service.jobs.trigger("job") for _ in range(runs)))


async def drain(url: str, folder: Path, runs: int, concurrency: int) -> Drained:
    """A new node ends all these runs, which are due."""
    clock = SystemClock()
    async with opened_store(url) as store, watching(url) as has_live:
        executors = executors_of(clock, folder)
        identity = Identity(host="bench", boot_id="bench", pid=os.getpid(), version="0", concurrency=concurrency)
        node = Node(store, executors, clock, os.urandom, identity)
        await executors.open(node.receive)
        spare_the_collector()
        watch = Watch()
        await node.start()
        task = asyncio.create_task(node.run())
        while await has_live():  # noqa: ASYNC110  the node is watched from outside
            await asyncio.sleep(LOOK_EVERY)
        drained = watch.drained()
        node.stop()
        await task
        await executors.close()
        ended = await succeeded(store, runs + 1)
        assert len(ended) == runs, f"{len(ended)} of {runs} runs have succeeded"
    return drained


@asynccontextmanager
async def watching(url: str) -> AsyncIterator[HasLive]:
    """A session of one's own with the database of a store: to ask it as cheaply as can be."""
    match url.partition(":")[0]:
        case "sqlite":
            file = sqlite3.connect(url.removeprefix("sqlite://"))
            yield lambda: _first(file.execute(LIVE).fetchone())
            file.close()
        case "postgresql":
            postgres = await asyncpg.connect(url)
            yield lambda: postgres.fetchval(LIVE)
            await postgres.close()
        case "mariadb":
            mariadb = await mysql_session(mysql_address(url))
            yield lambda: _first_of(mariadb)
            await mariadb.close()
        case _:
            async with Redis.from_url(url.replace("redis+unix:", "unix:")) as redis:
                yield lambda: redis.exists(LIVE_KEY)


async def _first(row: object) -> object:
    return row


async def _first_of(session: TransactionSession) -> object:
    return (await session.ask(LIVE))[0].rows


async def succeeded(store: Store, most: int) -> list[Run]:
    """The runs that did, newest first."""
    return await store.list_runs(RunFilter(states=frozenset({RunState.SUCCEEDED}), limit=most))


def is_empty(db: sqlite3.Connection, table: str) -> bool:
    """Whether the table has no row: asked as cheaply as can be."""
    return db.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is None


def count_ended(folder: Path) -> int:
    """How many runs have succeeded."""
    db = sqlite3.connect(folder / "tokimori.db")
    (count,) = db.execute(SUCCEEDED).fetchone()
    db.close()
    return int(count)


def lateness(folder: Path) -> list[Moment]:
    """Start minus due of every ended run, ascending."""
    db = sqlite3.connect(folder / "tokimori.db")
    rows = db.execute("SELECT started - due FROM tokimori_history ORDER BY 1").fetchall()
    db.close()
    return [Moment(late) for (late,) in rows]
