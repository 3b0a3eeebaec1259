"""Columns and tables of copies: the same for all stores with tables."""

from collections.abc import Sequence
from typing import NamedTuple, assert_never

from tokimori.model.document import Document
from tokimori.model.run import Attempt, Output, Run
from tokimori.model.transitions import ENDS
from tokimori.ports.copying import Arrival, BareSemaphore, Copied, DeletedJob, DeletedSkip, JobSkip, Kind, PrunedCount
from tokimori.stores import rows
from tokimori.stores.rows import Row

COUNT = "job_id, incarnation, day, outcome, count"


class RowSource(NamedTuple):
    """Source of the rows of a kind: the select without the condition on the key. `rest` follows that."""

    columns: str
    table: str
    key: tuple[str, ...]
    rest: str = ""


SEMAPHORE = 'name, "limit", granted, rate'

SOURCES = {
    Kind.DOCUMENTS: RowSource(rows.DOCUMENT, "tokimori_documents", ("kind", "name")),
    Kind.SEMAPHORES: RowSource(SEMAPHORE, "tokimori_semaphores", ("name",)),
    Kind.SKIPS: RowSource(
        f"j.id, s.incarnation, {rows.prefixed(rows.SKIP, 's')}",
        "tokimori_skips s JOIN tokimori_jobs j ON j.incarnation = s.incarnation",
        ("j.id", "s.first"),
    ),
    Kind.DELETED_JOBS: RowSource("incarnation, job_id", "tokimori_deleted_jobs", ("incarnation",)),
    Kind.DELETED_SKIPS: RowSource(
        f"s.incarnation, {rows.prefixed(rows.SKIP, 's')}",
        "tokimori_skips s JOIN tokimori_deleted_jobs d ON d.incarnation = s.incarnation",
        ("s.incarnation", "s.first"),
    ),
    Kind.HISTORY: RowSource(rows.RUN, "tokimori_history", ("id",)),
    Kind.ATTEMPTS: RowSource(rows.ATTEMPT, "tokimori_attempts", ("run_id", "number")),
    Kind.OUTPUTS: RowSource(rows.OUTPUT, "tokimori_outputs", ("run_id", "attempt")),
    Kind.ARRIVALS: RowSource(rows.ARRIVAL, "tokimori_arrivals", ("incarnation", "root")),
    Kind.RUNS: RowSource(rows.RUN, "tokimori_runs", ("id",)),
    Kind.COUNTS: RowSource(COUNT, "tokimori_counts", ("job_id", "incarnation", "day", "outcome")),
}


def page(source: RowSource, after: Row) -> tuple[str, Row]:
    """Return the statement that reads so many rows behind that key (if any), and its values before the limit."""
    condition, values = _is_behind(source.key, after) if after else ("1 = 1", ())
    order = ", ".join(source.key)
    return (
        f"SELECT {source.columns} FROM {source.table} WHERE {condition} {source.rest} ORDER BY {order} LIMIT %s",
        values,
    )


def _is_behind(key: Sequence[str], after: Row) -> tuple[str, Row]:
    """Return the condition for rows behind these values, in a form for which every database uses the index."""
    column, *columns = key
    if not columns:
        return f"{column} > %s", after
    rest, values = _is_behind(columns, after[1:])
    return f"{column} >= %s AND ({column} > %s OR {rest})", (after[0], after[0], *values)


def value_of(kind: Kind, row: Row) -> Copied:
    """Return the value of the columns of the kind's source."""
    match kind:
        case Kind.DOCUMENTS:
            return rows.document_of(row)
        case Kind.SEMAPHORES:
            return BareSemaphore(name=row[0], limit=row[1], granted=row[2], rate=row[3])
        case Kind.SKIPS:
            return JobSkip(job_id=row[0], incarnation=row[1], skip=rows.skip_of(row[2:]))
        case Kind.DELETED_JOBS:
            return DeletedJob(incarnation=row[0], job_id=row[1])
        case Kind.DELETED_SKIPS:
            return DeletedSkip(incarnation=row[0], skip=rows.skip_of(row[1:]))
        case Kind.HISTORY | Kind.RUNS:
            return rows.run_of(row)
        case Kind.ATTEMPTS:
            return rows.attempt_of(row)
        case Kind.OUTPUTS:
            return rows.output_of(row)
        case Kind.ARRIVALS:
            return rows.arrival_of(row)
        case Kind.COUNTS:
            return PrunedCount(job_id=row[0], incarnation=row[1], day=row[2], outcome=row[3], count=row[4])
        case Kind.JOBS | Kind.PAUSES:
            raise ValueError(kind)
        case _:
            assert_never(kind)


_SKIPS = ("tokimori_skips", f"incarnation, {rows.SKIP}")
TARGETS = {kind: (source.table, source.columns) for kind, source in SOURCES.items()} | {
    Kind.SKIPS: _SKIPS,
    Kind.DELETED_SKIPS: _SKIPS,
    Kind.OUTPUTS: ("tokimori_outputs", f"{rows.OUTPUT}, settled"),
    Kind.HISTORY: ("tokimori_history", f"{rows.RUN}, written"),
}
"""Targets of rows by kind: the table, and its columns."""


def row_of(value: Copied) -> Row:
    """Return the columns of the kind's target. A copied output does not grow any more; notes may."""
    match value:
        case Document():
            return rows.document_row(value)
        case BareSemaphore():
            return value.name, value.limit, value.granted, value.rate
        case JobSkip() | DeletedSkip():
            return value.incarnation, *rows.skip_row(value.skip)
        case Run():
            return rows.run_row(value) if value.state not in ENDS else (*rows.run_row(value), 0)
        case Attempt():
            return rows.attempt_row(value)
        case DeletedJob():
            return value.incarnation, value.job_id
        case Output():
            return *rows.output_row(value), value.attempt > 0
        case Arrival():
            return rows.arrival_row(value)
        case PrunedCount():
            return value.job_id, value.incarnation, value.day, value.outcome, value.count
        case _:
            assert_never(value)
