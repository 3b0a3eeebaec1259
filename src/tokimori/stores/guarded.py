"""Changes that take effect only while the store holds a document, or does not: see `Store.under` and `shut_while`."""

from collections.abc import Callable
from copy import copy
from typing import NamedTuple, Self

from tokimori.errors import StoreError
from tokimori.model.document import Document
from tokimori.stores.rules.errors import overtaken


class Shut(NamedTuple):
    """The document while which nothing is changed, and the error for whoever tries."""

    document: Document
    error: Callable[[], StoreError]


class Guarded:
    """A store, or its connections with a server, which looks at `guard` and `shut` in each transaction, if it has them.

    Where a look costs a round trip, one for `shut` is believed for `looks_every` seconds.
    """

    looks_every = 0.0
    guard: Document | None = None
    shut: Shut | None = None

    def under(self, guard: Document) -> Self:
        """See `Store.under`."""
        other = copy(self)
        other.guard = guard
        return other

    def shut_while(self, document: Document, error: Callable[[], StoreError]) -> None:
        """See `Store.shut_while`."""
        self.shut = Shut(document, error)

    def check(self, holds: Callable[[Document], object]) -> None:
        """Refuse a change by what the store holds. Raises `Overtaken` and `StoreError`."""
        if self.guard is not None and not holds(self.guard):
            raise overtaken(self.guard)
        if self.shut is not None and holds(self.shut.document):
            raise self.shut.error()
