"""Many rows as the arrays that one statement takes, and batches in which no row meets another."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar

from tokimori.stores.postgres.connections import Row

T = TypeVar("T")


def columns(rows: Sequence[Row], number: int) -> list[Sequence[object]]:
    """So many arrays, one for each column."""
    return list(zip(*rows, strict=True)) if rows else [[]] * number


def rounds(items: Sequence[T], key: Callable[[T], Hashable]) -> Iterator[list[T]]:
    """The items in batches of distinct keys; those of the same key stay in order. Mostly there is one batch."""
    left = list(items)
    while left:
        batch: dict[Hashable, T] = {}
        left = [item for item in left if batch.setdefault(key(item), item) is not item]
        yield list(batch.values())
