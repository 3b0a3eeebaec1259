"""Rows as they are, from one store to another: statements on the tables that only a copy reads as a whole."""

import sqlite3
from collections.abc import Sequence

from tokimori.ports.copying import Copied, Kind
from tokimori.stores.copying import TARGETS, row_of
from tokimori.stores.rows import marks


def import_rows(db: sqlite3.Connection, kind: Kind, rows: Sequence[Copied]) -> None:
    table, columns = TARGETS[kind]
    values = [row_of(row) for row in rows]
    db.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks(columns)}) ON CONFLICT DO NOTHING", values)
