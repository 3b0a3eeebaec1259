"""Documents in the shared database, as services ask for them. Every method is one transaction.

Calendars are documents, and so is all that only people change and the engine never asks for. A kind is a word that the
stores need not know. `tokimori.model.document` checks kinds and names, the service checks what the texts say.
"""

from typing import Protocol

from tokimori.model.document import Document


class Documents(Protocol):
    """Texts by kind and name. Versions are compared, so that two people never overwrite each other's change."""

    async def put_document(self, document: Document, replaces: int | None) -> None:
        """Keep the document in place of version `replaces`; None: there must be none of that name yet.

        The same document may be put again, as a reply may have been lost. Raises `Conflict` where the store has another
        version, or none.
        """
        ...

    async def get_document(self, kind: str, name: str) -> Document:
        """Return the document of that kind and name. Raises `NotFound`."""
        ...

    async def list_documents(self, kind: str, *, prefix: str = "", after: str = "", limit: int = 100) -> list[Document]:
        """Documents whose names begin with `prefix` and are greater than `after`, in order of names (by their bytes).

        Fewer than `limit` means that there are no more.
        """
        ...

    async def delete_document(self, kind: str, name: str, version: int) -> None:
        """Delete this version; it is no error if there is no such document. Raises `Conflict` for another version."""
        ...
