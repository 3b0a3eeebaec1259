"""Rows as they are, from one store to another: statements on the tables that only a copy reads as a whole."""

from collections.abc import Sequence

import msgspec

from tokimori.ports.copying import Copied, Key, Kind
from tokimori.stores.copying import SOURCES, TARGETS, page, row_of, value_of
from tokimori.stores.postgres.connections import Connections

# Outcomes are in the order of the database's own language, unless asked otherwise.
_SOURCES = SOURCES | {
    Kind.ARRIVALS: SOURCES[Kind.ARRIVALS]._replace(columns="incarnation, root, array_to_string(parents, ','), latest"),
    Kind.COUNTS: SOURCES[Kind.COUNTS]._replace(key=("job_id", "incarnation", "day", 'outcome COLLATE "C"')),
}


async def export_rows(db: Connections, kind: Kind, after: Key | None, limit: int) -> list[Copied]:
    behind = after or ()
    statement = page(_SOURCES[kind], [f"${n}" for n, _ in enumerate(behind, 2)], "$1")
    return [value_of(kind, row) for row in await db.rows(statement, limit, *behind)]


async def import_rows(db: Connections, kind: Kind, rows: Sequence[Copied]) -> None:
    """See `Copying.import_rows`. As JSON: the table itself says of which type each value is."""
    table, columns = TARGETS[kind]
    names = columns.replace('"', "").split(", ")
    plain = [dict(zip(names, map(_plain, row_of(row)), strict=True)) for row in rows]
    if kind is Kind.ARRIVALS:
        plain = [row | {"parents": str(row["parents"]).split(",")} for row in plain]
    await db.rows(
        f"""INSERT INTO {table} ({columns}) SELECT {columns} FROM json_populate_recordset(NULL::{table}, $1)
        ON CONFLICT DO NOTHING""",
        msgspec.json.encode(plain).decode(),
    )


def _plain(value: object) -> object:
    return f"\\x{value.hex()}" if isinstance(value, bytes) else value
