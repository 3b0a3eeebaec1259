"""Rows as they are, from one store to another: statements on the tables that only a copy reads as a whole."""

from collections.abc import Sequence

from tokimori.ports.copying import Copied, Key, Kind
from tokimori.stores.copying import SOURCES, TARGETS, page, row_of, value_of
from tokimori.stores.mysql.part import Part
from tokimori.stores.mysql.sessions import Transaction
from tokimori.stores.mysql.statements import insert, sql


class MysqlCopying(Part):
    """See `tokimori.ports.copying.Copying`."""

    async def export_rows(self, kind: Kind, after: Key | None, limit: int) -> list[Copied]:
        behind = [sql("%s", value) for value in after or ()]
        rows = await self._db.rows(page(SOURCES[kind], behind, str(limit)))
        return [value_of(kind, row) for row in rows]

    async def import_rows(self, kind: Kind, rows: Sequence[Copied]) -> None:
        table, columns = TARGETS[kind]
        first = columns.partition(",")[0]
        same = f"ON DUPLICATE KEY UPDATE {table}.{first} = {table}.{first}"

        async def write(transaction: Transaction) -> None:
            await transaction.commit(*insert("INSERT", table, columns, [row_of(row) for row in rows], same))

        await self._db.transact(write)
