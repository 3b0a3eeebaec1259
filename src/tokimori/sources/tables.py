"""From the URL of a database to its tables, read page by page."""

import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from tokimori.errors import InvalidInput, StoreError
from tokimori.sources.session import ALLOWED, Row, SourceSession

PAGE = 1_000
"""Rows that are read at once."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,62}\Z", re.ASCII)


class Owned(NamedTuple):
    """A table whose rows belong to those of another one: by which column, and in the order of which key."""

    table: str
    column: str
    key: str


class Tables:
    """The tables of a database. Names of tables and columns must have been checked: they are written as they are."""

    def __init__(self, session: SourceSession) -> None:
        self.name = session.name
        self._session = session

    async def names(self) -> frozenset[str]:
        """Return the names of tables. Raises `StoreError`."""
        return frozenset(str(row["name"]) for row in await self._session.rows(self._session.dialect.names))

    async def page(self, table: str, key: str, after: object) -> Sequence[Row]:
        """Return rows by key, from the first one behind `after` (None: from the start). Raises `StoreError`."""
        return await self._page(table, key, (), (), after)

    async def of(self, owned: Owned, owners: Sequence[object], after: object) -> Sequence[Row]:
        """Return the rows that belong to these owners, as `page` does. Raises `StoreError`."""
        marks = ", ".join(map(self._session.dialect.mark, range(1, len(owners) + 1)))
        return await self._page(owned.table, owned.key, (f"{self._quoted(owned.column)} IN ({marks})",), owners, after)

    async def _page(
        self, table: str, key: str, terms: Sequence[str], values: Sequence[object], after: object
    ) -> Sequence[Row]:
        column = self._quoted(key)
        if after is not None:
            terms, values = (*terms, f"{column} > {self._session.dialect.mark(len(values) + 1)}"), (*values, after)
        where = f" WHERE {' AND '.join(terms)}" if terms else ""
        text = f"SELECT * FROM {self._quoted(table)}{where} ORDER BY {column} LIMIT {PAGE}"
        return await self._session.rows(text, *values)

    def _quoted(self, name: str) -> str:
        return f"{self._session.dialect.quote}{name}{self._session.dialect.quote}"


@asynccontextmanager
async def opened(source: str) -> AsyncIterator[Tables]:
    """Yield the tables of a database, which is opened for reading. Raises `InvalidInput` and `StoreError`."""
    session = await _open(source)
    try:
        yield Tables(session)
    finally:
        await session.close()


async def _open(source: str) -> SourceSession:
    try:
        return await _session_of(source)
    except ModuleNotFoundError as fault:
        package = (fault.name or "").partition(".")[0]
        extra = "postgres" if package == "asyncpg" else "mysql"
        message = f"source: this database needs the package {package}: pip install 'tokimori[{extra}]'"
        raise StoreError(message, field="source", value=extra) from None


async def _session_of(source: str) -> SourceSession:
    scheme, colon, rest = source.partition("://")
    kind, driver, _ = scheme.lower().partition("+")  # SQLAlchemy's postgresql+psycopg2://
    if driver:
        source, scheme = f"{kind}://{rest}", kind
    match kind:
        case _ if not colon:
            from tokimori.sources.sqlite import open_sqlite  # noqa: PLC0415  one of three is needed

            return await open_sqlite(Path(source))
        case "sqlite":
            from tokimori.sources.sqlite import open_sqlite  # noqa: PLC0415

            return await open_sqlite(_path_of(source))
        case "postgresql" | "postgres":
            from tokimori.sources.postgres import open_postgres  # noqa: PLC0415

            return await open_postgres(source)
        case "mysql" | "mariadb" | "mysql2":
            from tokimori.sources.mysql import open_mysql  # noqa: PLC0415

            return await open_mysql(f"mysql{source[len(scheme) :]}")
        case _:
            message = f"source: {scheme}://… is no database that can be read"
            raise InvalidInput(message, field="source", value=scheme, allowed=ALLOWED)


def _path_of(url: str) -> Path:
    """Return the file that a URL names. Raises `InvalidInput`.

    Sequel's `sqlite://blog.db` is a relative path, and so is SQLAlchemy's `sqlite:///blog.db` if that file is here.
    """
    try:
        parts = urlsplit(url)
    except ValueError as fault:
        raise InvalidInput(f"source: it is no URL: {fault}", field="source", allowed=ALLOWED) from None
    path = Path(unquote(parts.netloc + parts.path))
    relative = Path(str(path).lstrip("/"))
    return relative if relative.is_file() and not path.exists() else path


def check_table(name: str) -> str:
    """Return the name of a table, if it is one. Raises `InvalidInput`."""
    if _NAME.match(name) is None:
        allowed = "letters, digits, _ and $, not beginning with a digit"
        raise InvalidInput(f"table: {name!r} is no table's name", field="table", value=name, allowed=allowed)
    return name


async def check_there(tables: Tables, wanted: Sequence[str]) -> None:
    """Raise `StoreError` if the database lacks one of these tables."""
    there = await tables.names()
    if missing := [name for name in wanted if name not in there]:
        found = f"it has {', '.join(sorted(there)[:20])}" if there else "it has no tables"
        raise StoreError(
            f"source {tables.name} has no table {', '.join(missing)}: {found}",
            field="source",
            value=tables.name,
            allowed=f"a database with {', '.join(wanted)}",
        )


async def pages(tables: Tables, table: str, key: str = "id") -> AsyncIterator[Sequence[Row]]:
    """Yield all rows of a table, a thousand at a time, in the order of their key. Raises `StoreError`."""
    after: object = None
    while rows := await tables.page(table, key, after):
        yield rows
        if len(rows) < PAGE:
            return
        after = _last(tables, table, key, rows)


async def belonging(tables: Tables, owned: Owned, owners: Sequence[object], most: int) -> Sequence[Row]:
    """Return the rows that belong to these owners, in the order of their key; of one owner at most so many.

    Raises `StoreError`.
    """
    found: list[Row] = []
    counts: Counter[object] = Counter()
    after: object = None
    while owners and (rows := await tables.of(owned, owners, after)):
        for row in rows:
            counts[row[owned.column]] += 1
            if counts[row[owned.column]] <= most:
                found.append(row)
        if len(rows) < PAGE:
            break
        after = _last(tables, owned.table, owned.key, rows)
    return found


def _last(tables: Tables, table: str, key: str, rows: Sequence[Row]) -> object:
    """Return the key behind which the next page begins."""
    if (last := rows[-1].get(key)) is None:
        message = f"source {tables.name}: a thousand rows of {table} have no {key}"
        raise StoreError(message, field=f"{table}.{key}", allowed=f"a {key} in each row")
    return last
