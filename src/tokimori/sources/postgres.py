"""Tables of a PostgreSQL database."""

import asyncio
from collections.abc import Sequence
from typing import Any

import asyncpg

from tokimori.sources.tables import Owned, Row, as_source
from tokimori.stores.postgres.address import address_of
from tokimori.stores.postgres.faults import FAULTS, store_error

PATIENCE = 30.0
"""Seconds to wait for an answer."""
_SETTINGS = {"application_name": "tokimori", "default_transaction_read_only": "on"}


class PostgresTables:
    """See `Tables`."""

    def __init__(self, name: str, session: Any) -> None:
        self.name = name
        self._session = session

    async def names(self) -> frozenset[str]:
        """See `Tables.names`."""
        rows = await self._rows(
            "SELECT relname FROM pg_class WHERE pg_table_is_visible(oid) AND relkind IN ('r', 'p', 'v')"
        )
        return frozenset(str(row["relname"]) for row in rows)

    async def page(self, table: str, key: str, after: object, limit: int) -> Sequence[Row]:
        """See `Tables.page`."""
        if after is None:
            return await self._rows(f'SELECT * FROM "{table}" ORDER BY "{key}" LIMIT $1', limit)
        return await self._rows(f'SELECT * FROM "{table}" WHERE "{key}" > $2 ORDER BY "{key}" LIMIT $1', limit, after)

    async def of(self, owned: Owned, owners: Sequence[object], after: object, limit: int) -> Sequence[Row]:
        """See `Tables.of`."""
        behind, place = ("", ()) if after is None else (f' AND "{owned.key}" > $3', (after,))
        text = (
            f'SELECT * FROM "{owned.table}" WHERE "{owned.column}" = ANY ($2){behind} ORDER BY "{owned.key}" LIMIT $1'
        )
        return await self._rows(text, limit, list(owners), *place)

    async def close(self) -> None:
        """See `Tables.close`."""
        try:
            await self._session.close(timeout=PATIENCE)
        except FAULTS:
            self._session.terminate()

    async def _rows(self, text: str, *values: object) -> Sequence[Row]:
        try:
            async with asyncio.timeout(PATIENCE):
                return [dict(row) for row in await self._session.fetch(text, *values)]
        except FAULTS as fault:
            raise as_source(store_error(fault, self.name), self.name) from None


async def open_postgres(url: str) -> PostgresTables:
    """The tables of a database, in a session that can't write. Raises `InvalidInput` and `StoreError`."""
    address = address_of(url)
    try:
        async with asyncio.timeout(PATIENCE):
            session = await asyncpg.connect(address.dsn, server_settings=_SETTINGS, statement_cache_size=0)
    except FAULTS as fault:
        raise as_source(store_error(fault, address.name), address.name) from None
    return PostgresTables(address.name, session)
