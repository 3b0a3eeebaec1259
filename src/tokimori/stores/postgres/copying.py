"""Rows as they are, from one store to another: statements on the tables that only a copy reads as a whole."""

from collections.abc import Sequence

import msgspec

from tokimori.ports.copying import Copied, Kind
from tokimori.stores.copying import SOURCES, TARGETS, row_of
from tokimori.stores.postgres.connections import PostgresConnections

# Outcomes are in the order of the database's own language, unless asked otherwise.
SOURCES_HERE = SOURCES | {
    Kind.ARRIVALS: SOURCES[Kind.ARRIVALS]._replace(columns="incarnation, root, array_to_string(parents, ','), latest"),
    Kind.COUNTS: SOURCES[Kind.COUNTS]._replace(key=("job_id", "incarnation", "day", 'outcome COLLATE "C"')),
}


async def import_rows(db: PostgresConnections, kind: Kind, rows: Sequence[Copied]) -> None:
    """See `Copying.import_rows`. As JSON: the table itself says of which type each value is."""
    table, columns = TARGETS[kind]
    names = columns.replace('"', "").split(", ")
    values = ([f"\\x{each.hex()}" if isinstance(each, bytes) else each for each in row_of(row)] for row in rows)
    plain = [dict(zip(names, each, strict=True)) for each in values]
    if kind is Kind.ARRIVALS:
        plain = [row | {"parents": str(row["parents"]).split(",")} for row in plain]
    await db.rows(
        f"""INSERT INTO {table} ({columns}) SELECT {columns} FROM json_populate_recordset(NULL::{table}, $1)
        ON CONFLICT DO NOTHING""",
        msgspec.json.encode(plain).decode(),
    )
