"""Sessions with the server, each used by one caller at a time, and transactions of few round trips."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, TypeVar

from asyncmy.connection import Connection
from asyncmy.constants import CLIENT

from tokimori.errors import StoreError, StoreUnavailable
from tokimori.model.document import Document
from tokimori.stores.mysql.address import MysqlAddress, SslMode
from tokimori.stores.mysql.faults import FAULTS, NO_TLS, UNDONE, code_of, is_answer, is_refusal, store_error, too_large
from tokimori.stores.mysql.statements import Answer, sql
from tokimori.stores.reading import HELD
from tokimori.stores.rules.errors import existing, overtaken
from tokimori.stores.server_store import LOOKS_EVERY, Connected
from tokimori.stores.urls import Namespace, by_newest

T = TypeVar("T")

PATIENCE = 4.0
"""Seconds to wait for any answer: more than the server's own time-outs, less than a lease."""
ATTEMPTS = 8
"""Tries of a method whose transaction was undone by a conflict."""
OLDEST_MARIADB, OLDEST_MYSQL = (10, 6), (8, 0)
_LARGEST_PACKET = 2**20
"""Bytes sent at once, unless a single statement is longer or the server takes less."""
# ANSI_QUOTES: names are quoted as in every other store. The comments are for one of the two servers each: a client that
# froze within a transaction is cut after 3 s, which MySQL can only do to sessions that are idle anyhow.
_SETTINGS = (
    "SET SESSION sql_mode = 'ANSI_QUOTES,STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION', "
    "sql_notes = 0, time_zone = '+00:00', autocommit = 1, foreign_key_checks = 1, unique_checks = 1, "
    "innodb_lock_wait_timeout = 2, lock_wait_timeout = 2 "
    "/*M!100600 , idle_transaction_timeout = 3, max_statement_time = 3 */ "
    "/*!80000 , wait_timeout = 3, max_execution_time = 3000 */",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SELECT VERSION(), @@max_allowed_packet",
)


_FREEZE = (
    "SET SESSION lock_wait_timeout = 2 /*M!100600 , idle_transaction_timeout = 0, max_statement_time = 0 */ "
    "/*!80000 , wait_timeout = 600, max_execution_time = 0 */",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
)


class TransactionSession:
    """One session with the server."""

    def __init__(self, driver: Any, namespace: Namespace) -> None:
        self._driver = driver
        self.namespace = namespace
        self.most = _LARGEST_PACKET
        """Bytes that the server takes at once."""

    async def ask(self, *statements: str) -> list[Answer]:
        """Have the statements carried out in order, in few packets, up to the first that fails. Raises `FAULTS`."""
        answers: list[Answer] = []
        for packet in self._packets(statements):
            cursor = self._driver.cursor()
            await cursor.execute(packet)
            answers.append(Answer(list(await cursor.fetchall()), cursor.rowcount))
            while await cursor.nextset():
                answers.append(Answer(list(await cursor.fetchall()), cursor.rowcount))
        return answers

    def _packets(self, statements: Iterable[str]) -> Iterator[bytes]:
        packet: list[bytes] = []
        length = 0
        for statement in statements:
            text = self.namespace.rendered_around_literals(statement).encode(errors="replace")
            if len(text) + 1 >= self.most:  # a byte in front says what it is
                raise too_large(statement, len(text), self.most)
            if packet and length + len(text) + 1 >= min(_LARGEST_PACKET, self.most):
                yield b"; ".join(packet)
                packet, length = [], 0
            packet.append(text)
            length += len(text) + 2
        if packet:
            yield b"; ".join(packet)

    @property
    def is_lost(self) -> bool:
        """Return whether the server has ended it, as far as is known here."""
        return bool(self._driver._stream_broken)

    async def close(self) -> None:
        """End the session."""
        try:
            async with asyncio.timeout(PATIENCE):
                await self._driver.ensure_closed()
        except FAULTS:
            self.cut()

    def cut(self) -> None:
        """Cut the connection without a farewell."""
        self._driver.close()


async def connect(address: MysqlAddress) -> TransactionSession:
    """Return a new session. Raises `StoreError`."""
    return await by_newest(address, address.addresses, _connect)


async def _connect(address: MysqlAddress) -> TransactionSession:
    driver = Connection(  # type: ignore[no-untyped-call]
        host=address.host,
        port=address.port,
        unix_socket=address.unix_socket,
        user=address.user,
        password=address.password.encode(),
        database=address.database,
        ssl=await asyncio.to_thread(address.tls),
        charset="utf8mb4",
        autocommit=None,
    )
    session = TransactionSession(driver, address.namespace)
    try:
        async with asyncio.timeout(PATIENCE):
            await driver.connect()
            *_, version = await session.ask(*_SETTINGS)
    except FAULTS as fault:
        session.cut()
        if _speaks_no_tls(driver, address):
            raise StoreError(f"store {address.name} {NO_TLS}") from None
        raise store_error(fault, address.name) from None
    ((text, session.most),) = version.rows
    _check_version(str(text), session, address)
    return session


def _speaks_no_tls(driver: Any, address: MysqlAddress) -> bool:
    """Return if the server offers no TLS although the address asks for it: the driver would begin TLS all the same."""
    offered = getattr(driver, "server_capabilities", None)
    return address.ssl_mode is not SslMode.DISABLED and offered is not None and not offered & CLIENT.SSL


