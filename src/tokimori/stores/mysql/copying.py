"""Rows as they are, from one store to another: statements on the tables that only a copy reads as a whole."""

from collections.abc import Sequence

from tokimori.ports.copying import Copied, Kind
from tokimori.stores.copying import TARGETS, row_of
from tokimori.stores.mysql.sessions import Transaction
from tokimori.stores.mysql.statements import insert


async def import_rows(transaction: Transaction, kind: Kind, rows: Sequence[Copied]) -> None:
    table, columns = TARGETS[kind]
    first = columns.partition(",")[0]
    same = f"ON DUPLICATE KEY UPDATE {table}.{first} = {table}.{first}"
    await transaction.commit(*insert("INSERT", table, columns, [row_of(row) for row in rows], same))
