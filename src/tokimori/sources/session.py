"""Questions to somebody else's database."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from tokimori.errors import StoreError

Row = Mapping[str, object]
"""A row, by column."""
ALLOWED = "the path of an SQLite file, sqlite:///PATH, postgresql://USER:PASSWORD@HOST/DATABASE or mysql://…"


class SqlDialect(NamedTuple):
    """Dialect of a database: quotes around names, the nth parameter, and the list of tables."""

    quote: str
    mark: Callable[[int], str]
    names: str


class SourceSession(Protocol):
    """A connection that can't write. `name` is what people are shown: all but the password."""

    name: str
    dialect: SqlDialect

    async def rows(self, text: str, *values: object) -> Sequence[Row]:
        """Return the rows of a statement. Raises `StoreError`."""
        ...

    async def close(self) -> None:
        """End it."""
        ...


def as_source(fault: StoreError, name: str) -> StoreError:
    """Return the error of a driver, which speaks of a store, as one of the source."""
    message = fault.message.removeprefix(f"store {name}")
    return StoreError(f"source {name}{message}", field="source", value=name, allowed=ALLOWED)