def _check_version(text: str, session: TransactionSession, address: MysqlAddress) -> None:
    numbers = tuple(int(number) for number in re.findall(r"\d+", text)[:2])
    kind, oldest = ("MariaDB", OLDEST_MARIADB) if "mariadb" in text.lower() else ("MySQL", OLDEST_MYSQL)
    if numbers < oldest:
        session.cut()
        wanted = ".".join(map(str, oldest))
        raise StoreError(f"store {address.name} is {kind} {text}, older than {wanted}: upgrade the server")


class Transaction:
    """Statements that take effect together, when the last of them are sent with `commit`.

    `wakes`: it may serve lines; `woke`: it tried, and may do so later if it is refused.
    """

    def __init__(self, session: TransactionSession, guard: Document | None = None) -> None:
        self._guard = guard
        self.wakes, self.woke = True, False
        self._session = session
        self._begun = False

    async def ask(self, *statements: str) -> list[Answer]:
        """Carry out statements in one round trip."""
        if self._begun:
            return await self._session.ask(*statements)
        self._begun = True
        if (guard := self._guard) is None:
            return (await self._session.ask("START TRANSACTION", *statements))[1:]
        held = f"{sql(HELD, guard.kind, guard.name, guard.version)} LOCK IN SHARE MODE"
        _, found = await self._session.ask("START TRANSACTION", held)
        existing(next(iter(found.rows), None), overtaken(guard))
        return await self._session.ask(*statements)

    async def commit(self, *statements: str) -> list[Answer]:
        """Carry out the last statements and commit, in one round trip."""
        answers = await self.ask(*statements, "COMMIT")
        self._begun = False
        return answers[:-1]

    async def undo(self) -> None:
        """Roll back."""
        if self._begun:
            self._begun = False
            await self._session.ask("ROLLBACK")


class Sessions(Connected):
    """At most `most` sessions, opened when they are needed and kept.

    A session whose state is not known (a time-out, a cancelled caller, a lost reply) is cut, never used again.
    """

    looks_every = LOOKS_EVERY

    def __init__(self, address: MysqlAddress, most: int) -> None:
        self.name = address.name
        self._address = address
        self._free: list[TransactionSession] = []
        self._places = asyncio.Semaphore(most)
        self._closed, self._looks_at = False, 0.0

    async def freeze(self) -> None:
        """See `Connected.freeze`."""
        session = await connect(self._address)
        self._free.append(session)
        try:
            await session.ask(*_FREEZE)
        except FAULTS as fault:
            raise store_error(fault, self.name) from None
        self.frozen = True

    async def ask(self, *statements: str) -> list[Answer]:
        """Carry out statements, each its own transaction, in one round trip. Raises `StoreError`."""
        if self.guard is not None:
            return await self.transact(lambda transaction: transaction.commit(*statements))
        return await self.use(lambda session: session.ask(*statements))

    async def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of one statement."""
        return (await self.ask(statement))[0].rows

    async def row(self, statement: str) -> tuple[Any, ...] | None:
        """Return the first row that one statement finds."""
        return next(iter(await self.rows(statement)), None)

    async def transact(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """Do the work in a transaction, which is rolled back unless it commits. Raises `StoreError`."""

        async def in_transaction(session: TransactionSession) -> T:
            transaction = Transaction(session, self.guard)
            try:
                try:
                    return await work(transaction)
                except FAULTS as fault:
                    if not transaction.woke or not is_refusal(fault):
                        raise
                await transaction.undo()
                transaction.wakes = transaction.woke = False
                return await work(transaction)
            finally:
                if not session.is_lost:
                    await transaction.undo()

        if self.frozen:
            raise self.thawed(self.name)
        return await self.use(in_transaction)

    async def use(self, work: Callable[[TransactionSession], Awaitable[T]], patience: float = PATIENCE) -> T:
        """Do the work with a session, and repeat it if it was undone. Raises `StoreError`, and errors of the work."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                async with self._places:
                    return await self._use(work, patience)
            except FAULTS as fault:
                if code_of(fault) not in UNDONE or attempt == ATTEMPTS:
                    raise store_error(fault, self.name) from None
        raise StoreUnavailable(f"store {self.name} is busy")

    async def _use(self, work: Callable[[TransactionSession], Awaitable[T]], patience: float) -> T:
        session = await self._take()
        known = False
        try:
            async with asyncio.timeout(patience):
                await self._check_not_shut(session)
                done = await work(session)
            known = True
            return done
        except Exception as fault:
            known = not isinstance(fault, FAULTS) or is_answer(fault)
            raise
        finally:
            if known and not self._closed and not session.is_lost:
                self._free.append(session)
            else:
                session.cut()

    async def _check_not_shut(self, session: TransactionSession) -> None:
        if (shut := self.shut) is not None and (now := asyncio.get_running_loop().time()) >= self._looks_at:
            document = shut.document
            (found,) = await session.ask(sql(HELD, document.kind, document.name, document.version))
            if found.rows:
                raise shut.error()
            self._looks_at = now + self.looks_every

    async def _take(self) -> TransactionSession:
        while self._free:
            session = self._free.pop()
            if not session.is_lost:
                return session
            session.cut()
        if self.frozen:
            raise self.thawed(self.name)
        return await connect(self._address)

    async def close(self) -> None:
        """End all sessions; those in use end after their work."""
        self._closed = True
        while self._free:
            await self._free.pop().close()
        await asyncio.sleep(0)  # those that were cut close their sockets in the loop's next round
