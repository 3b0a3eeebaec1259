"""Tables of a MySQL or MariaDB database."""

import asyncio
from collections.abc import Sequence
from typing import Any

from asyncmy.connection import Connection
from asyncmy.cursors import DictCursor

from tokimori.sources.session import Row, SqlDialect, as_source
from tokimori.stores.mysql.address import address_of
from tokimori.stores.mysql.faults import FAULTS, store_error

PATIENCE = 30.0
"""Seconds to wait for an answer."""
_DIALECT = SqlDialect(
    "`", lambda _: "%s", "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = DATABASE()"
)


class MysqlSession:
    """See `SourceSession`."""

    dialect = _DIALECT

    def __init__(self, name: str, session: Any) -> None:
        self.name = name
        self._session = session

    async def close(self) -> None:
        """See `SourceSession.close`."""
        try:
            async with asyncio.timeout(PATIENCE):
                await self._session.ensure_closed()
        except FAULTS:
            self._session.close()

    async def rows(self, text: str, *values: object) -> Sequence[Row]:
        """See `SourceSession.rows`."""
        try:
            async with asyncio.timeout(PATIENCE):
                cursor = self._session.cursor(DictCursor)
                await cursor.execute(text, values)
                return [dict(row) for row in await cursor.fetchall()]
        except FAULTS as fault:
            raise as_source(store_error(fault, self.name), self.name) from None


async def open_mysql(url: str) -> MysqlSession:
    """Return the tables of a database, in a session that can't write. Raises `InvalidInput` and `StoreError`."""
    address = address_of(url)
    session = Connection(  # type: ignore[no-untyped-call]
        host=address.host,
        port=address.port,
        unix_socket=address.unix_socket,
        user=address.user,
        password=address.password.encode(),
        database=address.database,
        ssl=address.tls(),
        charset="utf8mb4",
        init_command="SET SESSION TRANSACTION READ ONLY",
    )
    try:
        async with asyncio.timeout(PATIENCE):
            await session.connect()
    except FAULTS as fault:
        session.close()
        raise as_source(store_error(fault, address.name), address.name) from None
    return MysqlSession(address.name, session)
