"""Sessions with the server, each used by one caller at a time, and one statement a transaction."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import asyncpg

from tokimori.errors import Overtaken, StoreError, StoreUnavailable
from tokimori.stores.postgres.address import PostgresAddress
from tokimori.stores.postgres.faults import FAULTS, UNDONE, store_error
from tokimori.stores.postgres.schema import NO_FUNCTIONS, FunctionSet
from tokimori.stores.reading import HELD
from tokimori.stores.server_store import LOOKS_EVERY, Connected
from tokimori.stores.urls import Namespace, by_newest

T = TypeVar("T")
Row = tuple[Any, ...]

PATIENCE = 4.0
"""Seconds to wait for any answer: more than the server's own time-outs, less than a lease."""
ATTEMPTS = 5
"""Tries of a method whose transaction was undone by a conflict."""
_STATEMENTS = 500
"""Size of the cache: more than there are statements, each with a few variants."""
_SETTINGS = {
    "application_name": "tokimori",
    "statement_timeout": "3s",
    "lock_timeout": "2s",  # sooner, or a lock would be reported as a slow statement
    "idle_in_transaction_session_timeout": "3s",
    "jit": "off",
    "default_transaction_isolation": "read committed",  # each statement of a function sees what was committed before it
    # All statements of ours look up few rows by an index. A plan is made while tables are small, and kept while they
    # grow: it must not depend on what the statistics say.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
_LOCAL_SETTINGS = "; ".join(f"SET LOCAL {name} = '{value}'" for name, value in _SETTINGS.items())
_FREEZE = """BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0; SELECT 1"""
_OLDEST = 13
_HELD = f"{HELD % ('$1', '$2', '$3')} FOR SHARE"


async def connect(address: PostgresAddress) -> Any:
    """Return a new session. Raises `StoreError`."""
    return await by_newest(address, address.addresses, _connect)


async def _connect(address: PostgresAddress) -> Any:
    try:
        async with asyncio.timeout(PATIENCE):
            session = await asyncpg.connect(
                address.dsn,
                timeout=PATIENCE,
                statement_cache_size=0 if address.pooled else 200,
                max_cached_statement_lifetime=0,
                server_settings={} if address.pooled else _SETTINGS,
                connection_class=_in_namespace(address.namespace) if address.namespace.name else asyncpg.Connection,
            )
            try:
                async with session.transaction():
                    await session.set_type_codec(
                        "uuid", schema="pg_catalog", format="binary", encoder=_uuid_bytes, decoder=_uuid_text
                    )
            except BaseException:  # a cancellation here, too, leaves no socket to the garbage collector
                session.terminate()
                raise
    except FAULTS as fault:
        raise store_error(fault, address.name) from None
    if session.get_server_version().major < _OLDEST:
        session.terminate()
        raise StoreError(f"store {address.name} is older than PostgreSQL {_OLDEST}: upgrade the server")
    return session


def _in_namespace(namespace: Namespace) -> type[Any]:
    """Return a class of sessions that put the installation's name into each statement."""

    class InNamespace(asyncpg.Connection):
        async def fetch(self, query: str, *values: Any, **terms: Any) -> Any:
            return await super().fetch(namespace.rendered(query), *values, **terms)

        async def fetchval(self, query: str, *values: Any, **terms: Any) -> Any:
            return await super().fetchval(namespace.rendered(query), *values, **terms)

        async def execute(self, query: str, *values: Any, **terms: Any) -> Any:
            return await super().execute(namespace.rendered(query), *values, **terms)

    return InNamespace


def _uuid_bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("-", ""))


def _uuid_text(data: bytes) -> str:
    text = data.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class _Session(NamedTuple):
    session: Any
    planned: set[str]
    """Statements that it has carried out."""


