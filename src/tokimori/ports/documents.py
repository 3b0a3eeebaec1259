"""Interface of documents in the shared database. Every method is one transaction.

Calendars are documents, and so are all things that only people change and the engine never reads. Stores do not know
the kinds. `tokimori.model.document` checks kinds and names, the service checks the texts.
"""

from typing import Protocol

from tokimori.model.document import Document


class Documents(Protocol):
    """Texts by kind and name. Versions are compared, so that two people never overwrite each other's change."""

    async def put_document(self, document: Document, replaces: int | None) -> None:
        """Store the document in place of version `replaces`; None: it must be new.

        The same document may be put again, after a lost reply. Raises `Conflict` for another version, or none.
        """
        ...

    async def get_document(self, kind: str, name: str) -> Document:
        """Return the document of that kind and name. Raises `NotFound`."""
        ...

    async def list_documents(self, kind: str, *, prefix: str = "", after: str = "", limit: int = 100) -> list[Document]:
        """Return documents whose names begin with `prefix` and are greater than `after`, by the bytes of names.

        Fewer than `limit` means that there are no more.
        """
        ...

    async def delete_document(self, kind: str, name: str, version: int) -> None:
        """Delete this version; do nothing if the document is gone. Raises `Conflict` for another version."""
        ...
