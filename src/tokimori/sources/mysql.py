"""Tables of a MySQL or MariaDB database."""

import asyncio
from collections.abc import Sequence
from typing import Any

from asyncmy.connection import Connection
from asyncmy.cursors import DictCursor

from tokimori.sources.tables import Owned, Row, as_source
from tokimori.stores.mysql.address import address_of
from tokimori.stores.mysql.faults import FAULTS, store_error

PATIENCE = 30.0
"""Seconds to wait for an answer."""


class MysqlTables:
    """See `Tables`."""

    def __init__(self, name: str, session: Any) -> None:
        self.name = name
        self._session = session

    async def names(self) -> frozenset[str]:
        """See `Tables.names`."""
        rows = await self._rows(
            "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = DATABASE()"
        )
        return frozenset(str(row["name"]) for row in rows)

    async def page(self, table: str, key: str, after: object, limit: int) -> Sequence[Row]:
        """See `Tables.page`."""
        if after is None:
            return await self._rows(f"SELECT * FROM `{table}` ORDER BY `{key}` LIMIT %s", limit)
        return await self._rows(f"SELECT * FROM `{table}` WHERE `{key}` > %s ORDER BY `{key}` LIMIT %s", after, limit)

    async def of(self, owned: Owned, owners: Sequence[object], after: object, limit: int) -> Sequence[Row]:
        """See `Tables.of`."""
        behind, place = ("", ()) if after is None else (f" AND `{owned.key}` > %s", (after,))
        marks = ", ".join(["%s"] * len(owners))
        text = (
            f"SELECT * FROM `{owned.table}` WHERE `{owned.column}` IN ({marks}){behind} ORDER BY `{owned.key}` LIMIT %s"
        )
        return await self._rows(text, *owners, *place, limit)

    async def close(self) -> None:
        """See `Tables.close`."""
        try:
            async with asyncio.timeout(PATIENCE):
                await self._session.ensure_closed()
        except FAULTS:
            self._session.close()

    async def _rows(self, text: str, *values: object) -> Sequence[Row]:
        try:
            async with asyncio.timeout(PATIENCE):
                cursor = self._session.cursor(DictCursor)
                await cursor.execute(text, values)
                return [dict(row) for row in await cursor.fetchall()]
        except FAULTS as fault:
            raise as_source(store_error(fault, self.name), self.name) from None


async def open_mysql(url: str) -> MysqlTables:
    """The tables of a database, in a session that can't write. Raises `InvalidInput` and `StoreError`."""
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
    )
    tables = MysqlTables(address.name, session)
    try:
        async with asyncio.timeout(PATIENCE):
            await session.connect()
    except FAULTS as fault:
        session.close()
        raise as_source(store_error(fault, address.name), address.name) from None
    await tables._rows("SET SESSION TRANSACTION READ ONLY")
    return tables
