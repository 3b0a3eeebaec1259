"""Statements with their values written into them, so that several travel to the server as one packet."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

SHARED = "/*M!100600 LOCK IN SHARE MODE */ /*!80000 FOR SHARE */"
"""Shared lock in the syntax of either server: each skips the other's comment."""
BY_KEY = "FORCE INDEX (PRIMARY)"
"""Hint to use the key: if statistics say that a table is empty, the server would read, and lock, all of it."""
NOW = "CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)"
"""Expression for the server's time."""
_MOST_ROWS, _MOST_CHARACTERS = 500, 2**17


def sql(text: str, *values: object) -> str:
    """Return the statement with each `%s` replaced by a value: a tuple stands for `(a, b)`, a list for `a, b`."""
    return text % tuple(_literal(value) for value in values)


class Large(str):
    """Statement with one long row: its largest value, and the place of that."""

    field: str
    size: int


def insert(verb: str, table: str, columns: str, rows: Sequence[Sequence[object]], rest: str = "") -> Iterator[str]:
    """Return `INSERT` or `REPLACE` statements of rows, each short enough for any server; none without rows."""
    piece: list[str] = []
    length = 0
    for row in rows:
        values = _literal(tuple(row))
        if piece and (len(piece) == _MOST_ROWS or length + len(values) > _MOST_CHARACTERS):
            yield f"{verb} INTO {table} ({columns}) VALUES {', '.join(piece)} {rest}"
            piece, length = [], 0
        if len(values) > _MOST_CHARACTERS:
            yield _large(f"{verb} INTO {table} ({columns}) VALUES {values} {rest}", columns, row)
        else:
            piece.append(values)
            length += len(values)
    if piece:
        yield f"{verb} INTO {table} ({columns}) VALUES {', '.join(piece)} {rest}"


def _large(text: str, columns: str, row: Sequence[object]) -> Large:
    statement = Large(text)
    texts = (value if isinstance(value, bytes) else str(value).encode(errors="replace") for value in row)
    statement.size, statement.field = max(zip(map(len, texts), columns.replace('"', "").split(", "), strict=True))
    return statement


def delete(table: str, ids: Iterable[Hashable], key: str = "id") -> Iterator[str]:
    """Return the statement that deletes rows by the beginning of their primary keys."""
    keys = list(ids)
    if keys:
        yield sql(f"DELETE t FROM {table} t {BY_KEY} WHERE t.{key} IN (%s)", keys)


def _literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case str():
            # No more than the server asks for: the driver's own takes 50 times as long for the double quotes of a JSON
            return "'" + value.replace("\\", r"\\").replace("'", r"\'") + "'"
        case int():
            return str(int(value))
        case bytes():
            return f"x'{value.hex()}'"
        case tuple():
            return f"({', '.join(map(_literal, value))})"
        case list():
            return ", ".join(map(_literal, value)) if value else "NULL"
        case _:
            raise TypeError(type(value))


class Answer(NamedTuple):
    """Answer of the server to one statement: rows, or how many it changed."""

    rows: list[tuple[Any, ...]]
    changed: int
