"""Which columns of which tables a copy reads and writes: the same for all with tables."""

from typing import NamedTuple, assert_never

from tokimori.model.run import Attempt, Output, Run
from tokimori.ports.copying import Arrival, Copied, JobSkip, Key, Kind
from tokimori.stores.rows import (
    ATTEMPT,
    OUTPUT,
    RUN,
    SKIP,
    Row,
    attempt_of,
    attempt_row,
    output_of,
    output_row,
    prefixed,
    run_of,
    run_row,
    skip_of,
    skip_row,
)


class Source(NamedTuple):
    """Where the rows of a kind are read: all but the condition on the key. `rest` stands behind it."""

    columns: str
    table: str
    key: tuple[str, ...]
    rest: str = ""


SOURCES = {
    Kind.SKIPS: Source(
        f"j.id, s.incarnation, {prefixed(SKIP, 's')}",
        "tokimori_skips s JOIN tokimori_jobs j ON j.incarnation = s.incarnation",
        ("j.id", "s.first"),
    ),
    Kind.HISTORY: Source(RUN, "tokimori_history", ("id",)),
    Kind.ATTEMPTS: Source(ATTEMPT, "tokimori_attempts", ("run_id", "number")),
    Kind.OUTPUTS: Source(OUTPUT, "tokimori_outputs", ("run_id", "attempt")),
    Kind.ARRIVALS: Source("incarnation, root, parents", "tokimori_arrivals", ("incarnation", "root")),
    Kind.RUNS: Source(RUN, "tokimori_runs", ("id",)),
}


def page(source: Source, after: Key | None, first: str, last: str, limit: str) -> str:
    """The statement that reads a page; the texts stand for the first value of the key, its last one, and the limit.

    A pair is compared in the words that every database serves by an index.
    """
    condition = "1 = 1"
    if after is not None and len(source.key) == 1:
        condition = f"{source.key[0]} > {first}"
    elif after is not None:
        condition = f"{source.key[0]} >= {first} AND ({source.key[0]} > {first} OR {source.key[1]} > {last})"
    order = ", ".join(source.key)
    return f"SELECT {source.columns} FROM {source.table} WHERE {condition} {source.rest} ORDER BY {order} LIMIT {limit}"


def value_of(kind: Kind, row: Row) -> Copied:
    """From the columns of the kind's source."""
    match kind:
        case Kind.SKIPS:
            return JobSkip(job_id=row[0], incarnation=row[1], skip=skip_of(row[2:]))
        case Kind.HISTORY | Kind.RUNS:
            return run_of(row)
        case Kind.ATTEMPTS:
            return attempt_of(row)
        case Kind.OUTPUTS:
            return output_of(row)
        case Kind.ARRIVALS:
            return Arrival(incarnation=row[0], root=row[1], parents=tuple(sorted(row[2].split(","))))
        case Kind.JOBS | Kind.CALENDARS:
            raise ValueError(kind)
        case _:
            assert_never(kind)


class Target(NamedTuple):
    """Where the rows of a kind are written."""

    table: str
    columns: str


TARGETS = {
    Kind.SKIPS: Target("tokimori_skips", f"incarnation, {SKIP}"),
    Kind.HISTORY: Target("tokimori_history", RUN),
    Kind.ATTEMPTS: Target("tokimori_attempts", ATTEMPT),
    Kind.OUTPUTS: Target("tokimori_outputs", f"{OUTPUT}, settled"),
    Kind.ARRIVALS: Target("tokimori_arrivals", "incarnation, root, parents"),
    Kind.RUNS: Target("tokimori_runs", RUN),
}


def row_of(value: Copied) -> Row:
    """The columns of the kind's target. Nobody writes on to an output that was copied: it is settled."""
    match value:
        case JobSkip():
            return value.incarnation, *skip_row(value.skip)
        case Run():
            return run_row(value)
        case Attempt():
            return attempt_row(value)
        case Output():
            return *output_row(value), True
        case Arrival():
            return value.incarnation, value.root, ",".join(value.parents)
        case _:
            assert_never(value)
