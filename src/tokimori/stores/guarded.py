"""Changes that take effect only while the store holds one version of a document: see `Store.under`."""

from copy import copy
from typing import Self

from tokimori.model.document import Document


class Guarded:
    """A store, or its connections with a server, which compares `guard` in each transaction, if there is one."""

    guard: Document | None = None

    def under(self, guard: Document) -> Self:
        """See `Store.under`."""
        other = copy(self)
        other.guard = guard
        return other
