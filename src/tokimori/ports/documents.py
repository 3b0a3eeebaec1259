"""What services ask of the shared database for documents. Every method is one transaction.

Calendars are documents. So is whatever the engine never asks for and only people change: a kind is a word, which the
stores need not know. Kinds and names are checked by `tokimori.model.document`, and what the texts say by the service.
"""

from typing import Protocol

from tokimori.model.document import Document


class Documents(Protocol):
    """Texts by kind and name. Two who change one at the same time don't overwrite each other: versions are compared."""

    async def put_document(self, document: Document, replaces: int | None) -> None:
        """Keep it in place of the version that it `replaces`; None: there is no document of that name yet.

        Put again it stays as it is, as a reply may have been lost. Raises `Conflict` where the store has another
        version, or none.
        """
        ...

    async def get_document(self, kind: str, name: str) -> Document:
        """Raises `NotFound`."""
        ...

    async def list_documents(self, kind: str, *, prefix: str = "", after: str = "", limit: int = 100) -> list[Document]:
        """Those whose names begin with `prefix`, by name (in the order of their bytes), greater than `after`.

        Fewer than `limit`: there are no more.
        """
        ...

    async def delete_document(self, kind: str, name: str, version: int) -> None:
        """Forget this version; no document of that name is no error. Raises `Conflict` where it has another version."""
        ...
