"""Rows as they are, from one store to another: statements on the tables that only a copy reads as a whole."""

from collections.abc import Sequence

from tokimori.ports.copying import Copied, Key, Kind
from tokimori.stores.copying import SOURCES, TARGETS, page, row_of, value_of
from tokimori.stores.mysql.sessions import Sessions, Transaction
from tokimori.stores.mysql.statements import insert, sql


async def export_rows(db: Sessions, kind: Kind, after: Key | None, limit: int) -> list[Copied]:
    behind = [sql("%s", value) for value in after or ()]
    rows = await db.rows(page(SOURCES[kind], behind, str(limit)))
    return [value_of(kind, row) for row in rows]


async def import_rows(transaction: Transaction, kind: Kind, rows: Sequence[Copied]) -> None:
    table, columns = TARGETS[kind]
    first = columns.partition(",")[0]
    same = f"ON DUPLICATE KEY UPDATE {table}.{first} = {table}.{first}"
    await transaction.commit(*insert("INSERT", table, columns, [row_of(row) for row in rows], same))
