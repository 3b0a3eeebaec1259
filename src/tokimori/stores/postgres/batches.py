"""Arrays of many rows as parameters of one statement, and batches without conflicts between rows."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from tokimori.stores.postgres.connections import Row

T = TypeVar("T")


def parameters(types: Sequence[str], first: int = 1) -> str:
    """Return the parameters of a statement that have these types, numbered from `first`, as `columns` gives them.

    asyncpg knows only arrays of texts. For others it would ask the server in each new session (15 ms), and pack them
    element by element: so they go as text.
    """
    return ", ".join(f"${n}{_detour(type_)}::{type_}" for n, type_ in enumerate(types, first))


def _detour(type_: str) -> str:
    if not type_.endswith("[]") or type_ == "text[]":
        return ""
    return "::text[]" if type_ == "bytea[]" else "::text"


def columns(rows: Sequence[Row], types: Sequence[str], *, once: bool = False) -> list[object]:
    """Return an array for each column, of one element if all are the same and `once`; None if all are None."""
    if not rows:
        return [[] if "text[]" in (type_, _detour(type_)[2:]) else "{}" for type_ in types]
    return [_array(values, type_, once) for values, type_ in zip(zip(*rows, strict=True), types, strict=True)]


def _array(values: Sequence[Any], type_: str, once: bool) -> object:
    if (once or values[0] is None) and values.count(values[0]) == len(values):
        values = values[:1]
        if values[0] is None:
            return None
    if type_ == "text[]":
        return values
    if type_ == "bytea[]":
        return [None if value is None else f"\\x{value.hex()}" for value in values]
    return packed(values).replace("None", "NULL")


def packed(values: Iterable[object]) -> str:
    """Return the text of an array of numbers or ids, in which nothing needs quotes."""
    return f"{{{','.join(map(str, values))}}}"


def rounds(items: Sequence[T], key: Callable[[T], Hashable]) -> Iterator[list[T]]:
    """Yield the items in batches of distinct keys; those of the same key stay in order. Mostly there is one batch."""
    left = list(items)
    while left:
        batch: dict[Hashable, T] = {}
        left = [item for item in left if batch.setdefault(key(item), item) is not item]
        yield list(batch.values())
