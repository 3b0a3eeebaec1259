"""Rows as they are, from one store to another: statements on the tables that only a copy reads as a whole."""

import sqlite3
from collections.abc import Sequence

from tokimori.ports.copying import Copied, Key, Kind
from tokimori.stores.copying import SOURCES, TARGETS, page, row_of, value_of
from tokimori.stores.rows import marks


def export_rows(db: sqlite3.Connection, kind: Kind, after: Key | None, limit: int) -> list[Copied]:
    behind = after or ()
    statement = page(SOURCES[kind], [f"?{n}" for n, _ in enumerate(behind, 2)], "?1")
    rows = db.execute(statement, (limit, *behind))
    return [value_of(kind, row) for row in rows]


def import_rows(db: sqlite3.Connection, kind: Kind, rows: Sequence[Copied]) -> None:
    table, columns = TARGETS[kind]
    values = [row_of(row) for row in rows]
    db.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks(columns)}) ON CONFLICT DO NOTHING", values)
