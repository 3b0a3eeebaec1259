"""Tables of an SQLite file."""

import asyncio
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tokimori.errors import StoreError
from tokimori.sources.session import Row, SqlDialect

PATIENCE = 5.0
"""Seconds to wait for a lock of others."""
_WAL = b"\x02\x02"
_DIALECT = SqlDialect('"', lambda _: "?", "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")


class SqliteSession:
    """See `SourceSession`. Each question is asked in a thread, one at a time."""

    dialect = _DIALECT

    def __init__(self, name: str, connection: sqlite3.Connection) -> None:
        self.name = name
        self._connection = connection

    async def close(self) -> None:
        """See `SourceSession.close`."""
        self._connection.close()

    async def rows(self, text: str, *values: object) -> Sequence[Row]:
        """See `SourceSession.rows`."""
        try:
            return await asyncio.to_thread(self._fetch, text, values)
        except (sqlite3.Error, UnicodeEncodeError) as fault:
            raise _fault(self.name, fault) from None

    def _fetch(self, text: str, values: tuple[Any, ...]) -> Sequence[Row]:
        cursor = self._connection.execute(text, values)
        columns = [each[0] for each in cursor.description]
        return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]


async def open_sqlite(path: Path) -> SqliteSession:
    """Return the tables of a file. Raises `StoreError`."""
    try:
        connection = await asyncio.to_thread(_connect, path)
    except (sqlite3.Error, OSError) as fault:
        raise _fault(str(path), fault) from None
    return SqliteSession(str(path), connection)


def _connect(path: Path) -> sqlite3.Connection:
    """Open the database. Texts that are not UTF-8 are left for the translator to refuse.

    Who reads a database with a write-ahead log would make the log's files beside it. If they are not there nobody
    has it open, and it is read as a file that does not change.
    """
    if not path.is_file():
        why = "is no file" if path.exists() else "does not exist"
        allowed = "an SQLite database, or another source that `--help` names"
        raise StoreError(f"source {path} {why}", field="source", value=str(path), allowed=allowed)
    with path.open("rb") as file:
        is_logged = file.read(20)[18:20] == _WAL
    alone = is_logged and not path.with_name(f"{path.name}-wal").exists()
    uri = f"file://{quote(str(path.absolute()))}?mode=ro{'&immutable=1' if alone else ''}"
    connection = sqlite3.connect(uri, uri=True, timeout=PATIENCE, check_same_thread=False, isolation_level=None)
    connection.text_factory = _text
    return connection


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _fault(name: str, fault: Exception) -> StoreError:
    locked = "locked" in str(fault) or "busy" in str(fault)
    hint = ": another program writes it; try again when it does not" if locked else ""
    return StoreError(f"source {name} can't be read: {fault}{hint}", field="source", value=name)
