"""Guarded changes, which take effect only with or without a certain document: see `Store.under` and `shut_while`."""

from collections.abc import Callable
from copy import copy
from typing import NamedTuple, Self

from tokimori.errors import StoreError
from tokimori.model.document import Document
from tokimori.stores.rules.errors import overtaken


class Shut(NamedTuple):
    """Document that forbids changes while it exists, and the error for a caller that tries."""

    document: Document
    error: Callable[[], StoreError]


class Guarded:
    """Store, or connections with a server, that check `guard` and `shut`, if set, in each transaction.

    If a check costs a round trip, one for `shut` holds for `looks_every` seconds.
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
        """Check if the documents allow a change. Raises `Overtaken` and `StoreError`."""
        if self.guard is not None and not holds(self.guard):
            raise overtaken(self.guard)
        if self.shut is not None and holds(self.shut.document):
            raise self.shut.error()
