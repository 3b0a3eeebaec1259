"""Statements with their values written into them, so that several travel to the server as one packet."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from asyncmy.converters import escape_string

SHARED = "/*M!100600 LOCK IN SHARE MODE */ /*!80000 FOR SHARE */"
"""A lock shared with others that read, in the words of either server: each skips the other's comment."""
BY_KEY = "FORCE INDEX (PRIMARY)"
"""While statistics say that a table is empty the server would rather read, and lock, the whole of it."""
_MOST_ROWS = 500


def sql(text: str, *values: object) -> str:
    """The statement with each `%s` replaced by a value: a tuple stands for `(a, b)`, a list for `a, b`."""
    return text % tuple(_literal(value) for value in values)


def insert(verb: str, table: str, columns: str, rows: Sequence[Sequence[object]], rest: str = "") -> Iterator[str]:
    """`INSERT` or `REPLACE` of rows, a few hundred a statement; none where there are no rows."""
    for first in range(0, len(rows), _MOST_ROWS):
        values = [tuple(row) for row in rows[first : first + _MOST_ROWS]]
        yield sql(f"{verb} INTO {table} ({columns}) VALUES %s {rest}", values)


def delete(table: str, ids: Iterable[Hashable], key: str = "id") -> Iterator[str]:
    """Remove rows by what their primary keys begin with."""
    keys = list(ids)
    if keys:
        yield sql(f"DELETE t FROM {table} t {BY_KEY} WHERE t.{key} IN (%s)", keys)


def _literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case str():
            return f"'{escape_string(str(value))}'"
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
    """What the server says to one statement: rows, or how many it changed."""

    rows: list[tuple[Any, ...]]
    changed: int
