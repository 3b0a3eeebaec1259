"""Tables of a PostgreSQL database."""

import asyncio
from collections.abc import Sequence
from typing import Any

import asyncpg

from tokimori.sources.session import Row, SqlDialect, as_source
from tokimori.stores.postgres.address import address_of
from tokimori.stores.postgres.faults import FAULTS, store_error

PATIENCE = 30.0
"""Seconds to wait for an answer."""
_SETTINGS = {"application_name": "tokimori", "default_transaction_read_only": "on"}
_DIALECT = SqlDialect(
    '"',
    lambda number: f"${number}",
    "SELECT relname AS name FROM pg_class WHERE pg_table_is_visible(oid) AND relkind IN ('r', 'p', 'v')",
)


class PostgresSession:
    """See `SourceSession`."""

    dialect = _DIALECT

    def __init__(self, name: str, session: Any) -> None:
        self.name = name
        self._session = session

    async def close(self) -> None:
        """See `SourceSession.close`."""
        try:
            await self._session.close(timeout=PATIENCE)
        except FAULTS:
            self._session.terminate()

    async def rows(self, text: str, *values: object) -> Sequence[Row]:
        """See `SourceSession.rows`."""
        try:
            async with asyncio.timeout(PATIENCE):
                return [dict(row) for row in await self._session.fetch(text, *values)]
        except FAULTS as fault:
            raise as_source(store_error(fault, self.name), self.name) from None


async def open_postgres(url: str) -> PostgresSession:
    """Return the tables of a database, in a session that can't write. Raises `InvalidInput` and `StoreError`."""
    address = address_of(url)
    settings = {} if address.pooled else _SETTINGS  # a pooler takes none of them
    try:
        async with asyncio.timeout(PATIENCE):
            session = await asyncpg.connect(address.dsn, server_settings=settings, statement_cache_size=0)
    except FAULTS as fault:
        raise as_source(store_error(fault, address.name), address.name) from None
    return PostgresSession(address.name, session)
