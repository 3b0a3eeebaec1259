"""Stores on servers with a transaction of somebody else's that is held open, for methods that meet."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import msgspec

from tests.contract.stores.actors import NOW, Worker, a_claim
from tokimori.clock import SystemClock
from tokimori.model.ids import NodeId
from tokimori.model.job import Job, JobState
from tokimori.model.lanes import lane_of
from tokimori.ports.store import Store
from tokimori.ports.working import Claimed
from tokimori.stores.mysql import sessions as mysql
from tokimori.stores.mysql.address import MysqlAddress
from tokimori.stores.mysql.statements import Answer, sql
from tokimori.stores.mysql.store import MysqlStore
from tokimori.stores.postgres import connections as postgres
from tokimori.stores.postgres.address import PostgresAddress
from tokimori.stores.postgres.schema import FunctionSet
from tokimori.stores.postgres.store import PostgresStore

T = TypeVar("T")
WAITS = 0.4
"""Seconds after which a call that has not returned is taken to wait."""
GOES_AROUND = 1.5
"""Seconds in which a call that waits for nobody returns, however busy the machine: for a lock it would wait 2."""


class HeldOpen(Protocol):
    """A server whose transactions can be held open."""

    def transaction(self) -> AbstractAsyncContextManager[Store]:
        """A store that does everything in one transaction, which is committed at the end of the block."""

    async def lock_job(self, held: Store, job: Job) -> None:
        """Lock its row, in the transaction that is held open."""


class PostgresTransaction(postgres.PostgresConnections):
    """Statements of one session, in the transaction that is open there."""

    def __init__(self, address: PostgresAddress, functions: FunctionSet, session: Any) -> None:
        super().__init__(address, 1, functions)
        self._session = session

    async def _tried(self, work: Callable[[Any], Awaitable[T]], patience: float, statement: str) -> T:
        """Nothing is committed."""
        return await work(self._session)


@dataclass(frozen=True, slots=True)
class OnPostgres:
    """See `HeldOpen`."""

    store: PostgresStore

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[PostgresStore]:
        address = self.store._address
        session = await postgres.connect(address)
        async with session.transaction():
            await session.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            held = PostgresStore(address, SystemClock())
            held._notices._sender = None  # its one session is in use
            db = PostgresTransaction(address, self.store._functions, session)
            held._opened = db, db
            yield held
        await session.close()

    async def lock_job(self, held: Store, job: Job) -> None:
        assert isinstance(held, PostgresStore)
        await held.db.rows("SELECT FROM tokimori_jobs WHERE incarnation = $1 FOR UPDATE", job.incarnation)


class Uncommitted(mysql.Transaction):
    """A transaction that somebody else commits."""

    def __init__(self, session: mysql.TransactionSession) -> None:
        super().__init__(session)
        self._begun = True

    async def commit(self, *statements: str) -> list[Answer]:
        """All but that."""
        return await self.ask(*statements) if statements else []

    async def undo(self) -> None:
        """Neither."""


class MysqlTransaction(mysql.Sessions):
    """One session, in the transaction that is open there."""

    def __init__(self, address: MysqlAddress, session: mysql.TransactionSession) -> None:
        super().__init__(address, 1)
        self._session = session

    async def use(self, work: Callable[[mysql.TransactionSession], Awaitable[T]], patience: float = 4) -> T:
        """Nothing is committed."""
        return await work(self._session)

    async def transact(self, work: Callable[[mysql.Transaction], Awaitable[T]]) -> T:
        """Nothing is committed."""
        return await work(Uncommitted(self._session))


@dataclass(frozen=True, slots=True)
class OnMysql:
    """See `HeldOpen`."""

    store: MysqlStore

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[MysqlStore]:
        address = self.store.db._address
        session = await mysql.connect(address)
        await session.ask("SET SESSION /*M!100600 idle_transaction_timeout = 0 */", "START TRANSACTION")
        held = MysqlStore(address, SystemClock())
        db = MysqlTransaction(address, session)
        held._opened = db, db
        try:
            yield held
            await session.ask("COMMIT")
        finally:
            await session.close()

    async def lock_job(self, held: Store, job: Job) -> None:
        assert isinstance(held, MysqlStore)
        await held.db.ask(sql("SELECT 1 FROM tokimori_jobs WHERE incarnation = %s FOR UPDATE", job.incarnation))


@dataclass(frozen=True, slots=True)
class Scene:
    """A store, two nodes, and other programs' transactions."""

    store: Store
    server: HeldOpen
    worker: Worker
    other: Worker

    def held_open(self) -> AbstractAsyncContextManager[Any]:
        """A store that does everything in one transaction, which is committed at the end of the block."""
        return self.server.transaction()

    async def lock_job(self, held: Store, job: Job) -> None:
        """Lock its row, in the transaction that is held open."""
        await self.server.lock_job(held, job)


def server_of(store: Store) -> HeldOpen:
    """The server of this store."""
    if isinstance(store, PostgresStore):
        return OnPostgres(store)
    assert isinstance(store, MysqlStore)
    return OnMysql(store)


async def claimed_in(store: Store, node: NodeId, job: Job) -> list[Claimed]:
    """What a claim takes in a transaction that is held open."""
    return await store.claim(a_claim(node, [lane_of(job.definition)], 10), NOW)


async def waits(call: Awaitable[T]) -> "asyncio.Future[T]":
    """The call, which must not return yet."""
    task = asyncio.ensure_future(call)
    await asyncio.sleep(WAITS)
    assert not task.done()
    return task


def paused(job: Job) -> Job:
    """The job after a pause."""
    return msgspec.structs.replace(job, state=JobState.PAUSED, version=job.version + 1)