class PostgresConnections(Connected):
    """At most `most` sessions, opened when they are needed and kept.

    A statement goes to a free session that has carried it out before, if there is one: its plan is there. A session
    whose state is not known (a time-out, a cancelled caller, a lost reply) is cut, never used again.

    Statements call `functions`. If the database lacks them, `make_functions` makes them, and the statement is repeated.
    """

    looks_every = LOOKS_EVERY

    def __init__(
        self,
        address: PostgresAddress,
        most: int,
        functions: FunctionSet = NO_FUNCTIONS,
        make_functions: Callable[[Any], Awaitable[None]] | None = None,
    ) -> None:
        self._address = address
        self.functions = functions
        self._make_functions = make_functions
        self._rendered = lru_cache(_STATEMENTS)(functions.rendered)
        self._free: list[_Session] = []
        self._places = asyncio.Semaphore(most)
        self._closed, self._looks_at = False, 0.0

    async def _carry_out(self, session: Any, work: Callable[[Any], Awaitable[T]]) -> T:
        """Do the work, in a transaction if there is a guard or a pooler, which keeps a session for that long."""
        if self.frozen:
            return await work(session)
        shut, now = self.shut, asyncio.get_running_loop().time()
        looked_for = [shut.document] if shut is not None and now >= self._looks_at else []
        if not self._address.pooled and self.guard is None and not looked_for:
            return await work(session)
        async with session.transaction(isolation="read_committed"):
            if self._address.pooled:
                await session.execute(_LOCAL_SETTINGS)
            wanted = [*looked_for, *([] if self.guard is None else [self.guard])]
            found = [each for each in wanted if await session.fetchval(_HELD, each.kind, each.name, each.version)]
            self.check(found.__contains__)
            self._looks_at = now + self.looks_every if looked_for else self._looks_at
            return await work(session)

    async def freeze(self) -> None:
        """See `Connected.freeze`."""
        session = await connect(self._address)
        self._free.append(_Session(session, set()))
        try:
            await session.execute(_FREEZE)
        except FAULTS as fault:
            raise store_error(fault, self._address.name) from None
        self.frozen = True

    async def rows(self, statement: str, *values: object) -> list[Row]:
        """Carry out one statement, which is one transaction. Raises `StoreError`."""
        text = self._rendered(statement)

        async def fetch(session: Any) -> list[Row]:
            return list(await session.fetch(text, *values))

        try:
            return await self._tried(fetch, PATIENCE, text)
        except asyncpg.UndefinedFunctionError as fault:
            if self._make_functions is None:
                raise store_error(fault, self._address.name) from None
        except asyncpg.PostgresError as fault:
            raise store_error(fault, self._address.name) from None
        await self.use(self._make_functions)
        return await self.use(fetch, statement=text)

    async def row(self, statement: str, *values: object) -> Row | None:
        """Return the first row of the answer."""
        found = await self.rows(statement, *values)
        return found[0] if found else None

    async def value(self, statement: str, *values: object) -> Any:
        """Return the first column of the first row of an answer that has one."""
        return (await self.rows(statement, *values))[0][0]

    async def use(self, work: Callable[[Any], Awaitable[T]], patience: float = PATIENCE, statement: str = "") -> T:
        """Do the work, mainly this statement, with a session. Raises `StoreError`, and errors of the work."""
        try:
            return await self._tried(work, patience, statement)
        except asyncpg.PostgresError as fault:
            raise store_error(fault, self._address.name) from None

    async def _tried(self, work: Callable[[Any], Awaitable[T]], patience: float, statement: str) -> T:
        """Do the work, and again if the server has undone it. Raises the errors of the driver."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                async with self._places:
                    return await self._use(work, patience, statement)
            except asyncpg.PostgresError as fault:
                if fault.sqlstate not in UNDONE or attempt == ATTEMPTS:
                    raise
        raise StoreUnavailable(f"store {self._address.name} is busy")

    async def _use(self, work: Callable[[Any], Awaitable[T]], patience: float, statement: str) -> T:
        session, planned = taken = await self._take(statement)
        known = False
        try:
            async with asyncio.timeout(patience):
                done = await self._carry_out(session, work)
            known = True
            planned.add(statement)
            return done
        except asyncpg.PostgresError:
            known = True
            raise
        except FAULTS as fault:
            raise store_error(fault, self._address.name) from None
        except (StoreError, Overtaken):
            known = True
            raise
        finally:
            if known and not self._closed and not session.is_closed() and session.is_in_transaction() == self.frozen:
                self._free.append(taken)
            else:
                session.terminate()

    async def _take(self, statement: str) -> _Session:
        self._free[:] = [free for free in self._free if not free.session.is_closed()]
        if not self._free:
            if self.frozen:
                raise self.thawed(self._address.name)
            return _Session(await connect(self._address), set())
        places = range(len(self._free) - 1, -1, -1)
        return self._free.pop(next((place for place in places if statement in self._free[place].planned), -1))

    async def close(self) -> None:
        """End all sessions; those in use end after their work."""
        self._closed = True
        while self._free:
            session, _ = self._free.pop()
            try:
                await session.close(timeout=PATIENCE)
            except FAULTS:
                session.terminate()


# A notice need not outlive the server: it does not wait for its disk.
_SEND = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)"


def channel_of(address: PostgresAddress) -> str:
    """Return the channel of an installation's notices."""
    return address.namespace.prefix.rstrip("_")


async def notify(db: PostgresConnections, address: PostgresAddress, notice: str) -> None:
    """Send a notice to the others."""
    await db.rows(_SEND, channel_of(address), notice)


async def listen(address: PostgresAddress, name: str, on_notice: Callable[[str], None]) -> None:
    """Call `on_notice` with the words of each notice not sent under `name`, and at first; until the session is lost.

    Raises `StoreError` if there is none.
    """
    session, lost = await connect(address), asyncio.Event()

    def notified(_session: object, _pid: int, _channel: str, notice: object) -> None:
        sender, _, words = str(notice).partition(" ")
        if sender != name:
            on_notice(words)

    try:
        session.add_termination_listener(lambda _session: lost.set())
        async with asyncio.timeout(PATIENCE):
            await session.add_listener(channel_of(address), notified)
        on_notice("")
        await lost.wait()
    except FAULTS:
        return
    finally:
        session.terminate()
