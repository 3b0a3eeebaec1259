"""Rows of runs straight into a store's tables, as a copy writes them, but for a commit of each page and its flush."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, closing
from itertools import islice
from typing import Protocol, TypeVar

import asyncpg

from tokimori.model.run import Attempt, Run
from tokimori.ports.copying import Kind
from tokimori.ports.store import Store
from tokimori.stores.copying import TARGETS, row_of
from tokimori.stores.postgres.address import address_of
from tokimori.stores.rows import marks

PAGE = 500
AT_ONCE = 4
SQLITE_PAGE = 50_000
Row = TypeVar("Row")
Filled = Run | Attempt


class Writes(Protocol):
    """Writes rows of a kind into an empty store on which nobody works."""

    async def __call__(self, kind: Kind, rows: Iterable[Filled], page: int = PAGE) -> None: ...


@asynccontextmanager
async def writer(store: Store, url: str) -> AsyncIterator[Writes]:
    """What writes fastest to that store."""
    scheme, _, path = url.partition("://")
    if scheme == "sqlite":
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            yield _into_file(db)
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    elif scheme == "postgresql":
        connection = await asyncpg.connect(address_of(url).dsn)
        try:
            yield _by_copy(connection)
            await connection.execute("VACUUM ANALYZE")
        finally:
            await connection.close()
    else:
        yield _by_import(store)


def _into_file(db: sqlite3.Connection) -> Writes:
    """In the same thread: nothing else goes on."""
    for setting in ("synchronous = OFF", "cache_size = -1000000"):
        db.execute(f"PRAGMA {setting}")

    async def write(kind: Kind, rows: Iterable[Filled], page: int = PAGE) -> None:
        table, columns = TARGETS[kind]
        statement = f"INSERT INTO {table} ({columns}) VALUES ({marks(columns)})"
        for some in pages(map(row_of, rows), SQLITE_PAGE * page // PAGE):
            db.execute("BEGIN IMMEDIATE")
            db.executemany(statement, some)
            db.execute("COMMIT")

    return write


def _by_copy(connection: asyncpg.Connection) -> Writes:
    async def write(kind: Kind, rows: Iterable[Filled], page: int = PAGE) -> None:
        table, columns = TARGETS[kind]
        names = columns.replace('"', "").split(", ")
        await connection.copy_records_to_table(table, columns=names, records=map(row_of, rows))

    return write


def _by_import(store: Store) -> Writes:
    """Some pages at a time: so each of the store's connections has work."""

    async def write(kind: Kind, rows: Iterable[Filled], page: int = PAGE) -> None:
        waiting = pages(rows, page)
        while some := list(islice(waiting, AT_ONCE)):
            await asyncio.gather(*(store.import_rows(kind, each) for each in some))

    return write


def pages(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    """So many at a time."""
    source = iter(rows)
    while page := list(islice(source, size)):
        yield page
